package routes_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/routes"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

const (
	conf    = "[Global]\nRegion = eu-central-1\n"
	cluster = "c"
	tagKey  = "kubernetes.io/cluster/" + cluster
)

var pods = cloud.Cluster{ID: cluster, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")}}

// world is a VPC whose main route table is the cluster's.
type world struct {
	*apitest.Cloud
	*routes.Routes
	t     *testing.T
	table string
}

func newWorld(t *testing.T, o awssim.Options) *world {
	t.Helper()
	w := &world{Cloud: apitest.StartWith(t, o), t: t}
	w.table = w.EC2.MainRouteTable(w.VPC.ID).ID
	w.tag(w.table)
	w.restart("", cloud.Options{})
	return w
}

// restart makes routes that know nothing of earlier ones.
func (w *world) restart(more string, o cloud.Options) {
	c, cfg := w.Client(conf+more, o)
	w.Routes = routes.New(c, &cfg.Global, func() string { return cluster })
}

func (w *world) tag(id string) {
	w.t.Helper()
	if err := w.EC2.CreateTags([]string{id}, map[string]string{tagKey: "owned"}); err != nil {
		w.t.Fatal(err)
	}
}

// add adds instances of the cluster, and returns a route to each.
func (w *world) add(n int) []cloud.Route {
	out := make([]cloud.Route, n)
	for i := range out {
		out[i] = w.to(fmt.Sprintf("10.244.%d.0/24", i), w.AddInstance(ec2.Instance{Tags: map[string]string{tagKey: "owned"}}))
	}
	return out
}

func (w *world) to(destination string, i *ec2.Instance) cloud.Route {
	return cloud.Route{Destination: netip.MustParsePrefix(destination), Target: "aws:///" + i.Zone + "/" + i.ID, Node: cloud.InstanceRef{NodeName: i.PrivateDNSName}}
}

func (w *world) apply(add, remove []cloud.Route) error {
	return errors.Join(w.Apply(w.t.Context(), pods, add, remove)...)
}

func (w *world) mustApply(add, remove []cloud.Route) {
	w.t.Helper()
	if err := w.apply(add, remove); err != nil {
		w.t.Fatal(err)
	}
}

// wantList compares what is listed: destination, hop and whether it is ours.
func (w *world) wantList(want ...string) {
	w.t.Helper()
	list, err := w.List(w.t.Context(), pods)
	if err != nil {
		w.t.Fatal(err)
	}
	got := []string{}
	for _, r := range list {
		got = append(got, describe(r))
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		w.t.Errorf("list (-want +got):\n%s", diff)
	}
}

func describe(r cloud.Route) string {
	s := r.Destination.String() + " " + r.Hop().String()
	if r.Ours {
		s += " ours"
	}
	return s
}

func ours(r cloud.Route) string {
	r.Ours = true
	return describe(r)
}

// counts are the calls since they were counted last.
func (w *world) counts() map[string]int {
	out := map[string]int{}
	for _, action := range w.Actions() {
		out[action]++
	}
	return out
}

func (w *world) wantCounts(want map[string]int) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.counts()); diff != "" {
		w.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestRoutesCostOneListAndOneWriteEach(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	all := w.add(250)
	w.Requests()
	w.mustApply(all[:200], nil)
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1, "ModifyInstanceAttribute": 200, "CreateRoute": 200})
	for range 2 {
		if list, err := w.List(t.Context(), pods); err != nil || len(list) != 200 || slices.ContainsFunc(list, func(r cloud.Route) bool { return !r.Ours }) {
			t.Fatalf("%d routes, %v", len(list), err)
		}
	}
	w.wantCounts(map[string]int{"DescribeRouteTables": 2})
	w.mustApply(all[:200], nil) // they are there
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1})
	w.mustApply(all[200:], all[:50])
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1, "ModifyInstanceAttribute": 50, "CreateRoute": 50, "DeleteRoute": 50})
	w.mustApply(all[:50], nil) // their instances forward since
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1, "CreateRoute": 50})
	w.restart("", cloud.Options{})
	if list, err := w.List(t.Context(), pods); err != nil || len(list) != 250 {
		t.Fatalf("%d routes, %v", len(list), err)
	}
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1})                                     // the list of the cluster's
	old := w.to("10.244.250.0/24", w.AddInstance(ec2.Instance{Tags: map[string]string{"KubernetesCluster": cluster}})) // which that lacks
	w.mustApply([]cloud.Route{old}, all)
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 2, "DeleteRoute": 250, "ModifyInstanceAttribute": 1, "CreateRoute": 1})
	w.wantList(ours(old))
}

// TestComplaint92783RoutesLeadToPrimaryInterfaces: an instance with several interfaces (kubernetes/kubernetes#92783, #70924) gets
// its route by its primary one, and only the check that is on is turned off.
func TestComplaint92783RoutesLeadToPrimaryInterfaces(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	tags := map[string]string{tagKey: "owned"}
	off := w.AddInstance(ec2.Instance{Tags: tags, Interfaces: []*ec2.NetworkInterface{{NoSourceDestCheck: true}}})
	several := w.AddInstance(ec2.Instance{Tags: tags, Interfaces: []*ec2.NetworkInterface{{DeviceIndex: 1}, {}}})
	w.Requests()
	a, b, c := w.to("10.244.1.0/24", off), w.to("10.244.2.0/24", several), w.to("fd00:10:244:2::/64", several)
	w.mustApply([]cloud.Route{a, b, c}, nil)
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1, "ModifyNetworkInterfaceAttribute": 1, "CreateRoute": 3})
	w.wantList(ours(a), ours(b), ours(c))
	for _, n := range several.Interfaces {
		now, err := w.EC2.Interfaces([]string{n.ID})
		if err != nil || now[0].NoSourceDestCheck != (n.DeviceIndex == 0) {
			t.Errorf("interface %d: %+v, %v", n.DeviceIndex, now, err)
		}
	}
	there, err := w.EC2.RouteTables([]string{w.table})
	if err != nil || !slices.ContainsFunc(there[0].Routes, func(r ec2.Route) bool {
		return r.Destination == "10.244.2.0/24" && r.InterfaceID == several.Interfaces[1].ID
	}) {
		t.Errorf("%+v, %v", there, err)
	}
}

// TestComplaint627ForeignRoutesAreLeftAndFailNothing: also #1351, by which some routes to instances keep all others from being read.
func TestComplaint627ForeignRoutesAreLeftAndFailNothing(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	own := w.add(2)
	strange := w.AddInstance(ec2.Instance{})
	gone := w.AddInstance(ec2.Instance{})
	byInterface := w.AddInstance(ec2.Instance{Tags: map[string]string{tagKey: "owned"}})
	w.mustApply(own[:1], nil)
	for destination, r := range map[string]ec2.Route{
		"10.244.10.0/24": {InstanceID: strange.ID, InterfaceID: strange.Interfaces[0].ID},
		"10.244.11.0/24": {InstanceID: "i-0123456789abcdef1"},
		"10.244.12.0/24": {GatewayID: "igw-1"},
		"10.244.13.0/24": {OtherTargetID: "tgw-1"},
		"10.244.14.0/24": {InterfaceID: byInterface.Interfaces[0].ID},
		"10.244.15.0/24": {InstanceID: gone.ID, InterfaceID: gone.Interfaces[0].ID},
		"192.0.2.0/24":   {InstanceID: strange.ID, InterfaceID: strange.Interfaces[0].ID},
	} {
		r.Destination = destination
		w.EC2.AddRoute(w.table, r)
	}
	w.EC2.Terminate(gone.ID)
	w.wantList(ours(own[0]), "10.244.10.0/24 aws:///"+strange.Zone+"/"+strange.ID, "10.244.11.0/24 blackhole ours", "10.244.12.0/24 igw-1", "10.244.13.0/24 tgw-1",
		ours(w.to("10.244.14.0/24", byInterface)), "10.244.15.0/24 blackhole ours")
	w.Requests()
	for n, err := range w.Apply(t.Context(), pods, []cloud.Route{
		w.to("10.244.10.0/24", byInterface), w.to("10.244.12.0/24", byInterface), w.to("192.0.2.0/24", byInterface),
	}, []cloud.Route{{Destination: netip.MustParsePrefix("192.0.2.0/24"), Target: "aws:///" + strange.Zone + "/" + strange.ID}}) {
		if cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), "somebody else's") {
			t.Errorf("%d: %v", n, err)
		}
	}
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1})
	back := []cloud.Route{w.to("10.244.11.0/24", byInterface), w.to("10.244.15.0/24", byInterface)}
	w.mustApply(back, nil)
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1, "ModifyInstanceAttribute": 1, "DeleteRoute": 2, "CreateRoute": 2})
	w.mustApply(nil, append(back, own[0], w.to("10.244.14.0/24", byInterface)))
	w.wantList("10.244.10.0/24 aws:///"+strange.Zone+"/"+strange.ID, "10.244.12.0/24 igw-1", "10.244.13.0/24 tgw-1")
}

// A stopped instance's route leads nowhere now, but back to its Node when that starts: making it again each time would help nobody.
func TestRoutesToStoppedInstancesStay(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	all := w.add(1)
	w.mustApply(all, nil)
	id := strings.TrimPrefix(all[0].Target, "aws:///eu-central-1a/")
	w.EC2.Stop(id)
	w.Requests()
	w.wantList(ours(all[0]))
	w.mustApply(all, nil)
	w.wantCounts(map[string]int{"DescribeRouteTables": 2, "DescribeInstances": 2})
	w.EC2.Terminate(id)
	w.wantList("10.244.0.0/24 blackhole ours")
	if err := w.apply(all, nil); cloud.KindOf(err) != cloud.KindUnknown || !strings.Contains(fmt.Sprint(err), "EC2 shows no instance "+id) {
		t.Errorf("%v", err)
	}
	w.mustApply(nil, []cloud.Route{{Destination: all[0].Destination, Blackhole: true}})
	w.wantList()
}

func TestNothingIsRemovedThatLeadsElsewhereByNow(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	all := w.add(2)
	moved := all[1]
	moved.Destination = all[0].Destination
	w.mustApply(all[:1], nil)
	w.mustApply([]cloud.Route{moved}, nil)
	w.wantList(ours(moved))
	w.Requests()
	w.mustApply(nil, []cloud.Route{all[0], {Destination: moved.Destination, Blackhole: true}})
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1})
	w.wantList(ours(moved))
	w.mustApply(all[:1], []cloud.Route{moved}) // both at once
	w.wantList(ours(all[0]))
}

func TestProviderIDsAreSaidAsTheNodeHasThem(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	r := w.add(1)[0]
	w.mustApply([]cloud.Route{r}, nil)
	r.Target = strings.TrimPrefix(r.Target, "aws:///eu-central-1a/")
	w.Requests()
	w.mustApply([]cloud.Route{r}, nil)
	w.wantCounts(map[string]int{"DescribeRouteTables": 1, "DescribeInstances": 1})
	w.wantList(ours(r))
}

func TestWhichTable(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	for _, tt := range []struct {
		conf   string
		tagged int
		want   string
	}{
		{tagged: 1},
		{tagged: 0, want: "find the route table: no route table has the tag kubernetes.io/cluster/c; tag that of the Nodes' subnets, or set RouteTableID in [Global] of cloud.conf"},
		{tagged: 2, want: "find the route table: 2 route tables have the tag kubernetes.io/cluster/c ("},
		{conf: "RouteTableID = " + w.table + "\n", tagged: 0},
		{conf: "RouteTableID = " + w.table + "\n", tagged: 2},
		{conf: "RouteTableID = rtb-0123456789abcdef0\n", tagged: 2, want: "find the route table: there is no route table rtb-0123456789abcdef0; correct RouteTableID in [Global] of cloud.conf"},
	} {
		other := w.EC2.AddRouteTable(ec2.RouteTable{VPCID: w.VPC.ID})
		for n, id := range []string{w.table, other.ID} {
			if n < tt.tagged {
				w.tag(id)
			} else if err := w.EC2.DeleteTags([]string{id}, map[string]*string{tagKey: nil}); err != nil {
				t.Fatal(err)
			}
		}
		w.restart(tt.conf, cloud.Options{})
		_, err := w.List(t.Context(), pods)
		if (err == nil) != (tt.want == "") || err != nil && (!strings.HasPrefix(err.Error(), tt.want) || cloud.KindOf(err) != cloud.KindInvalid) {
			t.Errorf("%q, %d: %v", tt.conf, tt.tagged, err)
		}
		if applied := w.apply(w.add(1), nil); (applied == nil) != (err == nil) {
			t.Errorf("%q, %d: apply: %v", tt.conf, tt.tagged, applied)
		}
		w.mustClear()
	}
}

// mustClear removes all that is listed, where something can be.
func (w *world) mustClear() {
	if list, err := w.List(w.t.Context(), pods); err == nil {
		w.mustApply(nil, list)
	}
}

func TestAFullTable(t *testing.T) {
	w := newWorld(t, awssim.Options{EC2: ec2.Options{RoutesPerTable: 2}})
	all := w.add(4)
	w.mustApply(all[:2], nil)
	for _, err := range w.Apply(t.Context(), pods, all[2:3], nil) {
		if cloud.KindOf(err) != cloud.KindQuota || !strings.Contains(err.Error(), "RouteLimitExceeded") {
			t.Errorf("%v", err)
		}
	}
	w.mustApply(all[2:], all[:2]) // what goes makes room
	w.wantList(ours(all[2]), ours(all[3]))
}

func TestNewInstancesAreWaitedFor(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	all := w.add(2)
	w.Fail("DescribeInstances", apitest.Body(`<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet/></DescribeInstancesResponse>`))
	for _, err := range w.Apply(t.Context(), pods, all, nil) {
		if cloud.KindOf(err) != cloud.KindUnknown || !strings.Contains(err.Error(), "EC2 shows no instance") {
			t.Errorf("%v", err)
		}
	}
	w.Fail("ModifyInstanceAttribute", apitest.Fault{Status: http.StatusBadRequest, Code: "InvalidInstanceID.NotFound", Message: "The instance ID '" + strings.TrimPrefix(all[0].Target, "aws:///eu-central-1a/") + "' does not exist"})
	for n, err := range w.Apply(t.Context(), pods, all[:1], nil) {
		if cloud.KindOf(err) != cloud.KindUnknown {
			t.Errorf("%d: %v", n, err)
		}
	}
	w.mustApply(all, nil)
}

// A Node may name any instance: one that is not the cluster's neither forwards for it nor gets its routes.
func TestNoRouteLeadsToAnInstanceOfOthers(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	all := w.add(1)
	for _, foreign := range []map[string]string{nil, {"kubernetes.io/cluster/other": "owned"}} {
		i := w.AddInstance(ec2.Instance{Tags: foreign})
		w.Requests()
		errs := w.Apply(t.Context(), pods, append(all, w.to("10.244.9.0/24", i)), nil)
		if errs[0] != nil || cloud.KindOf(errs[1]) != cloud.KindInvalid || !strings.Contains(errs[1].Error(), i.ID+" lacks the tag "+tagKey) {
			t.Errorf("%v", errs)
		}
		if found, err := w.EC2.Instances([]string{i.ID}); err != nil || found[0].Interfaces[0].NoSourceDestCheck {
			t.Errorf("it forwards: %v", err)
		}
		w.wantList(ours(all[0]))
	}
}

// A process that dies after any call, whether EC2 has carried that out or not, leaves what its successor ends.
func TestCrashAfterEachCall(t *testing.T) {
	type crash struct {
		action string
		lost   bool
	}
	var crashes []crash
	for _, action := range []string{"DescribeRouteTables", "DescribeInstances", "ModifyInstanceAttribute", "CreateRoute", "DeleteRoute"} {
		crashes = append(crashes, crash{action, false}, crash{action, true})
	}
	for _, c := range crashes {
		w := newWorld(t, awssim.Options{})
		all := w.add(3)
		moved := all[2]
		moved.Destination = all[0].Destination
		w.mustApply(all[:2], nil)
		w.AddFault(awssim.Fault{Action: c.action, Times: 1, Reset: !c.lost, Lost: c.lost})
		add, remove := []cloud.Route{all[2], moved}, all[1:2]
		if err := w.apply(add, remove); err == nil {
			t.Errorf("%+v: no error", c)
		}
		w.restart("", cloud.Options{})
		w.mustApply(add, remove)
		w.wantList(ours(moved), ours(all[2]))
	}
}

func TestDryRun(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	all := w.add(3)
	w.mustApply(all[:1], nil)
	w.restart("", cloud.Options{DryRun: true})
	w.Requests()
	w.mustApply(all[1:], all[:1])
	if calls := slices.Sorted(maps.Keys(w.counts())); !slices.Equal(calls, []string{"DescribeInstances", "DescribeRouteTables"}) {
		t.Errorf("%q", calls)
	}
	w.wantList(ours(all[0]))
}

func TestOtherWishesAreRefused(t *testing.T) {
	w := newWorld(t, awssim.Options{})
	all := w.add(2)
	twice := all[1]
	twice.Destination = all[0].Destination
	errs := w.Apply(t.Context(), pods, []cloud.Route{all[0], twice, {Destination: all[1].Destination, NextHop: netip.MustParseAddr("10.0.0.1")},
		{Destination: all[1].Destination, Target: "openstack:///1"}, {Target: all[1].Target}}, nil)
	for n, err := range errs {
		if n == 0 && err != nil || n > 0 && cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("%d: %v", n, err)
		}
	}
}
