package cloudtest

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const namespace = "conformance"

// firstNodePort and nodePorts are the usual range of node ports.
const firstNodePort, nodePorts = 30000, 2768

// nodePort gives a node port that no other Service has, as Kubernetes does: some clouds have rules by it that Services share.
func (x *suite) nodePort() int32 { return firstNodePort + x.ports.Add(1)%nodePorts }

// service is a Service as the service controller has it, with what the cloud is to be.
type service struct {
	t    *T
	x    *suite
	spec *cloud.LoadBalancerSpec
	// id is the load balancer's, once it is known.
	id string
}

// service begins a Service with one TCP port and all nodes. Whatever becomes of it, it is
// deleted after the check, and nothing of it may be left.
func (x *suite) service(t *T, name string) *service {
	s := &service{t: t, x: x, spec: &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: x.cluster, Namespace: namespace, Name: name, UID: uuid.NewString(), Settings: x.annotations()},
		Ports:           []cloud.LoadBalancerPort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: x.nodePort()}},
		Members:         members(x.nodes),
		IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol},
	}}
	t.Cleanup(func() {
		s.delete(x.start(t))
		s.wantNothing("after the check")
	})
	return s
}

// annotations are those of every Service.
func (x *suite) annotations() cloud.Settings {
	out := cloud.Settings{}
	maps.Copy(out, x.Annotations)
	return out
}

func members(nodes []Instance) []cloud.LoadBalancerMember {
	var out []cloud.LoadBalancerMember
	for _, n := range nodes {
		out = append(out, cloud.LoadBalancerMember{Node: n.Ref, Addresses: n.Addresses})
	}
	return out
}

// ask adds the annotations that ask for a feature.
func (s *service) ask(f Feature) {
	settings, err := s.x.World.Settings(s.t.Ctx, f)
	if errors.Is(err, ErrNoAnnotation) {
		s.t.Impossible(err.Error())
	}
	s.t.Must(err)
	maps.Copy(s.spec.Settings, settings)
}

// balancers are the provider's; without them the check ends.
func (p *process) balancers(t *T) cloud.LoadBalancers {
	if p.LoadBalancers == nil {
		t.tell("the provider has no load balancers")
		t.Fatalf("the provider has no load balancers")
	}
	return p.LoadBalancers
}

// outages is how often a cloud may say nothing of use, as a busy one does, before a check gives up.
const outages = 3

// patiently calls op as the service controller does: again for as long as it is told to come back,
// and when the cloud has failed, though not for ever.
func (x *suite) patiently(ctx context.Context, op func(context.Context) error) error {
	var last error
	failed := 0
	err := x.eventually(ctx, func(ctx context.Context) (bool, error) {
		last = op(ctx)
		switch cloud.KindOf(last) {
		case cloud.KindRetryAfter, cloud.KindThrottled:
			return false, wait(ctx, min(cloud.RetryAfter(last), time.Second))
		case cloud.KindConflict, cloud.KindStale:
			return false, nil
		case cloud.KindUnknown, cloud.KindUnavailable:
			if failed++; last != nil && failed <= outages {
				return false, nil
			}
		}
		return true, last
	})
	if err != nil && last != nil && !errors.Is(err, last) {
		return errors.Join(err, last)
	}
	return err
}

// tryEnsure is one round of the service controller.
func (s *service) tryEnsure(ctx context.Context, p *process) error {
	balancers := p.balancers(s.t)
	refused, calls := s.refused(p), p.calls.Load()
	status, err := balancers.Ensure(ctx, s.asked(p))
	k := cloud.KindOf(err)
	switch {
	case err == nil && len(refused) > 0:
		s.t.spoil("Ensure does what CheckLoadBalancer refuses: %v", refused)
	case len(refused) == 0 && p.CheckLoadBalancer != nil && p.calls.Load() == calls && (k == cloud.KindInvalid || k == cloud.KindUnsupported):
		s.t.spoil("Ensure refuses without asking the cloud what CheckLoadBalancer does not: %v", err)
	}
	if status != nil {
		s.publish(status)
	}
	return err
}

// refused is what the provider refuses of the Service by itself, as the Service webhook asks.
func (s *service) refused(p *process) field.ErrorList {
	if p.CheckLoadBalancer == nil {
		return nil
	}
	bare, calls := *s.spec, p.calls.Load()
	bare.Cluster, bare.Members = cloud.Cluster{}, nil
	problems, warnings := p.CheckLoadBalancer(&bare)
	if n := p.calls.Load() - calls; n > 0 {
		s.t.spoil("CheckLoadBalancer made %d calls to the cloud", n)
	}
	for _, problem := range problems {
		s.t.tell("%v", problem)
	}
	for _, w := range warnings {
		s.t.tell("%s", w)
	}
	return problems
}

// asked is the spec as the planner makes it for the provider: with ByInstance, members have no addresses.
func (s *service) asked(p *process) *cloud.LoadBalancerSpec {
	spec := *s.spec
	if p.LoadBalancing.Reach == cloud.ByInstance {
		for _, nodes := range []*[]cloud.LoadBalancerMember{&spec.Members, &spec.Candidates} {
			*nodes = slices.Clone(*nodes)
			for i := range *nodes {
				(*nodes)[i].Addresses = nil
			}
		}
	}
	return &spec
}

func (s *service) publish(status *cloud.LoadBalancerStatus) {
	if status.ID == "" {
		s.t.Errorf("the status does not name the load balancer")
	}
	if len(status.Ingress) > 0 {
		s.spec.CurrentIngress = status.Ingress
	}
	for k, v := range status.Annotations {
		if v == "" {
			delete(s.spec.Settings, k)
			continue
		}
		s.spec.Settings[k] = v
	}
	for _, w := range status.Warnings {
		s.t.tell("%s", w)
	}
	s.id = s.x.World.LoadBalancerID(status)
}

// ensure makes the Service served, or ends the check.
func (s *service) ensure(p *process) {
	err := s.x.patiently(s.t.Ctx, func(ctx context.Context) error { return s.tryEnsure(ctx, p) })
	if err == nil {
		return
	}
	if k := cloud.KindOf(err); k == cloud.KindUnsupported || k == cloud.KindInvalid {
		s.t.tell("refused: %v", err)
	}
	s.t.Fatalf("Ensure: %v", err)
}

func (s *service) updateMembers(p *process) {
	if err := s.x.patiently(s.t.Ctx, func(ctx context.Context) error { return p.balancers(s.t).UpdateMembers(ctx, s.asked(p)) }); err != nil {
		s.t.Fatalf("UpdateMembers: %v", err)
	}
}

// delete deletes the Service's load balancer; failing to is never excused.
func (s *service) delete(p *process) {
	if p.LoadBalancers == nil {
		return
	}
	if err := s.x.patiently(s.t.Ctx, func(ctx context.Context) error { return p.LoadBalancers.Delete(ctx, s.spec) }); err != nil {
		s.t.spoil("Delete: %v", err)
	}
}

func (s *service) wantNothing(when string) {
	var left []string
	var unread error
	err := s.x.eventually(s.t.Ctx, func(ctx context.Context) (bool, error) {
		left, unread = s.x.World.Left(ctx, s.spec.LoadBalancerRef)
		return len(left) == 0 && unread == nil, nil
	})
	if err != nil {
		s.t.spoil("%s, Service %s has left %q in the cloud (%v)", when, s.spec.Name, left, errors.Join(err, unread))
	}
}

// read is the Service's load balancer as the cloud has it.
func (s *service) read() *LoadBalancer {
	lb := must[*LoadBalancer](s.t)(s.x.World.LoadBalancer(s.t.Ctx, s.id))
	if lb == nil {
		s.t.Fatalf("the cloud has no load balancer %q", s.id)
	}
	return lb
}

// want is what the Service's ports are to be in the cloud.
func (s *service) want() []Listener {
	var out []Listener
	for _, p := range s.spec.Ports {
		l := Listener{Port: p.Port, Protocol: p.Protocol, Clients: s.spec.SourceRanges, Affinity: s.spec.SessionAffinityTimeout > 0}
		for _, m := range s.spec.Members {
			for _, a := range m.Addresses {
				if a.Is6() == (s.spec.IPFamilies[0] == corev1.IPv6Protocol) {
					l.Members = append(l.Members, netip.AddrPortFrom(a, uint16(p.NodePort))) //nolint:gosec // a node port
				}
			}
		}
		if h := s.spec.HealthCheck; h != nil {
			l.CheckPath, l.CheckPort = h.Path, h.Port
		}
		out = append(out, l)
	}
	return out
}

// check compares the cloud with want, in which change has put what is special.
func (s *service) check(change func(*Listener)) {
	want := s.want()
	for i := range want {
		if change != nil {
			change(&want[i])
		}
	}
	lb := s.read()
	if diff := cmp.Diff(sorted(want), sorted(lb.Listeners), cmpopts.EquateComparable(netip.AddrPort{}, netip.Prefix{}), cmpopts.EquateEmpty()); diff != "" {
		s.t.Errorf("the load balancer is not as wanted (-want +got):\n%s", diff)
	}
	s.checkAddresses(lb)
}

// checkAddresses compares what is published with where the cloud serves.
func (s *service) checkAddresses(lb *LoadBalancer) {
	all := slices.Concat(lb.Private, lb.Public)
	if len(s.spec.CurrentIngress) == 0 {
		s.t.Errorf("no address is published")
	}
	for _, in := range s.spec.CurrentIngress {
		if in.Hostname != "" {
			if in.Hostname != lb.Hostname && in.Hostname != HostName {
				s.t.Errorf("published is %q, but the load balancer has the name %q", in.Hostname, lb.Hostname)
			}
			continue
		}
		if a, err := netip.ParseAddr(in.IP); err != nil || !slices.Contains(all, a) {
			s.t.Errorf("published is %q, but the load balancer serves on %v", in.IP, all)
		}
	}
}

func sorted(in []Listener) []Listener {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b Listener) int {
		if a.Port != b.Port {
			return int(a.Port - b.Port)
		}
		return strings.Compare(string(a.Protocol), string(b.Protocol))
	})
	for i := range out {
		out[i].Members = slices.SortedFunc(slices.Values(out[i].Members), netip.AddrPort.Compare)
		out[i].Clients = slices.SortedFunc(slices.Values(out[i].Clients), func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	}
	return out
}
