package cloudtest

import (
	"net/netip"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func otherFeatures() []feature {
	return []feature{
		{name: VolumesZone, what: "A volume's zone is known", silent: true, check: checkVolume},
		{name: VolumesNotFound, what: "A deleted volume is NotFound", silent: true, check: checkVolumeGone},
		{name: ErrorsDenied, what: "Refused credentials are KindDenied everywhere, never KindNotFound", silent: true, check: checkDenied},
		{name: ErrorsThrottled, what: "Refusal for too many requests is KindThrottled", alone: true, silent: true, check: checkThrottled},
	}
}

// everyCall makes each call of the contract that reads or changes the cloud.
func everyCall(t *T, x *suite, p *process) map[string]error {
	ref := x.nodes[0].Ref
	_, get := p.Instances.Get(t.Ctx, ref)
	_, byName := p.Instances.Get(t.Ctx, cloud.InstanceRef{NodeName: "nobody"})
	out := map[string]error{
		"Instances.Get": get, "Instances.Get by name": byName,
		"Instances.Find": p.Instances.Find(t.Ctx, []cloud.InstanceRef{ref, x.nodes[1].Ref, x.nodes[2].Ref})[0].Err,
	}
	if p.LoadBalancers != nil {
		s := x.service(t, "errors")
		_, out["LoadBalancers.Ensure"] = p.LoadBalancers.Ensure(t.Ctx, s.spec)
		out["LoadBalancers.UpdateMembers"] = p.LoadBalancers.UpdateMembers(t.Ctx, s.spec)
		out["LoadBalancers.Delete"] = p.LoadBalancers.Delete(t.Ctx, s.spec)
	}
	if p.Routes != nil {
		cluster := x.cluster
		cluster.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
		_, out["Routes.List"] = p.Routes.List(t.Ctx, cluster)
		route := cloud.Route{Destination: netip.MustParsePrefix("10.244.1.0/24"), NextHop: x.nodes[0].Addresses[0], Node: ref}
		out["Routes.Apply"] = p.Routes.Apply(t.Ctx, cluster, []cloud.Route{route}, nil)[0]
	}
	return out
}

func checkDenied(t *T, x *suite) {
	p := x.startAs(t, x.NewDenied)
	for call, err := range everyCall(t, x, p) {
		if cloud.KindOf(err) != cloud.KindDenied {
			t.Errorf("%s with refused credentials: %v (%v), want KindDenied", call, err, cloud.KindOf(err))
		}
	}
	if err := p.Ready(t.Ctx); err == nil {
		t.Errorf("Ready succeeds with refused credentials")
	}
}

func checkThrottled(t *T, x *suite) {
	p := x.start(t)
	x.get(t, p, x.nodes[0].Ref) // has logged in before
	undo, reason := x.World.Throttle()
	if undo == nil {
		t.Impossible(reason)
	}
	t.Cleanup(undo)
	answers := everyCall(t, x, p)
	undo()
	for call, err := range answers {
		if cloud.KindOf(err) != cloud.KindThrottled {
			t.Errorf("%s while throttled: %v (%v), want KindThrottled", call, err, cloud.KindOf(err))
		}
	}
}
