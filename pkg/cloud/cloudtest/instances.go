package cloudtest

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func instanceFeatures() []feature {
	return []feature{
		{name: InstancesFind, what: "Many instances are found in one question, in order; unknown ones are NotFound", silent: true, check: checkFind},
		{name: InstancesByName, what: "A Node without a provider ID is found by its name", silent: true, check: checkByName},
		{name: InstancesDualStack, what: "Nodes have addresses of both IP families", silent: true, check: checkDualStack},
		{name: InstancesTopology, what: "Type, zone and region are known", silent: true, check: checkTopology},
		{name: InstancesShutdown, what: "An instance that is powered off is shut down, not gone", silent: true, check: checkShutdown},
		{name: InstancesDeleted, what: "A deleted instance is NotFound", silent: true, check: checkDeleted},
		{name: InstancesForeignID, what: "Another cloud's provider ID is refused and never NotFound", silent: true, check: checkForeignID},
		{name: InstancesNewborn, what: "An instance is found as soon as it is made, or once it is no newborn any more", silent: true, check: checkNewborn},
		{name: InstancesPodCIDRs, what: "The cloud gives instances their pod CIDRs (`--cidr-allocator-type=CloudAllocator`)", silent: true, check: checkPodCIDRs},
	}
}

func internalIPs(i *cloud.Instance) []netip.Addr {
	var out []netip.Addr
	for _, a := range i.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			out = append(out, ip)
		}
	}
	return out
}

func checkFind(t *T, x *suite) {
	p := x.start(t)
	refs := []cloud.InstanceRef{{NodeName: "none", ProviderID: x.World.UnknownID()}}
	for _, n := range x.nodes {
		refs = append(refs, n.Ref)
	}
	refs = append(refs, x.nodes[0].Ref)
	got := p.Instances.Find(t.Ctx, refs)
	if len(got) != len(refs) {
		t.Fatalf("Find gives %d answers to %d questions", len(got), len(refs))
	}
	if !cloud.IsNotFound(got[0].Err) {
		t.Errorf("an instance that never was: %v, want KindNotFound", got[0].Err)
	}
	if _, err := p.Instances.Get(t.Ctx, refs[0]); !cloud.IsNotFound(err) {
		t.Errorf("Get of an instance that never was: %v, want KindNotFound", err)
	}
	for i, ref := range refs[1:] {
		r := got[i+1]
		if r.Err != nil {
			t.Errorf("instance %s: %v", ref.NodeName, r.Err)
			continue
		}
		if at := slices.IndexFunc(x.nodes, func(n Instance) bool { return n.Ref == ref }); x.nodes[at].MachineID != "" && !slices.Contains(r.Value.MachineIDs, x.nodes[at].MachineID) {
			t.Errorf("instance %s has MachineIDs %q, want %q among them", ref.NodeName, r.Value.MachineIDs, x.nodes[at].MachineID)
		}
		if r.Value.ProviderID != ref.ProviderID || r.Value.Name != ref.NodeName || r.Value.Shutdown {
			t.Errorf("answer %d is %+v, want the running instance %+v", i+1, r.Value, ref)
		}
		one, err := p.Instances.Get(t.Ctx, ref)
		if err != nil || one.ProviderID != ref.ProviderID {
			t.Errorf("Get %s: %+v, %v", ref.NodeName, one, err)
		}
	}
}

func checkByName(t *T, x *suite) {
	p, n := x.start(t), x.nodes[1]
	r := p.Instances.Find(t.Ctx, []cloud.InstanceRef{{NodeName: n.Ref.NodeName}})[0]
	if r.Err != nil || r.Value.ProviderID != n.Ref.ProviderID {
		t.Errorf("Find by name: %+v, %v; want %s", r.Value, r.Err, n.Ref.ProviderID)
	}
	// A part of a name is no name, though a cloud may know a Node in another domain by what its name begins with.
	first, _, _ := strings.Cut(n.Ref.NodeName, ".")
	part := first[:max(strings.LastIndexByte(first, '-'), len(first)/2)]
	if _, err := p.Instances.Get(t.Ctx, cloud.InstanceRef{NodeName: part}); !cloud.IsNotFound(err) {
		t.Errorf("Get by the beginning of a name: %v, want KindNotFound", err)
	}
}

func (x *suite) get(t *T, p *process, ref cloud.InstanceRef) *cloud.Instance {
	i, err := p.Instances.Get(t.Ctx, ref)
	if err != nil {
		t.Fatalf("Get %s: %v", ref.NodeName, err)
	}
	return i
}

func checkDualStack(t *T, x *suite) {
	p := x.start(t)
	for _, n := range x.nodes {
		got := internalIPs(x.get(t, p, n.Ref))
		slices.SortFunc(got, netip.Addr.Compare)
		if want := slices.SortedFunc(slices.Values(n.Addresses), netip.Addr.Compare); !slices.Equal(got, want) {
			t.Errorf("instance %s has InternalIPs %v, want %v", n.Ref.NodeName, got, want)
		}
		if !slices.ContainsFunc(got, netip.Addr.Is4) || !slices.ContainsFunc(got, netip.Addr.Is6) {
			t.Errorf("instance %s has InternalIPs %v, want both families", n.Ref.NodeName, got)
		}
	}
}

func checkTopology(t *T, x *suite) {
	i := x.get(t, x.start(t), x.nodes[0].Ref)
	if i.Type == "" || i.Region == "" || i.Zone != x.nodes[0].Zone {
		t.Errorf("type %q, region %q, zone %q; want none empty and zone %q", i.Type, i.Region, i.Zone, x.nodes[0].Zone)
	}
}

// spare makes an instance for one check.
func (x *suite) spare(t *T, name string) Instance {
	i, err := x.World.MakeInstance(t.Ctx, x.cluster.Name+"-"+name)
	t.Must(err)
	t.Cleanup(func() { t.Must(x.World.DeleteInstance(t.Ctx, i)) })
	return i
}

func checkShutdown(t *T, x *suite) {
	p, n := x.start(t), x.spare(t, "shutdown")
	if x.get(t, p, n.Ref).Shutdown {
		t.Errorf("a running instance is said to be shut down")
	}
	t.Must(x.World.StopInstance(t.Ctx, n))
	if i := x.get(t, x.start(t), n.Ref); !i.Shutdown {
		t.Errorf("an instance that is off is %+v, want it shut down", i)
	}
}

func checkDeleted(t *T, x *suite) {
	p, n := x.start(t), x.spare(t, "deleted")
	x.get(t, p, n.Ref)
	t.Must(x.World.DeleteInstance(t.Ctx, n))
	for _, ref := range []cloud.InstanceRef{n.Ref, {NodeName: n.Ref.NodeName}} {
		err := x.eventually(t.Ctx, func(ctx context.Context) (bool, error) {
			_, err := p.Instances.Get(ctx, ref)
			if err != nil && !cloud.IsNotFound(err) {
				return false, err
			}
			return err != nil, nil
		})
		if err != nil {
			t.Errorf("Get of the deleted instance %+v: %v, want KindNotFound", ref, err)
		}
	}
}

func checkForeignID(t *T, x *suite) {
	ref := cloud.InstanceRef{NodeName: x.nodes[0].Ref.NodeName, ProviderID: x.World.ForeignID()}
	p := x.start(t)
	_, err := p.Instances.Get(t.Ctx, ref)
	for _, err := range []error{err, p.Instances.Find(t.Ctx, []cloud.InstanceRef{ref})[0].Err} {
		if err == nil || cloud.IsNotFound(err) {
			t.Errorf("provider ID %s: %v, want a refusal other than KindNotFound", ref.ProviderID, err)
		}
	}
	if p.Owns == nil {
		return // by the scheme of the provider ID, which decorate sees to
	}
	for id, want := range map[string]bool{"": true, x.nodes[0].Ref.ProviderID: true, x.World.UnknownID(): true, ref.ProviderID: false} {
		if got := p.Owns(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}); got != want {
			t.Errorf("a Node with provider ID %q is owned: %t, want %t", id, got, want)
		}
	}
}

// checkNewborn: what the cloud's reads do not have yet would else be taken for what is gone.
func checkNewborn(t *T, x *suite) {
	p, n := x.start(t), x.spare(t, "newborn")
	born := time.Now()
	for _, ref := range []cloud.InstanceRef{n.Ref, {NodeName: n.Ref.NodeName}} {
		err := x.eventually(t.Ctx, func(ctx context.Context) (bool, error) {
			_, err := p.Instances.Get(ctx, ref)
			if cloud.IsNotFound(err) && time.Since(born) < p.Newborn {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			t.Errorf("Get of the new instance %+v: %v; the provider says that it is found within %s", ref, err, p.Newborn)
		}
	}
}

func checkPodCIDRs(t *T, x *suite) {
	p := x.start(t)
	if !p.GivesPodCIDRs {
		t.Errorf("the provider does not say that it gives Nodes their pod CIDRs")
	}
	for _, n := range x.nodes {
		if got := x.get(t, p, n.Ref).PodCIDRs; !slices.Equal(got, n.PodCIDRs) || len(got) == 0 {
			t.Errorf("instance %s has the pod CIDRs %v, want %v, and at least one", n.Ref.NodeName, got, n.PodCIDRs)
		}
	}
}
