package tagging

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

const label = "example.org/tags"

var wanted = map[string]string{"team": "blue", "cost": "42"}

// instances are a cloud's, by provider ID, with their tags.
type instances struct {
	mu    sync.Mutex
	tags  map[string]map[string]string
	fail  map[string]error
	calls []string
	// during is called in each call.
	during func()
}

func (x *instances) change(what string, ids []string, do func(tags map[string]string)) []error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls = append(x.calls, fmt.Sprintf("%s %d", what, len(ids)))
	if x.during != nil {
		x.during()
	}
	errs := make([]error, len(ids))
	for k, id := range ids {
		switch {
		case x.fail[id] != nil:
			errs[k] = x.fail[id]
		case x.tags[id] == nil:
			errs[k] = cloud.Errorf(cloud.KindNotFound, "no instance %s", id)
		default:
			do(x.tags[id])
		}
	}
	return errs
}

func (x *instances) Tag(_ context.Context, ids []string, tags map[string]string) []error {
	return x.change("tag", ids, func(all map[string]string) { maps.Copy(all, tags) })
}

func (x *instances) Untag(_ context.Context, ids []string, tags map[string]string) []error {
	return x.change("untag", ids, func(all map[string]string) {
		maps.DeleteFunc(all, func(k, v string) bool { return tags[k] == v })
	})
}

// InstanceOf takes fake://<zone>/<name> for fake:///<name>.
func (x *instances) InstanceOf(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

func (x *instances) took() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.calls
	x.calls = nil
	return out
}

// lab is a cluster and a cloud.
type lab struct {
	*Controller
	t       *testing.T
	x       *instances
	clock   *clocktesting.FakeClock
	client  *fake.Clientset
	indexer cache.Indexer
}

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: labels}, Spec: corev1.NodeSpec{ProviderID: "fake:///" + name}}
}

// newLab has the Nodes, and an instance of each.
func newLab(t *testing.T, nodes ...*corev1.Node) *lab {
	t.Helper()
	l := &lab{t: t, x: &instances{tags: map[string]map[string]string{}, fail: map[string]error{}}, clock: clocktesting.NewFakeClock(time.Now())}
	var objects []runtime.Object
	for _, n := range nodes {
		objects = append(objects, n)
		l.x.tags[n.Spec.ProviderID] = map[string]string{}
	}
	l.client = fake.NewClientset(objects...)
	f := informers.NewSharedInformerFactory(l.client, 0)
	l.indexer = f.Core().V1().Nodes().Informer().GetIndexer()
	l.Controller = New(Config{Client: l.client, Nodes: f.Core().V1().Nodes(), Instances: l.x, Label: label,
		Owns: func(n *corev1.Node) bool { return !strings.HasPrefix(n.Name, "foreign") }, Newborn: 5 * time.Minute, Tags: wanted, Clock: l.clock})
	l.sync()
	return l
}

// sync has the lister see what there is.
func (l *lab) sync() {
	l.t.Helper()
	list, err := l.client.CoreV1().Nodes().List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	var all []any
	for n := range list.Items {
		all = append(all, &list.Items[n])
	}
	if err := l.indexer.Replace(all, ""); err != nil {
		l.t.Fatal(err)
	}
}

// remove removes a Node, as the informer tells it.
func (l *lab) remove(name string, late bool) {
	l.t.Helper()
	obj, _, err := l.indexer.GetByKey(name)
	if err != nil || obj == nil {
		l.t.Fatalf("%v, %v", obj, err)
	}
	if err := l.client.CoreV1().Nodes().Delete(l.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
	l.sync()
	if late {
		obj = cache.DeletedFinalStateUnknown{Key: name, Obj: obj}
	}
	l.handlers(make(chan struct{}, 1)).OnDelete(obj)
}

func (l *lab) wantTags(want map[string]bool) {
	l.t.Helper()
	got := map[string]bool{}
	for id, tags := range l.x.tags {
		got[strings.TrimPrefix(id, "fake:///")] = maps.Equal(tags, wanted)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("which have the tags (-want +got):\n%s", diff)
	}
}

func (l *lab) wantCalls(want ...string) {
	l.t.Helper()
	if got := l.x.took(); !slices.Equal(got, want) {
		l.t.Errorf("calls %q, want %q", got, want)
	}
}

// The sums are md5sum's.
func TestSum(t *testing.T) {
	for want, tags := range map[string]map[string]string{
		"d41d8cd98f00b204e9800998ecf8427e": nil, "9dc867b7f2bf1e40160f90e46628512e": {"b": "2", "a": "1"},
	} {
		if got := sum(tags); got != want {
			t.Errorf("%v: %s, want %s", tags, got, want)
		}
	}
}

func TestManyNodesAreTaggedTogetherAndOnce(t *testing.T) {
	nodes := []*corev1.Node{node("done", map[string]string{label: sum(wanted)}), node("stale", map[string]string{label: "other"}), node("foreign", nil)}
	want := map[string]bool{"done": false, "stale": true, "foreign": false}
	for n := range 300 {
		nodes = append(nodes, node(fmt.Sprint("n", n), nil))
		want[nodes[len(nodes)-1].Name] = true
	}
	bare := node("bare", nil)
	bare.Spec.ProviderID = ""
	l := newLab(t, append(nodes, bare)...)
	delete(l.x.tags, "")
	if next := l.pass(t.Context()); !next.IsZero() {
		t.Errorf("it comes again at %s", next)
	}
	l.wantCalls("tag 301")
	l.wantTags(want)
	l.sync()
	l.pass(t.Context())
	l.wantCalls()
}

func TestNewInstancesAreTriedAgain(t *testing.T) {
	young := node("young", nil)
	l := newLab(t, young, node("other", nil))
	tags := l.x.tags[young.Spec.ProviderID]
	delete(l.x.tags, young.Spec.ProviderID)
	l.x.fail["fake:///other"] = cloud.Errorf(cloud.KindUnavailable, "down")
	next := l.pass(t.Context())
	if next != l.clock.Now().Add(retryFirst) {
		t.Errorf("it comes again at %s", next)
	}
	l.wantCalls("tag 2")
	if l.pass(t.Context()); len(l.x.took()) > 0 {
		t.Error("it comes again at once")
	}
	l.x.tags[young.Spec.ProviderID] = tags
	l.clock.Step(retryFirst)
	l.pass(t.Context())
	l.wantTags(map[string]bool{"young": true, "other": false})
	for range 20 {
		l.clock.Step(retryMost)
		l.sync()
		next = l.pass(t.Context())
	}
	if next != l.clock.Now().Add(retryMost) {
		t.Errorf("it comes again at %s", next)
	}
}

// A tombstone of a Node whose end was missed is as good as its end.
func TestTagsGoWithTheNode(t *testing.T) {
	l := newLab(t, node("a", nil), node("b", nil), node("c", nil), node("foreign", map[string]string{label: sum(wanted)}), node("untagged", map[string]string{label: "other"}))
	l.pass(t.Context())
	l.sync()
	l.x.tags["fake:///b"]["team"] = "red"
	maps.Copy(l.x.tags["fake:///foreign"], wanted)
	l.x.took()
	for _, name := range []string{"a", "b", "foreign"} {
		l.remove(name, name == "a")
	}
	l.handlers(make(chan struct{}, 1)).OnDelete(cache.DeletedFinalStateUnknown{Key: "unknown"})
	l.pass(t.Context())
	l.wantCalls("untag 2")
	l.wantTags(map[string]bool{"a": false, "b": false, "c": true, "foreign": true, "untagged": true})
	if diff := cmp.Diff(map[string]string{"team": "red"}, l.x.tags["fake:///b"]); diff != "" {
		t.Errorf("what somebody else has set (-want +got):\n%s", diff)
	}
	l.pass(t.Context())
	l.wantCalls()
}

func TestTagsThatOthersSetStay(t *testing.T) {
	l := newLab(t, node("old", map[string]string{label: "other"}))
	maps.Copy(l.x.tags["fake:///old"], wanted)
	l.remove("old", false)
	l.pass(t.Context())
	l.wantCalls()
	l.wantTags(map[string]bool{"old": true})
}

func TestANodeThatComesBackKeepsItsTags(t *testing.T) {
	l := newLab(t, node("a", nil))
	l.pass(t.Context())
	l.sync()
	l.remove("a", false)
	back := node("a", nil)
	back.UID = "uid-2"
	if _, err := l.client.CoreV1().Nodes().Create(t.Context(), back, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.sync()
	l.x.took()
	l.pass(t.Context())
	l.wantCalls("tag 1")
	l.wantTags(map[string]bool{"a": true})
}

// A kubelet that registers anew may write the provider ID in another form.
func TestANodeThatComesBackInAnotherFormKeepsItsTags(t *testing.T) {
	l := newLab(t, node("a", nil))
	l.pass(t.Context())
	l.sync()
	l.remove("a", false)
	back := node("a", map[string]string{label: sum(wanted)})
	back.UID, back.Spec.ProviderID = "uid-2", "fake://zone/a"
	if _, err := l.client.CoreV1().Nodes().Create(t.Context(), back, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.sync()
	l.x.took()
	l.pass(t.Context())
	l.wantCalls()
	l.wantTags(map[string]bool{"a": true})
}

// A Node that goes between its instance's tags and its label leaves none.
func TestANodeThatGoesMeanwhile(t *testing.T) {
	l := newLab(t, node("a", nil))
	l.x.during = func() { l.x.during = nil; l.remove("a", false) }
	l.pass(t.Context())
	l.wantCalls("tag 1")
	l.pass(t.Context())
	l.wantCalls("untag 1")
	l.wantTags(map[string]bool{"a": false})
}

func TestALabelThatCannotBeWrittenComesAgain(t *testing.T) {
	l := newLab(t, node("a", nil))
	fail := true
	l.client.PrependReactor("patch", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) { return fail, nil, errors.New("down") })
	if next := l.pass(t.Context()); next.IsZero() {
		t.Error("it does not come again")
	}
	fail = false
	l.clock.Step(retryFirst)
	l.pass(t.Context())
	l.wantCalls("tag 1", "tag 1")
	if n, err := l.client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); err != nil || n.Labels[label] != sum(wanted) {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestTagsThatCannotBeRemovedAreGivenUp(t *testing.T) {
	l := newLab(t, node("a", map[string]string{label: sum(wanted)}), node("b", map[string]string{label: sum(wanted)}))
	l.x.fail["fake:///a"] = cloud.Errorf(cloud.KindDenied, "no")
	delete(l.x.tags, "fake:///b") // it is not found, so that it has no tags
	l.remove("a", false)
	l.remove("b", false)
	for range 2 * untagTries {
		l.pass(t.Context())
		l.clock.Step(retryMost)
	}
	if calls := l.x.took(); len(calls) != untagTries || calls[0] != "untag 2" || calls[1] != "untag 1" || len(l.gone) > 0 {
		t.Errorf("%q, left %v", calls, l.gone)
	}
}

func TestRun(t *testing.T) {
	client := fake.NewClientset(node("a", nil))
	x := &instances{tags: map[string]map[string]string{"fake:///a": {}, "fake:///b": {}}}
	f := informers.NewSharedInformerFactory(client, 0)
	clock := clocktesting.NewFakeClock(time.Now())
	c := New(Config{Client: client, Nodes: f.Core().V1().Nodes(), Instances: x, Label: label, Owns: func(*corev1.Node) bool { return true }, Tags: wanted, Clock: clock})
	ctx, cancel := context.WithCancel(t.Context())
	f.Core().V1().Nodes().Informer()
	f.StartWithContext(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	has := func(id string, want bool) {
		t.Helper()
		eventually.Met(t, func() string {
			clock.Step(pause)
			x.mu.Lock()
			defer x.mu.Unlock()
			if got := maps.Equal(x.tags[id], wanted); got != want {
				return fmt.Sprintf("%s has its tags: %t", id, got)
			}
			return ""
		})
	}
	has("fake:///a", true)
	if _, err := client.CoreV1().Nodes().Create(ctx, node("b", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	has("fake:///b", true)
	if err := client.CoreV1().Nodes().Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has("fake:///a", false)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	f.Shutdown()
}
