package openstack

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// regionLab is a cloud of two regions under one Keystone.
type regionLab struct {
	t        *testing.T
	one, two *ossim.Sim
	p        *cloud.Provider
}

func newRegionLab(t *testing.T, more string) *regionLab {
	t.Helper()
	l := &regionLab{t: t, one: ossim.ForTest(t)}
	var err error
	if l.two, err = ossim.Start(ossim.Options{Keystone: l.one, Region: "RegionTwo"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.two.Close)
	l.p = newProvider(t, l.one, fmt.Sprintf("[Region \"RegionTwo\"]\nrouter-id = %s\n%s", l.two.Defaults().RouterID, more))
	l.two.ResetRequests()
	return l
}

func (l *regionLab) reset() { l.one.ResetRequests(); l.two.ResetRequests() }

// calls are the requests to both regions.
func (l *regionLab) calls() [2]int { return [2]int{calls(l.one), calls(l.two)} }

func inOne(s ossim.Server) cloud.InstanceRef {
	return cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID}
}

func inTwo(s ossim.Server) cloud.InstanceRef {
	return cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack://RegionTwo/" + s.ID}
}

func byName(s ossim.Server) cloud.InstanceRef { return cloud.InstanceRef{NodeName: s.Name} }

func TestRegionsFindInstances(t *testing.T) {
	l := newRegionLab(t, "")
	one := l.one.SeedServers(ossim.Seed{Count: 4, NamePrefix: "one-"})
	two := l.two.SeedServers(ossim.Seed{Count: 4, NamePrefix: "two-"})
	refs := []cloud.InstanceRef{
		inOne(one[0]), inOne(one[1]), inTwo(two[0]), inTwo(two[1]),
		{NodeName: one[2].Name, ProviderID: "openstack://RegionOne/" + one[2].ID},
		byName(one[3]), byName(two[2]),
		{NodeName: "x", ProviderID: "openstack://RegionThree/" + one[0].ID},
	}
	got := l.p.Instances.Find(testContext(t), refs)
	want := []string{
		"openstack:///" + one[0].ID + " RegionOne", "openstack:///" + one[1].ID + " RegionOne",
		"openstack://RegionTwo/" + two[0].ID + " RegionTwo", "openstack://RegionTwo/" + two[1].ID + " RegionTwo",
		"openstack:///" + one[2].ID + " RegionOne",
		"openstack:///" + one[3].ID + " RegionOne", "openstack://RegionTwo/" + two[2].ID + " RegionTwo",
	}
	for n, w := range want {
		if got[n].Err != nil || got[n].Value.ProviderID+" "+got[n].Value.Region != w || len(got[n].Value.Addresses) == 0 {
			t.Errorf("%v: %+v, %v; want %s", refs[n], got[n].Value, got[n].Err, w)
		}
	}
	if err := got[7].Err; cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), `none of RegionOne, RegionTwo; add [Region "RegionThree"]`) {
		t.Errorf("a region that is not configured: %v", err)
	}
	if got[0].Value.Scope == got[2].Value.Scope {
		t.Errorf("both regions are the same scope %q", got[0].Value.Scope)
	}
	if diff := cmp.Diff([2]int{2, 2}, l.calls()); diff != "" {
		t.Errorf("one list of servers and one of ports in each region (-want +got):\n%s", diff)
	}
	l.reset()
	if _, err := l.p.Instances.Get(testContext(t), inTwo(two[3])); err != nil || l.calls() != [2]int{0, 2} {
		t.Errorf("a server of the second region: %v, %v calls, want none in the first", err, l.calls())
	}
}

// NotFound is the word of the region that a provider ID names, or of all of them.
func TestRegionsNotFound(t *testing.T) {
	l := newRegionLab(t, "")
	one := l.one.SeedServers(ossim.Seed{Count: 2, NamePrefix: "one-"})
	two := l.two.SeedServers(ossim.Seed{Count: 2, NamePrefix: "two-"})
	ctx := testContext(t)
	find := func(ref cloud.InstanceRef) error { return l.p.Instances.Find(ctx, []cloud.InstanceRef{ref})[0].Err }
	get := func(ref cloud.InstanceRef) error { _, err := l.p.Instances.Get(ctx, ref); return err }
	legacy := cloud.InstanceRef{NodeName: two[0].Name, ProviderID: "openstack:///" + two[0].ID} // as a controller of its own wrote it
	for name, ask := range map[string]func(cloud.InstanceRef) error{"find": find, "get": get} {
		if err := ask(inTwo(one[0])); !cloud.IsNotFound(err) || cloud.ScopeOf(err) == "" {
			t.Errorf("%s: the region of the ID does not have it: %v", name, err)
		}
		if err := ask(legacy); err != nil {
			t.Errorf("%s: an ID without a region, of the second one: %v", name, err)
		}
		if err := ask(inOne(ossim.Server{ID: missingID})); !cloud.IsNotFound(err) || !strings.HasSuffix(cloud.ScopeOf(err), l.one.URL()+"/compute/v2.1/") {
			t.Errorf("%s: an ID that no region has: %v in scope %q", name, err, cloud.ScopeOf(err))
		}
		if err := ask(cloud.InstanceRef{NodeName: "nobody"}); !cloud.IsNotFound(err) || cloud.ScopeOf(err) != "" {
			t.Errorf("%s: a name that no region has: %v", name, err)
		}
	}

	if err := get(inOne(one[0])); err != nil {
		t.Fatal(err)
	}
	defer l.two.AddFault(ossim.Fault{Status: 503})()
	known := one[0]
	one[0] = l.one.SeedServers(ossim.Seed{Count: 1, NamePrefix: "new-"})[0]
	l.one.DeleteServer(known.ID)
	if err := get(inOne(known)); !cloud.IsNotFound(err) {
		t.Errorf("no region, but seen in the first one, with the second one down: %v", err)
	}
	for name, ref := range map[string]cloud.InstanceRef{
		"named region": inTwo(two[1]), "no region": inOne(ossim.Server{ID: missingID}), "name": {NodeName: "nobody"},
	} {
		if err := get(ref); err == nil || cloud.IsNotFound(err) {
			t.Errorf("%s, with the second region down: %v", name, err)
		}
	}
	for name, ref := range map[string]cloud.InstanceRef{
		"ID of the first": inOne(one[0]), "name, with the machine's word": {NodeName: one[1].Name, SystemUUID: one[1].ID},
	} {
		if err := get(ref); err != nil {
			t.Errorf("%s, with the second region down: %v", name, err)
		}
	}
	if err := get(byName(one[1])); err == nil || !strings.Contains(err.Error(), "whether another region has one too is not known") {
		t.Errorf("a name that the region that is down may have too: %v", err)
	}
}

// A further region without servers yet does not keep the Nodes of the others.
func TestRegionsEmptyRegion(t *testing.T) {
	l := newRegionLab(t, "")
	l.one.SeedServers(ossim.Seed{Count: 1, NamePrefix: "one-"})
	if _, err := l.p.Instances.Get(testContext(t), cloud.InstanceRef{NodeName: "nobody"}); !cloud.IsNotFound(err) {
		t.Errorf("a name that the region with servers does not have: %v", err)
	}
	l.one.DeleteServer(l.one.Servers()[0].ID)
	if _, err := l.p.Instances.Get(testContext(t), cloud.InstanceRef{NodeName: "nobody"}); err == nil || cloud.IsNotFound(err) {
		t.Errorf("no region has any server, which is no proof: %v", err)
	}
}

func TestRegionsSameName(t *testing.T) {
	l := newRegionLab(t, "")
	one := l.one.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0]
	two := l.two.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0]
	if _, err := l.p.Instances.Get(testContext(t), byName(one)); cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), "RegionOne and RegionTwo") {
		t.Errorf("a name in two regions: %v", err)
	}
	got, err := l.p.Instances.Get(testContext(t), cloud.InstanceRef{NodeName: two.Name, SystemUUID: strings.ToUpper(two.ID)})
	if err != nil || got.Region != "RegionTwo" {
		t.Errorf("the machine says which it is: %+v, %v", got, err)
	}
}

// A region that hangs delays the others once, and one that throttles does not hold them back.
func TestRegionsDoNotWaitForEachOther(t *testing.T) {
	l := newRegionLab(t, "")
	one := l.one.SeedServers(ossim.Seed{Count: 3, NamePrefix: "one-"})
	two := l.two.SeedServers(ossim.Seed{Count: 3, NamePrefix: "two-"})
	refs := []cloud.InstanceRef{inOne(one[0]), inOne(one[1]), inOne(one[2]), inTwo(two[0]), inTwo(two[1]), inTwo(two[2])}
	find := func() (own, other error) {
		got := l.p.Instances.Find(testContext(t), refs)
		return got[0].Err, got[3].Err
	}
	throttles := l.two.AddFault(ossim.Fault{Status: 429, RetryAfter: time.Minute})
	own, other := find()
	if own != nil || cloud.KindOf(other) != cloud.KindThrottled || cloud.RetryAfter(other) != time.Minute {
		t.Errorf("one region throttles: %v and %v", own, other)
	}
	throttles()
	l.two.AddFault(ossim.Fault{Status: 503})
	const failures = 3
	for range failures {
		if own, other = find(); own != nil || !cloud.IsUnavailable(other) {
			t.Errorf("one region fails: %v and %v", own, other)
		}
	}
	l.reset()
	if own, other = find(); own != nil || cloud.KindOf(other) != cloud.KindRetryAfter || calls(l.two) != 0 || !strings.Contains(other.Error(), "region RegionTwo is not asked for another") {
		t.Errorf("after %d failures: %v and %v, %d calls there", failures, own, other, calls(l.two))
	}
}

func TestRegionsVolumes(t *testing.T) {
	l := newRegionLab(t, "")
	var refs []cloud.VolumeRef
	var want []string
	for n := range 26 {
		a, b := l.one.AddVolume(fmt.Sprint("a", n), "az1"), l.two.AddVolume(fmt.Sprint("b", n), "az2")
		refs = append(refs, cloud.VolumeRef{ID: a.ID}, cloud.VolumeRef{ID: b.ID})
		want = append(want, "RegionOne [az1]", "RegionTwo [az2]")
	}
	check := func(name string, refs []cloud.VolumeRef, want []string, calls [2]int) {
		t.Helper()
		l.reset()
		for n, r := range l.p.Volumes.Find(testContext(t), refs) {
			if r.Err != nil || fmt.Sprint(r.Value.Region, " ", r.Value.Zones) != want[n] {
				t.Errorf("%s: %+v, %v, want %s", name, r.Value, r.Err, want[n])
			}
		}
		if diff := cmp.Diff(calls, l.calls()); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", name, diff)
		}
	}
	check("many", refs, want, [2]int{1, 1})
	check("one", refs[1:2], want[1:2], [2]int{1, 1})
	missing := cloud.VolumeRef{ID: missingID}
	if got := l.p.Volumes.Find(testContext(t), []cloud.VolumeRef{missing}); !cloud.IsNotFound(got[0].Err) {
		t.Errorf("a volume that no region has: %v", got[0].Err)
	}
	defer l.two.AddFault(ossim.Fault{Status: 503})()
	got := l.p.Volumes.Find(testContext(t), []cloud.VolumeRef{missing, refs[0]})
	if got[0].Err == nil || cloud.IsNotFound(got[0].Err) || got[1].Err != nil {
		t.Errorf("with the second region down: %v, and of the first one %v", got[0].Err, got[1].Err)
	}
	if _, ok, err := l.p.Volumes.Ref(&corev1.PersistentVolume{}); ok || err != nil {
		t.Errorf("Ref: %t, %v", ok, err)
	}
}

func TestRegionsRoutes(t *testing.T) {
	l := newRegionLab(t, "")
	one := l.one.SeedServers(ossim.Seed{Count: 2, NamePrefix: "one-"})
	two := l.two.SeedServers(ossim.Seed{Count: 2, NamePrefix: "two-"})
	cluster := cloud.Cluster{Name: "kubernetes", UID: "uid-1", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
	route := func(n byte, s ossim.Server, ref cloud.InstanceRef) cloud.Route {
		return cloud.Route{Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, n, 0}), 24), NextHop: s.Addresses[0], Node: ref}
	}
	routes := []cloud.Route{route(1, one[0], inOne(one[0])), route(2, one[1], inOne(one[1])), route(3, two[0], inTwo(two[0])), route(4, two[1], inTwo(two[1]))}
	ctx := testContext(t)
	for n, err := range l.p.Routes.Apply(ctx, cluster, routes, nil) {
		if err != nil {
			t.Errorf("add %d: %v", n, err)
		}
	}
	count := func() [2]int {
		return [2]int{len(l.one.RouterRoutes(l.one.Defaults().RouterID)), len(l.two.RouterRoutes(l.two.Defaults().RouterID))}
	}
	if count() != [2]int{2, 2} {
		t.Fatalf("%v routes in the regions, want 2 in each", count())
	}
	l.reset()
	list, err := l.p.Routes.List(ctx, cluster)
	if err != nil || len(list) != 4 || slices.ContainsFunc(list, func(r cloud.Route) bool { return !r.Ours }) {
		t.Errorf("list: %v, %v", list, err)
	}
	if l.calls() != [2]int{1, 1} {
		t.Errorf("%v calls for a list, want 1 in each region", l.calls())
	}

	l.reset() // removed where it is, without a node
	if errs := l.p.Routes.Apply(ctx, cluster, nil, []cloud.Route{{Destination: routes[3].Destination, NextHop: routes[3].NextHop}}); errs[0] != nil || count() != [2]int{2, 1} || calls(l.one) != 0 {
		t.Errorf("remove: %v, %v routes left, %v calls", errs, count(), l.calls())
	}

	up := l.two.AddFault(ossim.Fault{Service: "network", Status: 503})
	if list, err = l.p.Routes.List(ctx, cluster); err != nil || len(list) != 4 {
		t.Errorf("with the second region down: %d routes, %v; want those of the last time", len(list), err)
	}
	errs := l.p.Routes.Apply(ctx, cluster, []cloud.Route{route(5, one[0], inOne(one[0])), route(6, two[0], inTwo(two[0]))}, nil)
	if errs[0] != nil || errs[1] == nil || count() != [2]int{3, 1} {
		t.Errorf("with the second region down: %v, %v routes", errs, count())
	}
	defer l.one.AddFault(ossim.Fault{Service: "network", Status: 503})()
	if _, err := l.p.Routes.List(ctx, cluster); err == nil {
		t.Error("no region answers, but there is a list")
	}
	up()
}

func TestRegionsWithoutRouter(t *testing.T) {
	l := &regionLab{t: t, one: ossim.ForTest(t)}
	two, err := ossim.Start(ossim.Options{Keystone: l.one, Region: "RegionTwo"})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	p := newProvider(t, l.one, "[Region \"RegionTwo\"]\n")
	s := two.SeedServers(ossim.Seed{Count: 1, NamePrefix: "two-"})[0]
	add := cloud.Route{Destination: netip.MustParsePrefix("10.244.1.0/24"), NextHop: s.Addresses[0], Node: inTwo(s)}
	errs := p.Routes.Apply(testContext(t), cloud.Cluster{UID: "u"}, []cloud.Route{add}, nil)
	if cloud.KindOf(errs[0]) != cloud.KindInvalid || !strings.Contains(errs[0].Error(), `set router-id in [Region "RegionTwo"]`) {
		t.Errorf("got %v", errs[0])
	}
}

// The load balancer's members are those of its region; the user hears of the others.
func TestRegionsLoadBalancers(t *testing.T) {
	l := newRegionLab(t, "")
	one := l.one.SeedServers(ossim.Seed{Count: 2, NamePrefix: "one-"})
	two := l.two.SeedServers(ossim.Seed{Count: 1, NamePrefix: "two-"})
	spec := &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: "kubernetes", UID: "u"}, Namespace: "default", Name: "web", UID: "s"},
		Ports:           []cloud.LoadBalancerPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol},
	}
	for _, m := range []struct {
		ref cloud.InstanceRef
		s   ossim.Server
	}{{inOne(one[0]), one[0]}, {inOne(one[1]), one[1]}, {inTwo(two[0]), two[0]}} {
		spec.Members = append(spec.Members, cloud.LoadBalancerMember{Node: m.ref, Addresses: m.s.Addresses})
	}
	var status *cloud.LoadBalancerStatus
	for {
		var err error
		if status, err = l.p.LoadBalancers.Ensure(testContext(t), spec); err == nil {
			break
		} else if cloud.KindOf(err) != cloud.KindRetryAfter {
			t.Fatal(err)
		}
	}
	if !slices.ContainsFunc(status.Warnings, func(w string) bool {
		return strings.Contains(w, "1 nodes get no traffic") && strings.Contains(w, "two-0 (RegionTwo)")
	}) {
		t.Errorf("warnings %q do not name the node", status.Warnings)
	}
	if len(spec.Members) != 3 {
		t.Errorf("the spec was changed: %v", spec.Members)
	}
	if n := len(l.one.Snapshot().Members); n != 2 {
		t.Errorf("%d members, want the 2 of the region", n)
	}
	if err := l.p.LoadBalancers.UpdateMembers(testContext(t), spec); err != nil {
		t.Error(err)
	}
	if n := calls(l.two); n != 0 {
		t.Errorf("%d calls to the other region", n)
	}
}

func TestRegionsConfig(t *testing.T) {
	sim := ossim.ForTest(t)
	for name, tt := range map[string]struct{ conf, want string }{
		"primary twice":   {sim.CloudConf() + "[Region \"RegionOne\"]\n", `[Region "RegionOne"]: this is the primary region`},
		"no primary":      {strings.Replace(sim.CloudConf(), "region = RegionOne\n", "", 1) + "[Region \"Two\"]\n", "[Global] region: must be set"},
		"no name":         {sim.CloudConf() + "[Region]\n", `section [Region] has no name; write [Region "name"]`},
		"impossible name": {sim.CloudConf() + "[Region \"a/b\"]\n", `[Region] "a/b"`},
		"router by name":  {sim.CloudConf() + "[Region \"Two\"]\nrouter-id = mine\n", `[Region "Two"] router-id: "mine" is not a UUID`},
		"unknown key":     {sim.CloudConf() + "[Region \"Two\"]\nrouter-ids = x\n", "router-id"},
	} {
		file := filepath.Join(t.TempDir(), "cloud.conf")
		writeConf(t, file, tt.conf)
		_, warnings, err := New(t.Context(), file, cloud.Options{})
		if !strings.Contains(fmt.Sprint(err, warnings), tt.want) {
			t.Errorf("%s: %v %v, want %q", name, err, warnings, tt.want)
		}
	}
	file := filepath.Join(t.TempDir(), "cloud.conf")
	writeConf(t, file, sim.CloudConf()+"[Region \"RegionTow\"]\n")
	p, _, err := New(t.Context(), file, cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(testContext(t)); err == nil || !strings.Contains(err.Error(), `[Region "RegionTow"] of cloud.conf: no public endpoint of service "compute" in region "RegionTow": the catalog has no such region, only RegionOne`) {
		t.Errorf("a region that the cloud does not have: %v", err)
	}
}
