package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

// oneAnswer is a cloud that gives everyone the same answer.
type oneAnswer struct {
	instance *cloud.Instance
	err      error
	asked    int
}

func (o *oneAnswer) Find(_ context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	o.asked++
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	for k := range out {
		out[k] = cloud.Result[*cloud.Instance]{Value: o.instance, Err: o.err}
	}
	return out
}

func (o *oneAnswer) Get(context.Context, cloud.InstanceRef) (*cloud.Instance, error) {
	o.asked++
	return o.instance, o.err
}

func testInstances(t *testing.T, answer *oneAnswer) *Adapter {
	t.Helper()
	return testInstancesOf(t, cloud.Provider{Instances: answer})
}

func testInstancesOf(t *testing.T, provider cloud.Provider) *Adapter {
	t.Helper()
	provider.Name, provider.Ready = "test", func(context.Context) error { return nil }
	p, err := decorate.New(&provider,
		caller.Options{Reads: caller.Policy{Attempts: 1, BackoffBase: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	a := NewAdapter(ctx, p, corelisters.NewNodeLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})), time.Second)
	t.Cleanup(func() { end(); a.End() })
	return a
}

func instanceNode(providerID string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{ProviderID: providerID, Taints: taints}}
}

// Only "not found" lets the framework delete a Node, and no error lets it taint one.
func TestInstanceErrorsAreNoAnswers(t *testing.T) {
	missing := cloud.Errorf(cloud.KindNotFound, "no such server")
	failures := map[string]error{
		"no kind":            errors.New("connection reset"),
		"joined with others": errors.Join(missing, errors.New("connection reset")),
	}
	for k := cloud.KindUnknown; k <= cloud.KindFailed; k++ {
		if k != cloud.KindNotFound {
			failures[k.String()] = cloud.Errorf(k, "failed")
		}
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			i := testInstances(t, &oneAnswer{err: failure})
			if _, err := i.InstanceExists(t.Context(), instanceNode("test:///1")); err == nil {
				t.Error("InstanceExists takes a failure for an answer")
			}
			if shutdown, err := i.InstanceShutdown(t.Context(), instanceNode("test:///1")); err == nil || shutdown {
				t.Errorf("InstanceShutdown takes a failure for the answer %t", shutdown)
			}
			if _, err := i.InstanceMetadata(t.Context(), instanceNode("test:///1")); err == nil {
				t.Error("InstanceMetadata takes a failure for an answer")
			}
		})
	}
	i := testInstances(t, &oneAnswer{err: missing})
	if exists, err := i.InstanceExists(t.Context(), instanceNode("test:///1")); exists || err != nil {
		t.Errorf("not found: got %t, %v", exists, err)
	}
	if shutdown, err := i.InstanceShutdown(t.Context(), instanceNode("test:///1")); err == nil || shutdown {
		t.Errorf("not found: InstanceShutdown says %t, %v", shutdown, err)
	}
}

// Complaints 614, 1455 and 1826 of vSphere's manager: a virtual IP on the machine's interface was chosen, and the framework refused
// the Node, whose kubelet was given another one.
func TestAddressesThatTheKubeletWasGiven(t *testing.T) {
	address := func(kind corev1.NodeAddressType, ip string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: kind, Address: ip}
	}
	instance := &cloud.Instance{
		Addresses: []corev1.NodeAddress{address(corev1.NodeHostName, "a"), address(corev1.NodeInternalIP, "10.0.0.100"), address(corev1.NodeExternalIP, "10.0.0.100")},
		OtherIPs:  []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")},
	}
	for given, want := range map[string]string{
		"":                  "a 10.0.0.100 10.0.0.100",
		"10.0.0.5":          "a 10.0.0.5 10.0.0.5",
		"10.0.0.5, fd00::5": "a 10.0.0.5 10.0.0.5 fd00::5",
		"10.0.0.100":        "a 10.0.0.100 10.0.0.100",
		"10.9.9.9":          "a 10.0.0.100 10.0.0.100", // not the machine's: the framework says so
		"x":                 "a 10.0.0.100 10.0.0.100",
	} {
		node := instanceNode("test:///1")
		node.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: given}
		meta, err := testInstances(t, &oneAnswer{instance: instance}).InstanceMetadata(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range meta.NodeAddresses {
			got = append(got, a.Address)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
	if instance.Addresses[1].Address != "10.0.0.100" {
		t.Error("the shared answer was changed")
	}
}

// A node of another cloud is neither looked up nor touched.
func TestForeignInstances(t *testing.T) {
	answer := &oneAnswer{err: cloud.Errorf(cloud.KindNotFound, "no such server")}
	i := testInstances(t, answer)
	node := instanceNode("other://1")
	if exists, err := i.InstanceExists(t.Context(), node); !exists || err != nil {
		t.Errorf("InstanceExists: got %t, %v", exists, err)
	}
	if shutdown, err := i.InstanceShutdown(t.Context(), node); shutdown || err != nil {
		t.Errorf("InstanceShutdown: got %t, %v", shutdown, err)
	}
	if m, err := i.InstanceMetadata(t.Context(), node); err != nil || m == nil || m.ProviderID != node.Spec.ProviderID || len(m.NodeAddresses) > 0 {
		t.Errorf("InstanceMetadata: got %+v, %v", m, err)
	}
	waiting := instanceNode("other://1", corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider})
	if m, err := i.InstanceMetadata(t.Context(), waiting); m != nil || err != nil {
		t.Errorf("InstanceMetadata of an uninitialized node: got %+v, %v", m, err)
	}
	if answer.asked > 0 {
		t.Errorf("the cloud was asked %d times", answer.asked)
	}
}

// hanging answers when it is let.
type hanging struct {
	oneAnswer
	began, let chan struct{}
}

func (h *hanging) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	close(h.began)
	<-ctx.Done()
	<-h.let
	return h.oneAnswer.Find(ctx, refs)
}

// What is under way when the term ends is ended, whatever context it has, and waited for; nothing
// reaches the cloud after that. What is refused then is no answer.
func TestCallsEndWithTheTerm(t *testing.T) {
	h := &hanging{oneAnswer{err: cloud.Errorf(cloud.KindNotFound, "no such server")}, make(chan struct{}), make(chan struct{})}
	p, err := decorate.New(&cloud.Provider{Name: "test", Instances: h, Ready: func(context.Context) error { return nil }}, caller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	term, end := context.WithCancel(t.Context())
	a := NewAdapter(term, p, corelisters.NewNodeLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})), time.Second)
	node, answered := instanceNode("test:///1"), make(chan error)
	go func() {
		_, err := a.InstanceExists(context.WithoutCancel(term), node)
		answered <- err
	}()
	<-h.began
	end()
	ended := make(chan struct{})
	go func() { a.End(); close(ended) }()
	select {
	case <-ended:
		t.Error("the term ends before the call has returned")
	default:
	}
	close(h.let)
	if err := <-answered; err == nil {
		t.Error("the call was answered")
	}
	<-ended
	if _, err := a.InstanceExists(context.WithoutCancel(term), node); !errors.Is(err, batcher.ErrClosed) || h.asked != 1 {
		t.Errorf("after the term: %v, and the cloud was asked %d times", err, h.asked)
	}
}

// Who is told of failures hears of each Node's, be it the cloud's or that the instance cannot become a Node, and not of what is no failure.
func TestFailuresAreTold(t *testing.T) {
	waiting := instanceNode("test:///1", corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider})
	for name, tt := range map[string]struct {
		answer oneAnswer
		want   string
	}{
		"down":  {oneAnswer{err: cloud.Errorf(cloud.KindDenied, "forbidden")}, "a: instance test:///1 of node a: forbidden"},
		"unfit": {oneAnswer{instance: &cloud.Instance{ProviderID: "test:///1", Unfit: errors.New("it has no address")}}, "a: it has no address"},
		"held":  {oneAnswer{err: &cloud.Error{Kind: cloud.KindNotFound, Scope: "elsewhere", Err: errors.New("no such server")}}, ""},
		"well":  {oneAnswer{instance: &cloud.Instance{ProviderID: "test:///1"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i, told := testInstances(t, &tt.answer), ""
			i.Failed = func(node string, err error) { told += node + ": " + err.Error() }
			_, _ = i.InstanceMetadata(t.Context(), waiting)
			if told != tt.want {
				t.Errorf("told %q, want %q", told, tt.want)
			}
		})
	}
}

// What the deletion guard holds is neither gone nor shut down, and no error for each Node and
// cycle in the log.
func TestHeldNodesExist(t *testing.T) {
	missing := &cloud.Error{Kind: cloud.KindNotFound, Scope: "elsewhere", Err: errors.New("no such server")}
	i := testInstances(t, &oneAnswer{err: missing})
	node := instanceNode("test:///1")
	if exists, err := i.InstanceExists(t.Context(), node); !exists || err != nil {
		t.Errorf("exists: %t, %v", exists, err)
	}
	if shutdown, err := i.InstanceShutdown(t.Context(), node); shutdown || err != nil {
		t.Errorf("shut down: %t, %v", shutdown, err)
	}
	if metadata, err := i.InstanceMetadata(t.Context(), node); metadata != nil || !deletionguard.IsHeld(err) {
		t.Errorf("metadata: %+v, %v", metadata, err)
	}
	if hold := i.provider.Nodes.Held(); hold == nil || len(hold.Nodes) != 1 {
		t.Errorf("held: %+v", hold)
	}
}

// Which Nodes a cloud answers for is its own affair; without a word of it their scheme decides.
func TestNodesAreOwnedAsTheProviderSays(t *testing.T) {
	robots := func(n *corev1.Node) bool { return n.Spec.ProviderID == "" || n.Spec.ProviderID[:1] == "r" }
	for _, tt := range []struct {
		name, id string
		owns     func(*corev1.Node) bool
		exclude  string
		want     bool
	}{
		{"no ID", "", nil, "", true},
		{"its scheme", "test:///1", nil, "", true},
		{"another scheme", "other:///1", nil, "", false},
		{"a scheme that begins alike", "testing:///1", nil, "", false},
		{"no scheme", "eu-1.i-1", nil, "", false},
		{"a second scheme of its own", "robot://1", robots, "", true},
		{"an ID that it refuses", "test:///1", robots, "", false},
		{"no ID, excluded", "", nil, "true", false},
		{"its scheme, excluded", "test:///1", nil, "true", false},
		{"a second scheme of its own, excluded", "robot://1", robots, "true", false},
		{"its scheme, not excluded", "test:///1", nil, "false", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := &oneAnswer{instance: &cloud.Instance{}}
			i := testInstancesOf(t, cloud.Provider{Instances: answer, Owns: tt.owns})
			node := instanceNode(tt.id)
			node.Labels = map[string]string{cloud.ExcludeNode: tt.exclude}
			if exists, err := i.InstanceExists(t.Context(), node); !exists || err != nil {
				t.Errorf("exists: %t, %v", exists, err)
			}
			if asked := answer.asked > 0; asked != tt.want {
				t.Errorf("the cloud was asked: %t, want %t", asked, tt.want)
			}
		})
	}
}

// What was read before a Node was made is about the machine that had its name then.
func TestNodeMadeAnewIsReadAnew(t *testing.T) {
	answer := &oneAnswer{instance: &cloud.Instance{ProviderID: "test:///old"}}
	i := testInstances(t, answer)
	now := time.Now()
	i.clock = clocktesting.NewFakePassiveClock(now)
	for _, tt := range []struct {
		name  string
		made  time.Time
		want  string
		asked int
	}{
		{"first", now.Add(-time.Hour), "test:///old", 1},
		{"again", now.Add(-time.Hour), "test:///old", 1},
		{"made anew", now, "test:///new", 2},
		{"made anew, by a clock that is ahead", now.Add(time.Minute), "test:///new", 3},
	} {
		node := instanceNode("", corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider})
		node.CreationTimestamp = metav1.NewTime(tt.made)
		metadata, err := i.InstanceMetadata(t.Context(), node)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if metadata.ProviderID != tt.want || answer.asked != tt.asked {
			t.Errorf("%s: %s after %d questions, want %s after %d", tt.name, metadata.ProviderID, answer.asked, tt.want, tt.asked)
		}
		if tt.name == "again" {
			answer.instance = &cloud.Instance{ProviderID: "test:///new"}
		}
	}
}

// "Not found" proves nothing while the instance is so new that the cloud may not know it yet.
func TestNewbornNodesExist(t *testing.T) {
	const newborn = 5 * time.Minute
	missing := cloud.Errorf(cloud.KindNotFound, "no such server")
	ended := fmt.Errorf("get server 1: %w", &cloud.Error{Kind: cloud.KindNotFound, Ended: true, Err: errors.New("the server is terminated")})
	now := time.Now().Truncate(time.Second)
	for _, tt := range []struct {
		name    string
		age     time.Duration
		newborn time.Duration
		exists  bool
		err     error
	}{
		{"newborn", newborn - time.Second, newborn, true, missing},
		{"newborn, whose instance the cloud shows as terminated", time.Second, newborn, false, ended},
		{"of the future, by a clock that is ahead", -time.Second, newborn, true, missing},
		{"old enough", newborn, newborn, false, missing},
		{"a cloud whose reads do not lag", time.Second, 0, false, missing},
		{"such a cloud, and a clock that is ahead", -time.Second, 0, false, missing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := testInstancesOf(t, cloud.Provider{Instances: &oneAnswer{err: tt.err}, Newborn: tt.newborn})
			i.clock = clocktesting.NewFakePassiveClock(now)
			node := instanceNode("test:///1")
			node.CreationTimestamp = metav1.NewTime(now.Add(-tt.age))
			if exists, err := i.InstanceExists(t.Context(), node); exists != tt.exists || err != nil {
				t.Errorf("exists: %t, %v; want %t", exists, err, tt.exists)
			}
			if shutdown, err := i.InstanceShutdown(t.Context(), node); shutdown || (err == nil) != tt.exists {
				t.Errorf("shut down: %t, %v", shutdown, err)
			}
			if m, err := i.InstanceMetadata(t.Context(), node); m != nil || err == nil || cloud.IsNotFound(err) == tt.exists {
				t.Errorf("metadata: %+v, %v", m, err)
			}
		})
	}
}

// A Node without a provider ID is looked up with all that tells which machine it is.
func TestRefOfANodeWithoutAProviderID(t *testing.T) {
	node := instanceNode("")
	node.Status.NodeInfo.SystemUUID = "A-2"
	node.Labels = map[string]string{"group": "blue"}
	for text, want := range map[string]string{"": "", "10.0.0.1": "10.0.0.1", "10.0.0.1,fd00::1": "10.0.0.1", "fd00::1": "fd00::1", "::ffff:10.0.0.1": "10.0.0.1", "nonsense": ""} {
		node.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: text}
		ref := cloud.InstanceRef{NodeName: "a", SystemUUID: "A-2", Hint: "blue"}
		if want != "" {
			ref.NodeIP = netip.MustParseAddr(want)
		}
		if got := RefOf(node, "group"); got != ref {
			t.Errorf("--node-ip=%s: %+v, want %+v", text, got, ref)
		}
	}
	if got := RefOf(node, ""); got.Hint != "" {
		t.Errorf("a cloud without hints gets %q", got.Hint)
	}
	node.Spec.ProviderID = "test:///1"
	if got, want := RefOf(node, "group"), (cloud.InstanceRef{NodeName: "a", ProviderID: "test:///1"}); got != want {
		t.Errorf("with a provider ID: %+v, want no more than %+v", got, want)
	}
}

// What was read of all uninitialized Nodes when the first one's turn came serves the last one's minutes later, and
// serves nobody else.
func TestSlowInitializationIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := &oneAnswer{instance: &cloud.Instance{ProviderID: "test:///1", MachineIDs: []string{"uuid"}}}
		p, err := decorate.New(&cloud.Provider{Name: "test", Instances: answer, Ready: func(context.Context) error { return nil }}, caller.Options{})
		if err != nil {
			t.Fatal(err)
		}
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		nodes := make([]*corev1.Node, 3)
		for k := range nodes {
			nodes[k] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + k))},
				Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}}},
				Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: "uuid"}}}
			if err := indexer.Add(nodes[k]); err != nil {
				t.Fatal(err)
			}
		}
		ctx, end := context.WithCancel(t.Context())
		a := NewAdapter(ctx, p, corelisters.NewNodeLister(indexer), time.Second)
		defer a.End()
		defer end()
		ask := func(node *corev1.Node, want int) {
			t.Helper()
			if _, err := a.InstanceMetadata(t.Context(), node); err != nil || answer.asked != want {
				t.Errorf("%s: %v, and the cloud was asked %d times, want %d", node.Name, err, answer.asked, want)
			}
		}
		ask(nodes[0], 1)
		time.Sleep(aheadMax - time.Second)
		ask(nodes[1], 1)
		ask(nodes[1], 2)
		other := nodes[2].DeepCopy()
		other.Spec.Taints = nil
		ask(other, 3)
	})
}
