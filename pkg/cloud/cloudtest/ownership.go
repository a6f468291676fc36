package cloudtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/uuid"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// mostCalls bounds the changing calls of one operation.
const mostCalls = 40

func ownershipFeatures() []feature {
	return []feature{
		{name: LoadBalancerShared, what: "Two Services share a load balancer; the one that stays keeps it", check: checkShared},
		{name: LoadBalancerOwn, what: "A Service is put onto a load balancer of the user, which stays", check: checkUserOwned},
		{name: LoadBalancerGone, what: "Deletion also cleans up where the load balancer is gone already", check: checkGoneAlready},
		{name: LoadBalancerHint, what: "Deletion removes what marks say, whatever the Service says by then", check: checkDeleteHint},
		{name: LoadBalancerAgain, what: "A load balancer that somebody deleted is made again", check: checkMadeAgain},
		{name: LoadBalancerClusters, what: "Clusters of one name do not seize each other's load balancers", check: checkSameNamed},
		{name: LoadBalancerForeign, what: "What others have on and next to a load balancer stays", check: checkForeign},
		{name: LoadBalancerCrashNew, what: "Cut off after each call of a creation: it converges, nothing leaks", check: checkCrashCreate},
		{name: LoadBalancerCrashSet, what: "Cut off after each call of an update: it converges, nothing leaks", check: checkCrashUpdate},
		{name: LoadBalancerCrashDel, what: "Cut off after each call of a deletion: nothing is left", check: checkCrashDelete},
	}
}

// wantsOthers ends the check where no annotation puts a Service onto a load balancer that is there.
func (x *suite) wantsOthers(t *T) {
	if x.World.UseLoadBalancer("") == nil {
		t.Impossible(ErrNoAnnotation.Error())
	}
}

func checkShared(t *T, x *suite) {
	x.wantsOthers(t)
	p, first := x.start(t), x.service(t, string(LoadBalancerShared)+"-1")
	first.ensure(p)
	second := x.service(t, string(LoadBalancerShared)+"-2")
	second.spec.Ports[0].Port = 8080
	maps.Copy(second.spec.Settings, x.World.UseLoadBalancer(first.id))
	second.ensure(p)
	if second.id != first.id {
		t.Errorf("the second Service has load balancer %s, want the first one's %s", second.id, first.id)
	}
	both := slices.Concat(first.want(), second.want())
	if lb := first.read(); len(lb.Listeners) != len(both) {
		t.Errorf("the shared load balancer has listeners %+v, want %+v", lb.Listeners, both)
	}
	first.delete(p)
	second.ensure(p)
	second.check(nil)
}

func checkUserOwned(t *T, x *suite) {
	x.wantsOthers(t)
	p, s := x.start(t), x.service(t, string(LoadBalancerOwn))
	id, err := x.World.MakeLoadBalancer(t.Ctx, "own-"+x.cluster.Name)
	t.Must(err)
	t.Cleanup(func() { t.Must(x.World.DeleteLoadBalancer(t.Ctx, id)) })
	before := must[*LoadBalancer](t)(x.World.LoadBalancer(t.Ctx, id))
	s.spec.Ports[0].Port = 8081
	if _, lacks := x.Unsupported[LoadBalancerInternal]; !lacks {
		s.ask(LoadBalancerInternal) // the user has given it no public address, and a guest gives it none
	}
	maps.Copy(s.spec.Settings, x.World.UseLoadBalancer(id))
	s.ensure(p)
	if lb := s.read(); s.id != id || len(lb.Listeners) != len(before.Listeners)+1 {
		t.Errorf("load balancer %s has listeners %+v, want the user's and one more on %s", s.id, lb.Listeners, id)
	}
	s.delete(p)
	after := must[*LoadBalancer](t)(x.World.LoadBalancer(t.Ctx, id))
	if after == nil || len(after.Listeners) != len(before.Listeners) {
		t.Errorf("the user's load balancer was %+v and is %+v", before, after)
	}
}

func checkGoneAlready(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerGone))
	s.ensure(p)
	t.Must(x.World.DeleteLoadBalancer(t.Ctx, s.id))
	s.delete(p)
	s.wantNothing("after the deletion of a Service whose load balancer was gone")
}

func checkDeleteHint(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerHint))
	s.ensure(p)
	hint := *s.spec
	hint.Settings, hint.CurrentIngress, hint.Members, hint.SessionAffinityTimeout = cloud.Settings{}, nil, nil, time.Hour
	hint.Ports = []cloud.LoadBalancerPort{{Name: "other", Protocol: corev1.ProtocolUDP, Port: 9999, NodePort: x.nodePort()}}
	served := s.spec
	s.spec = &hint
	s.delete(x.start(t))
	s.spec = served
	s.wantNothing("after a deletion with a hint that is wrong")
}

func checkMadeAgain(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerAgain))
	s.ensure(p)
	old := s.id
	t.Must(x.World.DeleteLoadBalancer(t.Ctx, s.id))
	if x.Remembers {
		p = x.start(t)
	}
	if s.ensure(p); s.id == old {
		t.Errorf("the Service is said to be served by %s, which is gone", old)
	}
	s.check(nil)
}

func checkSameNamed(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerClusters))
	s.ensure(p)
	other := *s.spec
	other.Cluster.UID, other.UID = uuid.NewString(), uuid.NewString()
	other.Settings, other.CurrentIngress = x.annotations(), nil
	other.Ports = []cloud.LoadBalancerPort{{Name: "other", Protocol: corev1.ProtocolTCP, Port: 9999, NodePort: x.nodePort()}}
	q := x.start(t)
	status, err := q.LoadBalancers.Ensure(t.Ctx, &other)
	switch own := err == nil; {
	case own && x.World.LoadBalancerID(status) == s.id:
		t.Errorf("Ensure for a cluster of the same name takes the load balancer %s", s.id)
	case cloud.IsNotFound(err):
		t.Errorf("Ensure for a cluster of the same name: %v", err)
	case !own: // where names tell load balancers apart
		if err := q.LoadBalancers.UpdateMembers(t.Ctx, &other); err == nil {
			t.Errorf("UpdateMembers for a cluster of the same name succeeds")
		}
	}
	if err := q.LoadBalancers.Delete(t.Ctx, &other); err != nil && cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("Delete for a cluster of the same name: %v", err)
	}
	if n := q.mutations.Load(); err != nil && n > 0 {
		t.Errorf("the cluster of the same name is refused, but made %d changing calls", n)
	}
	s.check(nil)
}

func checkForeign(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerForeign))
	s.ensure(p)
	intact, remove, err := x.World.MakeForeign(t.Ctx, s.spec.LoadBalancerRef, s.id)
	t.Must(err)
	removed := false
	t.Cleanup(func() {
		if !removed {
			t.Must(remove(t.Ctx))
		}
	})
	verify := func(when string) {
		if err := intact(t.Ctx); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	verify("before anything")
	s.spec.Ports[0].NodePort = x.nodePort()
	s.ensure(p)
	verify("after an update")
	s.ensure(x.start(t))
	verify("after a restart")
	s.delete(p)
	verify("after the deletion")
	removed = true
	t.Must(remove(t.Ctx))
}

// interruption is an operation that is cut off.
type interruption struct {
	feature Feature
	prepare func(*service, *process) // nil for nothing
	op      func(context.Context, *service, *process) error
	then    func(*service, *process) // in a new process
}

// crashes has the operation crash after its first, second, … changing call, each time on a
// Service of its own, until it makes no more calls.
func (i interruption) crashes(t *T, x *suite) {
	for n := int64(1); n <= mostCalls; n++ {
		p, s := x.start(t), x.service(t, fmt.Sprintf("%s-%d", i.feature, n))
		if i.prepare != nil {
			i.prepare(s, p)
		}
		crashed, err := p.until(t.Ctx, n, func(ctx context.Context) error {
			return x.patiently(ctx, func(ctx context.Context) error { return i.op(ctx, s, p) })
		})
		switch {
		case !crashed && err != nil:
			t.Fatalf("undisturbed after %d calls: %v", n-1, err)
		case !crashed && n == 1:
			t.Fatalf("the operation makes no changing call")
		}
		i.then(s, x.start(t))
		s.delete(x.start(t))
		s.wantNothing(fmt.Sprintf("cut off after call %d", n))
		if !crashed || len(t.failures)+len(t.spoiled) > 0 {
			return
		}
	}
	t.Fatalf("the operation makes more than %d changing calls", mostCalls)
}

func checkCrashCreate(t *T, x *suite) {
	interruption{feature: LoadBalancerCrashNew,
		op: func(ctx context.Context, s *service, p *process) error { return s.tryEnsure(ctx, p) },
		then: func(s *service, p *process) {
			s.ensure(p)
			s.check(nil)
		}}.crashes(t, x)
}

func checkCrashUpdate(t *T, x *suite) {
	interruption{feature: LoadBalancerCrashSet,
		prepare: func(s *service, p *process) {
			s.ensure(p)
			if _, lacks := x.Unsupported[LoadBalancerMembers]; !lacks {
				s.spec.Members = s.spec.Members[1:]
			}
			s.spec.Ports = []cloud.LoadBalancerPort{
				{Name: "web", Protocol: corev1.ProtocolTCP, Port: 8080, NodePort: s.spec.Ports[0].NodePort},
				{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: s.x.nodePort()},
			}
		},
		op: func(ctx context.Context, s *service, p *process) error { return s.tryEnsure(ctx, p) },
		then: func(s *service, p *process) {
			s.ensure(p)
			s.check(nil)
		}}.crashes(t, x)
}

func checkCrashDelete(t *T, x *suite) {
	interruption{feature: LoadBalancerCrashDel,
		prepare: func(s *service, p *process) { s.ensure(p) },
		op:      func(ctx context.Context, s *service, p *process) error { return p.balancers(t).Delete(ctx, s.spec) },
		then:    func(s *service, p *process) { s.delete(p) }}.crashes(t, x)
}
