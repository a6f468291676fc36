package nodeipam

import (
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A Node that has got its CIDRs is not written again before the informer has seen them.
func TestNodeIsWrittenOnceWhenTheInformerIsBehind(t *testing.T) {
	c := newCluster(t)
	counted := &transport{}
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { counted.next = next; return counted })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	controller := still(t, client, c.create("once"))
	controller.gone = nil // the first list is read
	for range 3 {
		if err := controller.assign(t.Context(), "once"); err != nil {
			t.Error(err)
		}
	}
	if n := counted.count(); n != 1 || c.podCIDRs()["once"] == "" {
		t.Errorf("%d writes, want one; it has %q", n, c.podCIDRs()["once"])
	}
}

// A write ends, here and at the API server, before another leader may begin.
func TestWriteEndsBeforeAnotherLeaderBegins(t *testing.T) {
	c := newCluster(t)
	asked := 0
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, disturb: func(r *http.Request, ask func() (*http.Response, error)) (*http.Response, error) {
			asked++
			if at, ok := r.Context().Deadline(); !ok || time.Until(at) > patchTimeout || r.URL.Query().Get("timeout") != patchTimeout.String() {
				t.Errorf("%s may take until %v", r.URL, at)
			}
			return ask()
		}}
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	controller := still(t, client, c.create("once"))
	controller.gone = nil // the first list is read
	if err := controller.assign(t.Context(), "once"); err != nil || asked != 1 {
		t.Errorf("%d writes, %v", asked, err)
	}
}

// Nothing is given away before the API server has said what all Nodes have, however often it is asked.
func TestNothingIsGivenAwayWhileNodesCannotBeListed(t *testing.T) {
	c, asked := newCluster(t), 0
	config := rest.CopyConfig(c.config)
	controller := (*Controller)(nil)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return listing(func(r *http.Request) (*http.Response, error) {
			if asked++; controller.gone == nil {
				t.Error("it is taken as read before it is")
			}
			if asked <= 2 {
				return nil, errLost
			}
			return next.RoundTrip(r)
		})
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	has := c.create("has", "10.244.0.0/24")
	controller = still(t, client)
	if !controller.seed(t.Context()) || asked != 3 || controller.gone != nil || !controller.ledger.held[has.UID].assigned {
		t.Errorf("after %d questions: %+v", asked, controller.ledger.held)
	}
}

type listing func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (l listing) RoundTrip(r *http.Request) (*http.Response, error) { return l(r) }
