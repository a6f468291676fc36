package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/utils/ptr"

	"github.com/isthmus-cloud/isthmus/manifests"
	ccmstatus "github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

const (
	// tokenLife is how long the token of an account is good: the API server grants no less.
	tokenLife = 10 * time.Minute
	// forwardTimeout is forwarder's timeout.
	forwardTimeout = 5 * time.Second
	// portName is the name of the secure port among a container's, and defaultPort its number where there is no such name.
	portName    = "https"
	defaultPort = 10258
	// maxPods bounds how many pods of one host are asked, and so how long that takes.
	maxPods = 3
)

// forwarder asks the leader at the port of its pod, to which the API server and the kubelet lead as with kubectl port-forward. The
// port's certificate is one that the manager has made for itself, so nobody vouches for it: what is sent there is not the caller's
// token but one of account, which may read the status and nothing else.
//
// It is used by one goroutine at a time.
type forwarder struct {
	client  kubernetes.Interface
	config  *rest.Config
	account access.Account
	now     func() time.Time
	// timeout bounds how long is waited for the API server and the kubelet to lead to a port.
	timeout time.Duration

	// holder is the identity of who answers at leader, which is nil where no port is forwarded, until the token is to be renewed.
	holder string
	leader *leader
	until  time.Time
	conn   httpstream.Connection // nil where there is none
	// begun is closed at the end of a forwarding that was given up before it had begun; nil where there is none.
	begun <-chan struct{}
}

// newForwarder returns how the leader is asked. The two requests that are no reads, for a token and for a port, store nothing, and the
// API server refuses them as dry runs: so they go past config's.
func newForwarder(config *rest.Config, as access.Account, now func() time.Time) (*forwarder, error) {
	config = rest.CopyConfig(config)
	config.WrapTransport = nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &forwarder{client: client, config: config, account: as, now: now, timeout: forwardTimeout}, nil
}

// ask returns what the leader knows; holder is its identity by the lease. An error says why it is not known; the next call begins
// anew then.
func (f *forwarder) ask(ctx context.Context, holder string) (*ccmstatus.Snapshot, error) {
	if f.leader == nil || f.holder != holder || !f.now().Before(f.until) {
		f.close()
		return f.find(ctx, holder)
	}
	return f.answer(ctx, holder)
}

// find asks the pods that may be the leader's until one is.
func (f *forwarder) find(ctx context.Context, holder string) (*ccmstatus.Snapshot, error) {
	pods, err := f.pods(ctx, holder)
	if err != nil {
		return nil, err
	}
	token, err := f.token(ctx)
	if err != nil {
		return nil, err
	}
	f.holder, f.until = holder, f.now().Add(tokenLife/2)
	var errs []error
	for i := range pods {
		err := f.open(ctx, &pods[i], token)
		if err == nil {
			var s *ccmstatus.Snapshot
			if s, err = f.answer(ctx, holder); err == nil {
				return s, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// answer is that of the port that is forwarded. Managers of several clouds run on one host, each with a lease of its own: another one
// leads, too, but is not the one that was asked for.
func (f *forwarder) answer(ctx context.Context, holder string) (*ccmstatus.Snapshot, error) {
	s, err := f.leader.ask(ctx)
	if err == nil && s.Leader != holder {
		err = fmt.Errorf("%s leads by another lease, or since a moment ago: it is %s, and not %s", f.leader.host, output.Line(s.Leader), holder)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return s, nil
}

func (f *forwarder) close() {
	if f.conn != nil {
		_ = f.conn.Close() // and all that goes by it
	}
	f.leader, f.conn = nil, nil
}

func (f *forwarder) open(ctx context.Context, pod *corev1.Pod, token string) error {
	name := "pod " + pod.Namespace + "/" + pod.Name
	conn, err := f.forward(ctx, pod)
	if err != nil {
		return fmt.Errorf("port of %s: %w", name, err)
	}
	f.conn = conn
	to := &port{by: conn, number: securePort(pod)}
	f.leader, err = newLeader(name, &rest.Config{
		Host: "https://localhost:" + to.number, UserAgent: f.config.UserAgent, Timeout: f.config.Timeout,
		BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Dial:  to.dial,
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }, //nolint:nilnil // it is how none is named
	})
	return err
}

// pods are those that may be the leader's: in the account's namespace, where the chart and the manifests put both, and on its host.
func (f *forwarder) pods(ctx context.Context, holder string) ([]corev1.Pod, error) {
	host, _, _ := strings.Cut(holder, "_")
	namespace := f.account.Namespace
	list, err := f.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: manifests.Pods, Limit: access.PageSize})
	if err != nil {
		return nil, fmt.Errorf("list pods in namespace %s: %w", namespace, err)
	}
	found := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !runsAt(host, &p) })
	if len(found) == 0 {
		return nil, fmt.Errorf("namespace %s has no pod of the leader %s with the labels %s; name another namespace with --%s, or its port with --leader-url", namespace, holder, manifests.Pods, accountFlag)
	}
	return found[:min(len(found), maxPods)], nil
}

// runsAt reports whether a pod runs, and has the name of a host, with which an identity begins: its own, or its machine's on the host's
// network. A kubelet chooses the names of the pods that it mirrors, but can put them on its own Node only.
func runsAt(host string, p *corev1.Pod) bool {
	_, mirrored := p.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case p.DeletionTimestamp != nil, p.Status.Phase == corev1.PodFailed, p.Status.Phase == corev1.PodSucceeded:
		return false
	case p.Spec.HostNetwork:
		return sameHost(host, p.Spec.NodeName)
	}
	return p.Name == host && !mirrored
}

// sameHost reports whether a Node's name is a machine's: the one may have the domain that the other has not.
func sameHost(host, node string) bool {
	a, inA, _ := strings.Cut(strings.ToLower(host), ".")
	b, inB, _ := strings.Cut(node, ".")
	return a == b && (inA == "" || inB == "" || strings.EqualFold(inA, inB))
}

func (f *forwarder) token(ctx context.Context) (string, error) {
	t, err := f.client.CoreV1().ServiceAccounts(f.account.Namespace).CreateToken(ctx, f.account.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLife / time.Second))},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no ServiceAccount %s, which the chart and the manifests make; name another with --%s", f.account, accountFlag)
	case err != nil:
		return "", fmt.Errorf("token of ServiceAccount %s: %w", f.account, err)
	}
	return t.Status.Token, nil
}

// forward leads to pod's ports until what it returns is closed. No port of this machine is opened, as kubectl port-forward does: what
// listens on that when the forwarding has ended, another user's program perhaps, would get the token.
func (f *forwarder) forward(ctx context.Context, pod *corev1.Pod) (httpstream.Connection, error) {
	if f.begun != nil { // there is no way to break it off
		select {
		case <-f.begun:
			f.begun = nil
		default:
			return nil, errors.New("the API server or the kubelet has still not answered the last look")
		}
	}
	dialer, err := f.dialer(pod)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the API server or the kubelet has not answered after %s", f.timeout))
	defer end()
	begun, ended := make(chan httpstream.Connection), make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		conn, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		if err == nil && protocol != portforward.PortForwardProtocolV1Name {
			_ = conn.Close()
			err = fmt.Errorf("the API server or the kubelet forwards by %.100q", protocol)
		}
		if failed = err; err != nil {
			return
		}
		select {
		case begun <- conn:
		case <-ctx.Done():
			_ = conn.Close()
		}
	}()
	select {
	case conn := <-begun:
		return conn, nil
	case <-ended:
		return nil, cmp.Or(failed, context.Cause(ctx))
	case <-ctx.Done():
		f.begun = ended
		return nil, context.Cause(ctx)
	}
}

// dialer reaches the port by a WebSocket, and by SPDY where the API server or a proxy before it does not know that, as kubectl does.
func (f *forwarder) dialer(pod *corev1.Pod) (httpstream.Dialer, error) {
	at := f.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(at, f.config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(f.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport, Timeout: f.config.Timeout}, http.MethodPost, at)
	return portforward.NewFallbackDialerForStreaming(socket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

func securePort(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == portName {
				return strconv.Itoa(int(p.ContainerPort))
			}
		}
	}
	return strconv.Itoa(defaultPort)
}
