package kubeletserving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// lab is a cluster with Node n, whose instance is what a kubelet asks for.
type lab struct {
	*Controller
	t        *testing.T
	client   *fake.Clientset
	clock    *clocktesting.FakeClock
	recorder *record.FakeRecorder
	node     *corev1.Node
	instance *cloud.Instance
	err      error // of the cloud
	asked    int
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{
		t: t, client: fake.NewClientset(), clock: clocktesting.NewFakeClock(time.Now()), recorder: record.NewFakeRecorder(10),
		node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}, Spec: corev1.NodeSpec{ProviderID: "fake:///n"}},
		instance: &cloud.Instance{ProviderID: "fake:///n", Name: "n", Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"}}},
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	if err := indexer.Add(l.node); err != nil {
		t.Fatal(err)
	}
	m, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Controller = New(Config{
		Client: l.client, Nodes: corelisters.NewNodeLister(indexer), Recorder: l.recorder, Metrics: m, Clock: l.clock,
		Owns: func(n *corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, "fake://") },
		Find: func(context.Context, *corev1.Node) (*cloud.Instance, error) {
			l.asked++
			return l.instance, l.err
		},
	})
	return l
}

// ask makes a request, as the API server and the informer do.
func (l *lab) ask(csr *certificatesv1.CertificateSigningRequest) {
	l.t.Helper()
	csr.CreationTimestamp = metav1.NewTime(l.clock.Now())
	if err := l.client.Tracker().Add(csr); err != nil {
		l.t.Fatal(err)
	}
	small, err := trim(csr)
	if err == nil {
		err = l.requests.GetIndexer().Add(small)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) named(name string, request []byte) *certificatesv1.CertificateSigningRequest {
	csr := csrOf("n", request)
	csr.Name = name
	return csr
}

// wrote returns the approvals written since.
func (l *lab) wrote() []string {
	var out []string
	for _, a := range l.client.Actions() {
		if u, ok := a.(k8stesting.UpdateAction); ok && a.GetVerb() == "update" {
			out = append(out, a.GetSubresource()+" "+u.GetObject().(*certificatesv1.CertificateSigningRequest).Name)
		}
	}
	l.client.ClearActions()
	return out
}

func (l *lab) wantEvent(want string) {
	l.t.Helper()
	select {
	case e := <-l.recorder.Events:
		if want == "" || !strings.Contains(e, want) {
			l.t.Errorf("event %q, want %q", e, want)
		}
	default:
		if want != "" {
			l.t.Errorf("no event, want %q", want)
		}
	}
}

func TestApproves(t *testing.T) {
	l := newLab(t)
	l.ask(l.named("a", encode(t, wanted("n"))))
	if err := l.sync(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if got := l.wrote(); !slices.Equal(got, []string{"approval a"}) {
		t.Errorf("wrote %q", got)
	}
	l.wantEvent("")
	if got := testutil.ToFloat64(l.Metrics.requests.WithLabelValues(resultApproved)); got != 1 {
		t.Errorf("%v are counted", got)
	}
	l.clock.Step(spacing) // the informer is behind
	if err := l.sync(t.Context(), "n"); err != nil || len(l.wrote()) > 0 {
		t.Errorf("it is approved again: %v", err)
	}
}

func TestLeavesPendingWhatIsNotSure(t *testing.T) {
	for _, tt := range []struct {
		name, event, result string
		set                 func(*lab)
		again               bool
	}{
		{"no node", "there is no Node", resultNode, func(l *lab) { l.Nodes = corelisters.NewNodeLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)) }, true},
		{"no provider ID", "no provider ID yet", resultNode, func(l *lab) { l.node.Spec.ProviderID = "" }, true},
		{"other cloud", "not this cloud's", resultForeign, func(l *lab) { l.node.Spec.ProviderID = "other:///n" }, false},
		{"excluded", cloud.ExcludeNode, resultForeign, func(l *lab) { l.node.Labels[cloud.ExcludeNode] = "true" }, false},
		{"cloud down", "does not say", resultCloud, func(l *lab) { l.err = cloud.Errorf(cloud.KindUnavailable, "down") }, true},
		{"no instance", "does not say", resultCloud, func(l *lab) { l.err = cloud.Errorf(cloud.KindNotFound, "gone") }, true},
		{"shut down", "shut down", resultMismatch, func(l *lab) { l.instance.Shutdown = true }, true},
		{"other machine's provider ID", "another name", resultMismatch, func(l *lab) { l.instance.Name = "m" }, true},
		{"other address", "IP address fd00::1", resultMismatch, func(l *lab) { l.instance.Addresses = l.instance.Addresses[:1] }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			tt.set(l)
			l.ask(l.named("a", encode(t, wanted("n"))))
			if err := l.sync(t.Context(), "n"); (err != nil) != tt.again {
				t.Errorf("it comes again: %v", err)
			}
			if got := l.wrote(); len(got) > 0 {
				t.Errorf("wrote %q", got)
			}
			l.wantEvent(tt.event)
			if got := testutil.ToFloat64(l.Metrics.requests.WithLabelValues(tt.result)); got != 1 {
				t.Errorf("%v are counted", got)
			}
		})
	}
}

// What a node or the cloud has chosen moves no cursor where an Event is shown.
func TestEventsArePrintable(t *testing.T) {
	const hostile = "x\x1b[31m\ny"
	l := newLab(t)
	l.err = cloud.Errorf(cloud.KindUnavailable, "%s", hostile)
	csr := l.named("a", encode(t, wanted("n")))
	messages := []string{l.judge(t.Context(), "n", csr).message, l.judge(t.Context(), hostile, csr).message}
	csr.Spec.Username = userPrefix + hostile
	for _, m := range append(messages, l.judge(t.Context(), hostile, csr).message) {
		if strings.ContainsAny(m, "\x1b\n") || !strings.Contains(m, "x [31m y") {
			t.Errorf("%q", m)
		}
	}
}

func TestNoCloudIsAskedAboutWhatNoKubeletAsksFor(t *testing.T) {
	l := newLab(t)
	l.ask(l.named("a", encode(t, wanted("other"))))
	if err := l.sync(t.Context(), "n"); err != nil {
		t.Error(err)
	}
	l.wantEvent("subject")
	if l.asked > 0 {
		t.Error("the cloud is asked")
	}
}

// Of a flood the newest is looked into, and then nothing for a while.
func TestFloodOfOneNode(t *testing.T) {
	l := newLab(t)
	request := encode(t, wanted("n"))
	for n := range 1000 {
		l.ask(l.named(fmt.Sprint("flood-", n), request))
		if n == 499 {
			l.clock.Step(time.Second)
			l.ask(l.named("newest", request))
			l.clock.Step(-time.Second)
		}
	}
	l.clock.Step(time.Second)
	for range 100 {
		if err := l.sync(t.Context(), "n"); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.wrote(); !slices.Equal(got, []string{"approval newest"}) || l.asked != 1 {
		t.Errorf("wrote %q, asked %d times", got, l.asked)
	}
	l.clock.Step(spacing)
	if l.wait("other"); len(l.looked) != 1 {
		t.Errorf("%d Nodes are remembered", len(l.looked))
	}
}

func TestOldRequestsAreDropped(t *testing.T) {
	l := newLab(t)
	l.ask(l.named("old", encode(t, wanted("n"))))
	l.clock.Step(lifetime + time.Second)
	if err := l.sync(t.Context(), "n"); err != nil || l.asked > 0 || len(l.client.Actions()) > 0 {
		t.Errorf("%v, asked %d times, %v", err, l.asked, l.client.Actions())
	}
}

func TestSomebodyElseHasDecided(t *testing.T) {
	for name, status := range map[string]certificatesv1.CertificateSigningRequestStatus{
		"denied": {Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}},
		"signed": {Certificate: []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			csr := l.named("a", encode(t, wanted("n")))
			l.ask(csr)
			csr = csr.DeepCopy()
			csr.Status = status
			if err := l.client.Tracker().Update(certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), csr, ""); err != nil {
				t.Fatal(err)
			}
			if err := l.sync(t.Context(), "n"); err != nil || len(l.wrote()) > 0 || l.asked > 0 {
				t.Errorf("%v, asked %d times", err, l.asked)
			}
		})
	}
	l := newLab(t)
	l.ask(l.named("a", encode(t, wanted("n"))))
	l.client.PrependReactor("update", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "certificatesigningrequests"}, "a", errors.New("denied meanwhile"))
	})
	if err := l.sync(t.Context(), "n"); !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict, after which it is read again", err)
	}
	if got := testutil.ToFloat64(l.Metrics.requests.WithLabelValues(resultApproved)); got != 0 {
		t.Errorf("%v are counted", got)
	}
}

// What the watch brings is small, whatever it was.
func TestTrim(t *testing.T) {
	csr := csrOf("n", make([]byte, 1<<20))
	csr.Annotations = map[string]string{"large": strings.Repeat("x", 1<<18)}
	small, err := trim(csr)
	if err != nil {
		t.Fatal(err)
	}
	got := small.(*certificatesv1.CertificateSigningRequest)
	if size := got.Size(); size > 200 || !isPending(got) || nodeOf(got) != "n" {
		t.Errorf("%d bytes, %+v", size, got)
	}
	csr.Status.Certificate = []byte("x")
	if small, _ = trim(csr); isPending(small.(*certificatesv1.CertificateSigningRequest)) {
		t.Error("it is decided")
	}
	csr.Status.Certificate, csr.Spec.Username = nil, "admin"
	if nodeOf(csr) != "" {
		t.Error("admin is no kubelet")
	}
}
