package nodeipam

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func TestOnePatchForEachNode(t *testing.T) {
	c, tr := newCluster(t), &transport{}
	for i := range 40 {
		c.create(fmt.Sprintf("early-%d", i))
	}
	c.run(Config{ClusterCIDRs: mustPrefixes("10.244.0.0/16", "fd00::/48"), MaskSizeIPv4: 25}, tr, nil)
	for i := range 40 {
		c.create(fmt.Sprintf("late-%d", i))
	}
	for name, cidrs := range c.wantAll(80) {
		got := mustPrefixes(strings.Split(cidrs, ",")...)
		if len(got) != 2 || got[0].Bits() != 25 || !got[0].Addr().Is4() || got[1].Bits() != 64 {
			t.Errorf("%s has %s", name, cidrs)
		}
	}
	if n := tr.count(); n != 80 {
		t.Errorf("%d patches for 80 Nodes", n)
	}
}

// What Nodes have is known at the start of each run, what Services use is left out, and a
// full range hands out what a deleted Node had.
func TestFullRange(t *testing.T) {
	c := newCluster(t)
	config := Config{ClusterCIDRs: mustPrefixes("10.244.0.0/21"), ServiceCIDRs: mustPrefixes("10.244.6.0/23")}
	c.create("wide", "10.244.0.0/23")
	c.create("narrow", "10.244.2.128/25")
	_, stop := c.run(config, nil, nil)
	c.create("a")
	c.create("b")
	before := c.wantAll(4)
	stop()
	if diff := cmp.Diff([]string{"10.244.3.0/24", "10.244.4.0/24"}, slices.Sorted(slices.Values([]string{before["a"], before["b"]}))); diff != "" {
		t.Errorf("CIDRs (-want +got):\n%s", diff)
	}
	c.run(config, nil, nil)
	c.create("c")
	c.wantAll(5)
	c.create("waits")
	c.wantEvent("waits", "CIDRNotAvailable", "no /24 is left in [10.244.0.0/21]")
	c.delete("narrow")
	if got := c.wantAll(5)["waits"]; got != "10.244.2.0/24" {
		t.Errorf("the Node that waited has %s", got)
	}
}

// A CIDR that several Nodes hold is free when the last of them is gone.
func TestSharedCIDR(t *testing.T) {
	c := newCluster(t)
	c.create("one", "10.244.0.0/24")
	c.create("two", "10.244.0.0/24")
	c.run(Config{ClusterCIDRs: mustPrefixes("10.244.0.0/24")}, nil, nil)
	eventually.Met(c.t, func() string { // whichever was seen later
		if c.hasEvent("one", "CIDRShared") != c.hasEvent("two", "CIDRShared") {
			return ""
		}
		return "not exactly one of the Nodes that share a CIDR has an event about it"
	})
	c.create("waits")
	c.wantEvent("waits", "CIDRNotAvailable", "")
	c.delete("one")
	c.create("mark") // comes after the deletion
	c.wantEvent("mark", "CIDRNotAvailable", "")
	if got := c.podCIDRs()["waits"]; got != "" {
		t.Fatalf("a Node has got %s while another one has it", got)
	}
	c.delete("mark")
	c.delete("two")
	c.wantAll(1)
}

func TestNodesOutsideAreLeftAlone(t *testing.T) {
	c := newCluster(t)
	c.create("foreign", "192.168.7.0/24")
	c.run(Config{ClusterCIDRs: mustPrefixes("10.244.0.0/24")}, nil, nil)
	c.create("mine")
	c.wantEvent("foreign", "CIDROutOfRange", "192.168.7.0/24")
	if diff := cmp.Diff(map[string]string{"foreign": "192.168.7.0/24", "mine": "10.244.0.0/24"}, c.wantAll(2)); diff != "" {
		t.Errorf("CIDRs (-want +got):\n%s", diff)
	}
}

// A Node that appears with CIDRs, or gets others meanwhile, keeps them.
func TestCIDRsOfOthers(t *testing.T) {
	c := newCluster(t)
	var once sync.Once
	tr := &transport{disturb: func(_ *http.Request, ask func() (*http.Response, error)) (*http.Response, error) {
		once.Do(func() { // somebody is quicker
			patch := []byte(`{"spec":{"podCIDR":"10.244.1.0/24","podCIDRs":["10.244.1.0/24"]}}`)
			if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), "raced", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		})
		return ask()
	}}
	c.run(Config{ClusterCIDRs: mustPrefixes("10.244.0.0/22")}, tr, nil)
	c.create("raced")
	c.wantAll(1)
	c.wantEvent("raced", "CIDRAssignedByOthers", "[10.244.1.0/24] was not allocated here")
	c.create("preset", "10.244.2.0/24")
	c.wantAll(2)
	c.create("x")
	c.create("y")
	got := c.wantAll(4)
	for name := range got {
		if name != "raced" && c.hasEvent(name, "CIDRAssignedByOthers") || c.hasEvent(name, "CIDRShared") {
			t.Errorf("Node %s has a warning about another allocator", name)
		}
	}
	if got["raced"] != "10.244.1.0/24" || got["preset"] != "10.244.2.0/24" {
		t.Errorf("CIDRs of others were changed: %v", got)
	}
}

// Writes fail, with and without effect, while Nodes come and go: no CIDR is given away
// twice, and none is lost.
func TestLostAnswers(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // no secret
	tr := &transport{disturb: func(_ *http.Request, ask func() (*http.Response, error)) (*http.Response, error) {
		mu.Lock()
		luck := random.IntN(4)
		mu.Unlock()
		switch luck {
		case 0:
			return nil, errLost
		case 1:
			resp, err := ask()
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return nil, errLost
		}
		return ask()
	}}
	config := Config{ClusterCIDRs: mustPrefixes("10.244.0.0/18")} // exactly 64
	_, stop := c.run(config, tr, nil)
	for round := range 3 {
		for i := range 64 {
			c.create(fmt.Sprintf("node-%d-%d", round, i))
		}
		if round == 1 {
			stop() // a crash in the middle of it
			_, stop = c.run(config, tr, nil)
		}
		c.wantAll(64)
		for i := range 64 {
			c.delete(fmt.Sprintf("node-%d-%d", round, i))
		}
	}
}

// The same names again and again are other Nodes each time.
func TestNamesComeBack(t *testing.T) {
	c := newCluster(t)
	controller, _ := c.run(Config{ClusterCIDRs: mustPrefixes("10.244.0.0/22")}, nil, nil)
	for round := range 20 {
		for i := range 4 {
			c.create(fmt.Sprintf("node-%d", i))
		}
		if round%3 > 0 { // sometimes before they have their CIDRs
			c.wantAll(4)
		}
		for i := range 4 {
			c.delete(fmt.Sprintf("node-%d", i))
		}
	}
	eventually.Met(c.t, func() string {
		controller.mu.Lock()
		defer controller.mu.Unlock()
		if used := controller.ledger.families[0][0].used; used > 0 || len(controller.ledger.held) > 0 {
			return fmt.Sprintf("%d CIDRs are taken without a Node, by %v", used, controller.ledger.held)
		}
		return ""
	})
}

// staleBody is a watch that can stop to tell anything.
type staleBody struct {
	io.ReadCloser
	stale <-chan struct{}
	ended <-chan struct{}
}

// Read implements io.Reader.
func (b staleBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-b.stale:
		<-b.ended
		return 0, io.EOF
	default:
		return n, err
	}
}

type staleWatches struct {
	next         http.RoundTripper
	stale, ended <-chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (s staleWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		resp.Body = staleBody{ReadCloser: resp.Body, stale: s.stale, ended: s.ended}
	}
	return resp, err
}

// The leader before has given out CIDRs of which our cache does not know yet.
func TestCacheBehindTheLeaderBefore(t *testing.T) {
	c := newCluster(t)
	stale := make(chan struct{})
	ctx, end := context.WithCancel(context.Background())
	defer end() // before the cleanup waits for the informer
	cfg := rest.CopyConfig(c.config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return staleWatches{next: next, stale: stale, ended: ctx.Done()}
	})
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.create("old")
	c.create("new")
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Nodes().Informer()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	close(stale)
	patch := []byte(`{"spec":{"podCIDR":"10.244.0.0/24","podCIDRs":["10.244.0.0/24"]}}`)
	if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), "old", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	tr := &transport{}
	_, stop := c.run(Config{ClusterCIDRs: mustPrefixes("10.244.0.0/23")}, tr, factory)
	if diff := cmp.Diff(map[string]string{"old": "10.244.0.0/24", "new": "10.244.1.0/24"}, c.wantAll(2)); diff != "" {
		t.Errorf("CIDRs (-want +got):\n%s", diff)
	}
	if n := tr.count(); n != 1 {
		t.Errorf("%d patches", n)
	}
	if nodes, err := factory.Core().V1().Nodes().Lister().Get("old"); err != nil || len(nodes.Spec.PodCIDRs) > 0 {
		t.Errorf("the cache is not behind: this test would show nothing (%v, %v)", nodes, err)
	}
	end()
	stop()
}

// A write under way at the end of the term is waited for.
func TestRunWaitsForWrites(t *testing.T) {
	c := newCluster(t)
	under, let := make(chan struct{}), make(chan struct{})
	tr := &transport{disturb: func(_ *http.Request, ask func() (*http.Response, error)) (*http.Response, error) {
		close(under)
		<-let
		return ask()
	}}
	_, stop := c.run(Config{ClusterCIDRs: mustPrefixes("10.244.0.0/24")}, tr, nil)
	c.create("node")
	<-under
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Error("the term has ended while a write is under way")
	case <-time.After(200 * time.Millisecond):
	}
	close(let)
	<-stopped
	c.wantAll(1)
}
