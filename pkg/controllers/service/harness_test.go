package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeCloud is a cloud of load balancers at the level of the contract, with a log of calls.
type fakeCloud struct {
	mu     sync.Mutex
	calls  []string
	ensure func(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error)
	update func(ctx context.Context, spec *cloud.LoadBalancerSpec) error
	remove func(ctx context.Context, spec *cloud.LoadBalancerSpec) error
}

func (f *fakeCloud) log(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

// take returns the calls since the last take.
func (f *fakeCloud) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.calls
	f.calls = nil
	return out
}

// set changes the fake under its lock.
func (f *fakeCloud) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func memberNames(spec *cloud.LoadBalancerSpec) string {
	var out []string
	for _, m := range spec.Members {
		out = append(out, m.Node.NodeName)
	}
	return strings.Join(out, " ")
}

func (f *fakeCloud) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	verify, class := "", ""
	if spec.Verify {
		verify = " verify"
	}
	if spec.Class != "" {
		class = " class " + spec.Class
	}
	f.log("ensure %s uid %s [%s]%s%s", spec.Name, spec.UID, memberNames(spec), class, verify)
	f.mu.Lock()
	ensure := f.ensure
	f.mu.Unlock()
	if ensure != nil {
		return ensure(ctx, spec)
	}
	return statusOf(spec), nil
}

func statusOf(spec *cloud.LoadBalancerSpec) *cloud.LoadBalancerStatus {
	return &cloud.LoadBalancerStatus{
		Ingress:     []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}},
		ID:          "id-of-" + spec.Name,
		Annotations: map[string]string{"lb.example.org/id": "id-of-" + spec.Name, "lb.example.org/address": "192.0.2.1"},
	}
}

func (f *fakeCloud) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	f.log("update %s [%s]", spec.Name, memberNames(spec))
	f.mu.Lock()
	update := f.update
	f.mu.Unlock()
	if update != nil {
		return update(ctx, spec)
	}
	return nil
}

func (f *fakeCloud) Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	class := ""
	if spec.Class != "" {
		class = " class " + spec.Class
	}
	f.log("delete %s uid %s%s", spec.Name, spec.UID, class)
	f.mu.Lock()
	remove := f.remove
	f.mu.Unlock()
	if remove != nil {
		return remove(ctx, spec)
	}
	return nil
}

var testProvider = &cloud.Provider{Name: "fake", Annotations: testVocabulary, LoadBalancing: cloud.LoadBalancerTraits{
	Reach: cloud.ByAnyIP, NodePorts: true, Classes: cloud.OwnClasses("fake", "gold", "silver"),
}}

var testVocabulary = []cloud.Annotation{
	{Name: "lb.example.org/id", Type: cloud.TypeString, Written: true},
	{Name: "lb.example.org/address", Type: cloud.TypeString, Written: true, NotRead: true},
	{Name: "lb.example.org/timeout", Type: cloud.TypeEnum, Enum: []string{"5"}},
	{Name: "lb.example.org/nodes", Type: cloud.TypeSelector},
}

// world is a cluster with a controller in it. The API server is client-go's fake with
// resource versions, UIDs and finalizers that work like the real ones.
type world struct {
	t         testing.TB
	cloud     *fakeCloud
	clock     *clocktesting.FakeClock
	client    *fake.Clientset
	informers informers.SharedInformerFactory
	recorder  *record.FakeRecorder
	c         *Controller

	mu       sync.Mutex
	versions int
	patches  int
	patchErr error
}

func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, cloud: &fakeCloud{}, client: fake.NewClientset(), recorder: record.NewFakeRecorder(100000),
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	w.client.PrependReactor("patch", "services", w.patch)
	w.informers = informers.NewSharedInformerFactory(w.client, 0)
	config := Config{
		LoadBalancers: w.cloud, Provider: testProvider,
		Classes: lb.NewClasses(&testProvider.LoadBalancing, true),
		Cluster: cloud.Cluster{Name: "c", UID: "cluster-uid"}, Client: w.client.CoreV1(),
		Services: w.informers.Core().V1().Services(), Nodes: w.informers.Core().V1().Nodes(),
		Recorder: w.recorder, Workers: 2, SyncPeriod: time.Hour, Clock: w.clock,
	}
	if change != nil {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.c = c
	t.Cleanup(c.queue.ShutDown)
	return w
}

// patch is the API server's part of a patch of a Service.
func (w *world) patch(action kubetesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := action.(kubetesting.PatchAction)
	if !ok || p.GetSubresource() != "status" || p.GetPatchType() != types.StrategicMergePatchType {
		return true, nil, fmt.Errorf("unexpected patch %#v", action)
	}
	w.patches++
	if w.patchErr != nil {
		return true, nil, w.patchErr
	}
	obj, err := w.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("services"), p.GetNamespace(), p.GetName())
	if err != nil {
		return true, nil, err
	}
	before := obj.(*corev1.Service)
	data, err := json.Marshal(before)
	if err != nil {
		return true, nil, err
	}
	data, err = strategicpatch.StrategicMergePatch(data, p.GetPatch(), corev1.Service{})
	if err != nil {
		return true, nil, err
	}
	after := &corev1.Service{}
	if err := json.Unmarshal(data, after); err != nil {
		return true, nil, err
	}
	if after.UID != before.UID {
		return true, nil, apierrors.NewConflict(corev1.Resource("services"), p.GetName(), errors.New("the UID differs"))
	}
	after.Spec = before.Spec
	return true, after, w.store(after)
}

// store stores a Service with a new resource version; one that is deleted goes with its last
// finalizer. The lock must be held.
func (w *world) store(s *corev1.Service) error {
	services := corev1.SchemeGroupVersion.WithResource("services")
	if s.DeletionTimestamp != nil && len(s.Finalizers) == 0 {
		return w.client.Tracker().Delete(services, s.Namespace, s.Name)
	}
	w.versions++
	s.ResourceVersion = strconv.Itoa(1000 + w.versions)
	if _, err := w.client.Tracker().Get(services, s.Namespace, s.Name); err != nil {
		return w.client.Tracker().Create(services, s, s.Namespace)
	}
	return w.client.Tracker().Update(services, s, s.Namespace)
}

func service(name string, change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-1"), Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func hasFinalizer(s *corev1.Service) bool { return slices.Contains(s.Finalizers, lb.Finalizer) }

// create stores a Service; the informer does not see it yet.
func (w *world) create(s *corev1.Service) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.store(s); err != nil {
		w.t.Fatal(err)
	}
}

// stored returns the Service as the API server has it, nil when it is gone.
func (w *world) stored(name string) *corev1.Service {
	w.t.Helper()
	obj, err := w.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("services"), "default", name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return obj.(*corev1.Service).DeepCopy()
}

// change changes a stored Service, as users do.
func (w *world) change(name string, change func(*corev1.Service)) {
	w.t.Helper()
	s := w.stored(name)
	s.Annotations = overlay(s.Annotations, nil)
	change(s)
	w.create(s)
}

// delete deletes a Service, as users do.
func (w *world) delete(name string) {
	w.t.Helper()
	w.change(name, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()} })
}

// see makes the informer have what is stored, for tests that call sync themselves.
func (w *world) see(name string) {
	w.t.Helper()
	indexer := w.informers.Core().V1().Services().Informer().GetIndexer()
	s := w.stored(name)
	var err error
	if s == nil {
		err = indexer.Delete(service(name, nil))
	} else {
		err = indexer.Update(s)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// sync lets the informer catch up and has the Service synced.
func (w *world) sync(name string) time.Duration {
	w.t.Helper()
	w.see(name)
	return w.c.sync(w.t.Context(), "default/"+name)
}

func node(name string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: "fake:///" + name},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}},
	}
	if change != nil {
		change(n)
	}
	return n
}

// setNodes makes the informer have these Nodes and no others.
func (w *world) setNodes(nodes ...*corev1.Node) {
	w.t.Helper()
	objects := make([]any, 0, len(nodes))
	for _, n := range nodes {
		objects = append(objects, n)
	}
	if err := w.informers.Core().V1().Nodes().Informer().GetIndexer().Replace(objects, ""); err != nil {
		w.t.Fatal(err)
	}
	w.c.nodes.changed(false)
}

// events returns the events since the last time, without those of the fixture.
func (w *world) events() []string {
	var out []string
	for {
		select {
		case e := <-w.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func (w *world) wantCalls(want ...string) {
	w.t.Helper()
	if got := w.cloud.take(); !slices.Equal(got, want) {
		w.t.Errorf("calls to the cloud:\n  got  %q\n  want %q", got, want)
	}
}

// wantEvents checks the events since the last time: each begins with its part of want.
func (w *world) wantEvents(want ...string) {
	w.t.Helper()
	got := w.events()
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		w.t.Errorf("events:\n  got  %q\n  want %q", got, want)
	}
}

func (w *world) wantPatches(want int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.patches != want {
		w.t.Errorf("%d writes to the API server, want %d", w.patches, want)
	}
	w.patches = 0
}

// settled is a world with a Service "web" whose load balancer is complete.
func settled(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := newWorld(t, change)
	w.setNodes(node("n1", nil), node("n2", nil))
	w.create(service("web", nil))
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1 n2]")
	w.events()
	w.wantPatches(2)
	return w
}
