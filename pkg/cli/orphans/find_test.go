package orphans

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// stub is an inventory of what it is made of. removed are the IDs of what is not there any more.
type stub struct {
	all     []cloud.Owned
	removed []string
}

func (s *stub) Owned(context.Context, cloud.Cluster) ([]cloud.Owned, error) { return s.all, nil }

func (s *stub) Remove(_ context.Context, _ cloud.Cluster, o cloud.Owned) error {
	s.removed = append(s.removed, o.ID)
	return nil
}

// TestWhoSharesALoadBalancerOwnsIt: also where the Service is gone that it was made for, and where it comes after the list was made.
func TestWhoSharesALoadBalancerOwnsIt(t *testing.T) {
	w := &world{ControlPlane: shared.Plane(t), t: t}
	in := &stub{all: []cloud.Owned{{Kind: "load balancer", ID: "1", Mark: cloud.Mark{ClusterUID: "u", Service: "default/gone"}, Users: []string{"default/first", "default/shares"}}}}
	before, err := find(t.Context(), w.Client, in, cloud.Cluster{UID: "u"})
	w.must(err)
	w.service("shares")
	if all, err := find(t.Context(), w.Client, in, cloud.Cluster{UID: "u"}); err != nil || len(all) != 0 {
		t.Errorf("orphans %+v, %v", all, err)
	}
	r := &remover{client: w.Client, inventory: in, told: io.Discard, timeout: time.Minute}
	if stays := r.run(t.Context(), before); !stays || len(before) != 1 || before[0].Outcome != refused || len(in.removed) > 0 {
		t.Errorf("stays %t: %+v; removed %q", stays, before, in.removed)
	}
}

// TestWhatTellsNoServiceStays: it is listed, and no answer has it deleted.
func TestWhatTellsNoServiceStays(t *testing.T) {
	w := &world{ControlPlane: shared.Plane(t), t: t}
	in := &stub{all: []cloud.Owned{{Kind: "security group", ID: "1", Mark: cloud.Mark{ClusterUID: "u"}}, {Kind: "security group", ID: "2", Mark: cloud.Mark{ClusterUID: "u", ServiceUID: "gone"}}}}
	all, err := find(t.Context(), w.Client, in, cloud.Cluster{UID: "u"})
	w.must(err)
	r := &remover{client: w.Client, inventory: in, told: io.Discard, timeout: time.Minute, sameCluster: true}
	if stays := r.run(t.Context(), all); !stays || len(all) != 2 || all[0].Outcome != refused || all[1].Outcome != deleted || len(in.removed) != 1 {
		t.Errorf("stays %t: %+v; removed %q", stays, all, in.removed)
	}
}
