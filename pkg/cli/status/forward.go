package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/utils/ptr"

	"github.com/isthmus-cloud/isthmus/manifests"
	ccmstatus "github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
)

const (
	// tokenLife is how long the token of an account is good: the API server grants no less.
	tokenLife = 10 * time.Minute
	// forwardTimeout is forwarder's timeout.
	forwardTimeout = 5 * time.Second
	// portName is the name of the secure port among a container's, and defaultPort its number where there is no such name.
	portName    = "https"
	defaultPort = 10258
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
	end    context.CancelFunc
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
	return &forwarder{client: client, config: config, account: as, now: now, timeout: forwardTimeout, end: func() {}}, nil
}

// ask returns what the leader knows; holder is its identity by the lease. An error says why it is not known; the next call begins
// anew then.
func (f *forwarder) ask(ctx context.Context, holder string) (*ccmstatus.Snapshot, error) {
	if f.leader == nil || f.holder != holder || !f.now().Before(f.until) {
		f.close()
		if err := f.open(ctx, holder); err != nil {
			return nil, err
		}
	}
	s, err := f.leader.ask(ctx)
	if err != nil {
		f.close()
	}
	return s, err
}

func (f *forwarder) close() {
	f.end()
	if f.leader != nil {
		f.leader.http.CloseIdleConnections()
	}
	f.leader, f.end = nil, func() {}
}

func (f *forwarder) open(ctx context.Context, holder string) error {
	pod, err := f.pod(ctx, holder)
	if err != nil {
		return err
	}
	token, err := f.token(ctx)
	if err != nil {
		return err
	}
	port, err := f.forward(ctx, pod)
	if err != nil {
		return fmt.Errorf("port of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	f.holder, f.until = holder, f.now().Add(tokenLife/2)
	f.leader, err = newLeader("pod "+pod.Namespace+"/"+pod.Name, &rest.Config{
		Host: "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), UserAgent: f.config.UserAgent, Timeout: f.config.Timeout,
		BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }, //nolint:nilnil // it is how none is named
	})
	return err
}

// pod is the one that leads: in the account's namespace, where the chart and the manifests put both. The identity begins with the name
// of its host: its own, or its Node's on the host's network.
func (f *forwarder) pod(ctx context.Context, holder string) (*corev1.Pod, error) {
	host, _, _ := strings.Cut(holder, "_")
	namespace := f.account.Namespace
	list, err := f.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: manifests.Pods, Limit: maxItems})
	if err != nil {
		return nil, fmt.Errorf("list pods in namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if p.DeletionTimestamp == nil && (p.Name == host || p.Spec.HostNetwork && p.Spec.NodeName == host) {
			return p, nil
		}
	}
	return nil, fmt.Errorf("namespace %s has no pod of the leader %s with the labels %s; name another namespace with --%s, or its port with --leader-url", namespace, holder, manifests.Pods, accountFlag)
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

// forward leads a port of this machine to the pod's until f.end is called.
func (f *forwarder) forward(ctx context.Context, pod *corev1.Pod) (uint16, error) {
	if f.begun != nil { // there is no way to break it off
		select {
		case <-f.begun:
			f.begun = nil
		default:
			return 0, errors.New("the API server or the kubelet has still not answered the last look")
		}
	}
	dialer, err := f.dialer(pod)
	if err != nil {
		return 0, err
	}
	ctx, end := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	ready, ended := make(chan struct{}), make(chan struct{})
	ports := []string{"0:" + strconv.Itoa(int(securePort(pod)))}
	p, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{"127.0.0.1"}, ports, ready, io.Discard, io.Discard)
	if err != nil {
		end()
		return 0, err
	}
	var failed error
	go func() {
		defer close(ended)
		failed = p.ForwardPorts()
	}()
	late := time.NewTimer(f.timeout)
	defer late.Stop()
	select {
	case <-ready:
		f.end = end
		got, err := p.GetPorts()
		if err != nil {
			return 0, err
		}
		return got[0].Local, nil
	case <-ended:
		err = failed
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late.C:
		f.begun, err = ended, fmt.Errorf("the API server or the kubelet has not answered after %s", f.timeout)
	}
	end()
	return 0, err
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

func securePort(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == portName {
				return p.ContainerPort
			}
		}
	}
	return defaultPort
}
