package instances_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/instances"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

const (
	conf    = "[Global]\nRegion = eu-central-1\n"
	cluster = "c"
)

// world is a cloud, and what answers for its instances.
type world struct {
	*apitest.Cloud
	*instances.Instances
}

func newWorld(t *testing.T, more string) *world {
	t.Helper()
	w := &world{Cloud: apitest.Start(t)}
	w.restart(t, more)
	return w
}

// restart is what a new process starts with.
func (w *world) restart(t *testing.T, more string) {
	t.Helper()
	c, cfg := w.Client(conf+more, cloud.Options{})
	w.Instances = instances.New(c, &cfg.Global, func() string { return cluster }, w.vpc)
}

func (w *world) vpc(context.Context) (string, error) { return w.VPC.ID, nil }

func tag(key, value string) map[string]string { return map[string]string{key: value} }

// add adds n instances of the cluster, and returns their refs by provider ID.
func (w *world) add(n int) []cloud.InstanceRef {
	refs := make([]cloud.InstanceRef, n)
	for i := range refs {
		id, name := fmt.Sprintf("i-%08x", i), fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)
		w.AddInstance(ec2.Instance{ID: id, PrivateDNSName: name, Tags: tag("kubernetes.io/cluster/"+cluster, "owned")})
		refs[i] = cloud.InstanceRef{NodeName: name, ProviderID: "aws:///eu-central-1a/" + id}
	}
	return refs
}

func byID(ids ...string) []cloud.InstanceRef {
	var out []cloud.InstanceRef
	for _, id := range ids {
		out = append(out, cloud.InstanceRef{NodeName: "n", ProviderID: "aws:///eu-central-1a/" + id})
	}
	return out
}

// describes are the calls for instances since the last time.
func (w *world) describes() int {
	n := 0
	for _, r := range w.Requests() {
		if r.Action == "DescribeInstances" {
			n++
		}
	}
	return n
}

func TestFindAsksLittle(t *testing.T) {
	for _, tt := range []struct{ nodes, unknown, calls int }{
		{0, 0, 0}, {1, 0, 1}, {200, 0, 1}, {150, 50, 1}, {201, 0, 1}, {1000, 0, 1}, {1001, 0, 2}, {5000, 0, 5}, {4999, 1, 6}, {4500, 500, 8},
	} {
		t.Run(fmt.Sprintf("%d and %d", tt.nodes, tt.unknown), func(t *testing.T) {
			w := newWorld(t, "")
			refs := w.add(tt.nodes)
			for n := range tt.unknown {
				refs = append(refs, byID(fmt.Sprintf("i-ffff%04x", n))...)
			}
			slices.Reverse(refs)
			got := w.Find(t.Context(), refs)
			if calls := w.describes(); calls != tt.calls {
				t.Errorf("%d calls, want %d", calls, tt.calls)
			}
			for n, r := range got {
				if strings.Contains(refs[n].ProviderID, "i-ffff") {
					if !cloud.IsNotFound(r.Err) || cloud.ScopeOf(r.Err) != apitest.Scope {
						t.Fatalf("%s: %+v, %v", refs[n].ProviderID, r.Value, r.Err)
					}
				} else if r.Err != nil || r.Value.ProviderID != refs[n].ProviderID {
					t.Fatalf("%s: %+v, %v", refs[n].ProviderID, r.Value, r.Err)
				}
			}
		})
	}
}

func TestFindByNameAsksLittle(t *testing.T) {
	for _, tt := range []struct{ nodes, calls int }{{1, 1}, {195, 1}, {200, 2}, {201, 1}, {1001, 2}} {
		w := newWorld(t, "")
		refs := w.add(tt.nodes)
		for n := range refs {
			refs[n].ProviderID = ""
		}
		got := w.Find(t.Context(), refs)
		if calls := w.describes(); calls != tt.calls {
			t.Errorf("%d nodes: %d calls, want %d", tt.nodes, calls, tt.calls)
		}
		for n, r := range got {
			if r.Err != nil || r.Value.Name != refs[n].NodeName {
				t.Fatalf("%d: %s: %+v, %v: %v", tt.nodes, refs[n].NodeName, r.Value, r.Err, errors.Unwrap(errors.Unwrap(r.Err)))
			}
		}
	}
}

func TestFindOfInstancesWithoutTheTag(t *testing.T) {
	w := newWorld(t, "")
	refs := w.add(300)
	for n := range 250 {
		id := w.AddInstance(ec2.Instance{ID: fmt.Sprintf("i-eeee%04x", n)}).ID
		refs = append(refs, byID(id)...)
	}
	for n, r := range w.Find(t.Context(), refs) {
		if r.Err != nil || r.Value.Marked != (n < 300) {
			t.Fatalf("%s: %+v, %v", refs[n].ProviderID, r.Value, r.Err)
		}
	}
	if calls := w.describes(); calls != 3 {
		t.Errorf("%d calls, want 1 for the list and 2 for the rest", calls)
	}
}

func TestStates(t *testing.T) {
	w := newWorld(t, "")
	w.add(1)
	ref := byID("i-00000000")[0]
	for state, want := range map[ec2.State]struct {
		kind     cloud.Kind
		gone     bool
		shutdown bool
	}{
		ec2.Pending: {}, ec2.Running: {}, ec2.Stopping: {}, ec2.ShuttingDown: {},
		ec2.Stopped:    {shutdown: true},
		ec2.Terminated: {gone: true, kind: cloud.KindNotFound},
		"":             {gone: true, kind: cloud.KindUnknown},
	} {
		w.EC2.SetState("i-00000000", state)
		found := w.Find(t.Context(), []cloud.InstanceRef{ref})[0]
		got, err := w.Get(t.Context(), ref)
		for how, r := range map[string]cloud.Result[*cloud.Instance]{"Find": found, "Get": {Value: got, Err: err}} {
			if (r.Err != nil) != want.gone || cloud.KindOf(r.Err) != want.kind {
				t.Errorf("%s of %q: %+v, %v", how, state, r.Value, r.Err)
			}
			if r.Err == nil && r.Value.Shutdown != want.shutdown {
				t.Errorf("%s of %q: shut down: %t", how, state, r.Value.Shutdown)
			}
			if want.kind == cloud.KindNotFound && (cloud.ScopeOf(r.Err) != apitest.Scope || !cloud.IsEnded(r.Err)) {
				t.Errorf("%s of %q: scope %q, ended: %t", how, state, cloud.ScopeOf(r.Err), cloud.IsEnded(r.Err))
			}
		}
	}
}

// TestComplaint444NodesOfInstancesThatAreGoneGo: also #1471. That an instance is gone is found by its ID, whether its Node has that
// as provider ID or as name, terminated or no longer known, and so when a manager starts that has never seen it.
func TestComplaint444NodesOfInstancesThatAreGoneGo(t *testing.T) {
	w := newWorld(t, "")
	w.add(2)
	w.EC2.Terminate("i-00000000")
	for _, ref := range append(byID("i-00000000", "i-0fffffffffffffff1"), cloud.InstanceRef{NodeName: "i-00000000.example.org"}, cloud.InstanceRef{NodeName: "i-0fffffffffffffff1"}) {
		found := w.Find(t.Context(), []cloud.InstanceRef{ref})[0]
		if _, err := w.Get(t.Context(), ref); !cloud.IsNotFound(err) || cloud.ScopeOf(err) != apitest.Scope || !cloud.IsNotFound(found.Err) {
			t.Errorf("%+v: %v, %v", ref, found.Err, err)
		}
	}
}

func TestInstanceIsWhatItsNodeGets(t *testing.T) {
	w := newWorld(t, "NodeIPFamilies = ipv4\nNodeIPFamilies = ipv6\n")
	id := "i-0123456789abcdef0"
	w.AddInstance(ec2.Instance{
		ID: id, PrivateDNSName: "ip-10-0-0-1.eu-central-1.compute.internal", PublicDNSName: "ec2-192-0-2-1.example.com", Type: "m5.xlarge", Tags: tag("KubernetesCluster", cluster),
		Interfaces: []*ec2.NetworkInterface{
			{DeviceIndex: 1, IPv6: []string{"2001:db8::2"}, PrivateIPs: []string{"10.0.0.3"}},
			{IPv6: []string{"2001:db8::1"}, PrivateIPs: []string{"10.0.0.1", "10.0.0.2"}, PublicIP: "192.0.2.1"},
		},
	})
	want := &cloud.Instance{
		ProviderID: "aws:///eu-central-1a/" + id, Name: "ip-10-0-0-1.eu-central-1.compute.internal", Type: "m5.xlarge", Zone: "eu-central-1a", Region: "eu-central-1",
		Labels: map[string]string{"topology.k8s.aws/zone-id": "euc1-az2"}, Marked: true, Scope: apitest.Scope,
		Addresses: []corev1.NodeAddress{
			{Type: "InternalIP", Address: "10.0.0.1"}, {Type: "InternalIP", Address: "10.0.0.2"}, {Type: "InternalIP", Address: "10.0.0.3"}, {Type: "ExternalIP", Address: "192.0.2.1"},
			{Type: "InternalDNS", Address: "ip-10-0-0-1.eu-central-1.compute.internal"}, {Type: "Hostname", Address: "ip-10-0-0-1.eu-central-1.compute.internal"},
			{Type: "ExternalDNS", Address: "ec2-192-0-2-1.example.com"}, {Type: "InternalIP", Address: "2001:db8::1"}, {Type: "InternalIP", Address: "2001:db8::2"},
		},
	}
	for name, ref := range map[string]cloud.InstanceRef{
		"provider ID": {NodeName: "n", ProviderID: "aws:///eu-central-1a/" + id}, "bare ID": {NodeName: "n", ProviderID: id}, "private DNS name": {NodeName: want.Name},
		"resource name": {NodeName: id}, "resource name with a domain": {NodeName: id + ".eu-central-1.compute.internal"},
	} {
		found := w.Find(t.Context(), []cloud.InstanceRef{ref})[0]
		if diff := cmp.Diff(want, found.Value); diff != "" || found.Err != nil {
			t.Errorf("Find by %s: %v (-want +got):\n%s", name, found.Err, diff)
		}
		got, err := w.Get(t.Context(), ref)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Get by %s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestNameThatIsNotOneInstances(t *testing.T) {
	w := newWorld(t, "")
	name := "ip-10-0-0-1.ec2.internal"
	owned := tag("kubernetes.io/cluster/"+cluster, "owned")
	add := func(id string, tags map[string]string, state ec2.State) {
		w.AddInstance(ec2.Instance{ID: id, PrivateDNSName: name, Tags: tags, State: state})
	}
	ref := cloud.InstanceRef{NodeName: name}
	expect := func(what string, find, get cloud.Kind, message string) {
		t.Helper()
		if r := w.Find(t.Context(), []cloud.InstanceRef{ref})[0]; cloud.KindOf(r.Err) != find || r.Err == nil {
			t.Errorf("%s: Find: %+v, %v", what, r.Value, r.Err)
		}
		if i, err := w.Get(t.Context(), ref); cloud.KindOf(err) != get || err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: Get: %+v, %s: %v, want %s", what, i, cloud.KindOf(err), err, message)
		}
	}
	expect("an account without instances", cloud.KindNotFound, cloud.KindUnknown, "none of the cluster at all in account unknown in eu-central-1")
	add("i-1111111a", owned, ec2.Terminated)
	expect("only one that is terminated", cloud.KindNotFound, cloud.KindUnknown, "none of the cluster at all")
	w.add(1)
	name = "ip-10-9-9-9.ec2.internal"
	ref.NodeName = name
	expect("others are there", cloud.KindNotFound, cloud.KindNotFound, "there is no instance with the private DNS name")
	if _, err := w.Get(t.Context(), ref); cloud.ScopeOf(err) != apitest.Scope {
		t.Errorf("scope %q", cloud.ScopeOf(err))
	}
	add("i-2222222a", tag("kubernetes.io/cluster/other", "owned"), ec2.Running)
	expect("one without the tag", cloud.KindConflict, cloud.KindConflict, "instance i-2222222a has the private DNS name "+name+", but not the tag kubernetes.io/cluster/c")
	add("i-3333333a", owned, ec2.Running)
	if i, err := w.Get(t.Context(), ref); err != nil || i.ProviderID != "aws:///eu-central-1a/i-3333333a" {
		t.Errorf("one with the tag beside it: %+v, %v", i, err)
	}
	add("i-4444444a", owned, ec2.Stopped)
	expect("two of the cluster", cloud.KindConflict, cloud.KindConflict, "2 instances have the private DNS name "+name+" (i-3333333a and i-4444444a)")
}

// TestComplaint384NodesOfAnyName: Nodes whose names are not their instances' private DNS names (also #63 and #72), as DHCP options
// give another domain, or none, or the user has named them.
func TestComplaint384NodesOfAnyName(t *testing.T) {
	w := newWorld(t, "")
	owned := tag("kubernetes.io/cluster/"+cluster, "owned")
	add := func(id, ip, name string, tags map[string]string, state ec2.State) {
		w.AddInstance(ec2.Instance{ID: id, PrivateIP: ip, PrivateDNSName: name, Tags: tags, State: state})
	}
	add("i-1111111a", "10.0.0.101", "ip-10-0-0-101.eu-central-1.compute.internal", owned, ec2.Running)
	add("i-2222222a", "10.0.0.102", "ip-10-0-0-103", owned, ec2.Stopped) // whose name is another's address
	add("i-3333333a", "10.0.0.103", "web", owned, ec2.Running)
	add("i-4444444a", "10.0.0.104", "x", nil, ec2.Running)
	add("i-5555555a", "10.0.0.105", "y", owned, ec2.Running)
	add("i-6666666a", "10.0.0.105", "z", owned, ec2.Running)
	add("i-7777777a", "10.0.0.107", "v", owned, ec2.Terminated)
	var refs []cloud.InstanceRef
	var want []string
	for _, tt := range []struct{ name, nodeIP, want string }{
		{"ip-10-0-0-101", "", "i-1111111a"},
		{"ip-10-0-0-101.example.org", "", "i-1111111a"},
		{"database.example.org", "10.0.0.101", "i-1111111a"},
		{"database.example.org", "::ffff:10.0.0.103", "i-3333333a"}, // two that say the same name answer for themselves
		{"i-1111111a.example.org", "10.0.0.103", "i-1111111a"},
		{"ip-10-0-0-103", "", "i-2222222a"},
		{"ip-10-0-0-103", "10.0.0.101", "i-2222222a"},
		{"other.example.org", "", cloud.KindNotFound.String()},
		{"ip-10-0-0-104", "", cloud.KindNotFound.String()},
		{"ip-10-0-0-105", "", cloud.KindConflict.String()},
		{"ip-10-0-0-107", "", cloud.KindNotFound.String()},
		{"ip-10-0-0", "", cloud.KindNotFound.String()},
		{"v6.example.org", "2001:db8::1", cloud.KindNotFound.String()},
	} {
		ref := cloud.InstanceRef{NodeName: tt.name}
		if tt.nodeIP != "" {
			ref.NodeIP = netip.MustParseAddr(tt.nodeIP)
		}
		refs, want = append(refs, ref), append(want, tt.want)
	}
	w.describes()
	for n, r := range w.Find(t.Context(), refs) {
		got, err := w.Get(t.Context(), refs[n])
		for how, r := range map[string]cloud.Result[*cloud.Instance]{"Find": r, "Get": {Value: got, Err: err}} {
			is := cloud.KindOf(r.Err).String()
			if r.Err == nil {
				is = strings.TrimPrefix(r.Value.ProviderID, "aws:///eu-central-1a/")
			}
			if is != want[n] {
				t.Errorf("%s of %+v: %s, want %s: %v", how, refs[n], is, want[n], r.Err)
			}
		}
	}
	w.describes()
	w.Find(t.Context(), refs)
	if calls := w.describes(); calls != 3 {
		t.Errorf("%d calls, want one for IDs, names and addresses each", calls)
	}
}

func TestRefsThatAreNotOurs(t *testing.T) {
	w := newWorld(t, "")
	refs := w.add(1)
	for _, bad := range []cloud.InstanceRef{
		{NodeName: "n", ProviderID: "openstack:///714f1a84-9733-4bb6-aa45-ad213da01e3c"}, {NodeName: "n", ProviderID: "aws:///a/fargate-10.0.0.1"},
		{NodeName: "n", ProviderID: "aws:///a/i-*"}, {NodeName: "ip-10-0-0-?.ec2.internal"}, {NodeName: "*"}, {},
	} {
		got := w.Find(t.Context(), []cloud.InstanceRef{bad, refs[0]})
		if cloud.KindOf(got[0].Err) != cloud.KindInvalid || got[1].Err != nil {
			t.Errorf("Find %+v: %v, and beside it %v", bad, got[0].Err, got[1].Err)
		}
		if _, err := w.Get(t.Context(), bad); cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("Get %+v: %v", bad, err)
		}
	}
	if calls := w.describes(); calls != 6 {
		t.Errorf("%d calls, want those for the one instance alone", calls)
	}
}

func TestOutageProvesNothing(t *testing.T) {
	w := newWorld(t, "")
	refs := w.add(300)
	down := apitest.Fault{Status: http.StatusServiceUnavailable, Code: "Unavailable", Message: "m"}
	for name, refs := range map[string][]cloud.InstanceRef{"few": refs[:2], "many": refs, "names": {{NodeName: refs[0].NodeName}}} {
		w.Fail("DescribeInstances", down)
		for _, r := range w.Find(t.Context(), refs) {
			if cloud.KindOf(r.Err) != cloud.KindUnavailable {
				t.Fatalf("%s: %v", name, r.Err)
			}
		}
		if calls := w.describes(); calls != 1 {
			t.Errorf("%s: %d calls while it is down, want 1", name, calls)
		}
	}
	w.Fail("DescribeInstances", down)
	if _, err := w.Get(t.Context(), refs[0]); cloud.KindOf(err) != cloud.KindUnavailable {
		t.Errorf("Get: %v", err)
	}
	none := apitest.Body("<DescribeInstancesResponse></DescribeInstancesResponse>")
	w.Fail("DescribeInstances", none, down)
	if _, err := w.Get(t.Context(), cloud.InstanceRef{NodeName: "ip-10-9-9-9.ec2.internal"}); cloud.KindOf(err) != cloud.KindUnavailable {
		t.Errorf("Get by a name that nobody has, while it is down: %v", err)
	}
}

func TestZoneIDWhereEC2DoesNotSayIt(t *testing.T) {
	w := newWorld(t, "")
	old := apitest.Body("<DescribeInstancesResponse><reservationSet><item><ownerId>" + apitest.Account + "</ownerId><instancesSet><item><instanceId>i-1111111a</instanceId>" +
		"<instanceState><name>running</name></instanceState><placement><availabilityZone>eu-central-1b</availabilityZone></placement></item></instancesSet></item></reservationSet></DescribeInstancesResponse>")
	w.Fail("DescribeInstances", old, old, old)
	w.Fail("DescribeAvailabilityZones", apitest.Fault{Status: http.StatusForbidden, Code: "UnauthorizedOperation", Message: "m"})
	if i, err := w.Get(t.Context(), byID("i-1111111a")[0]); err != nil || i.Labels != nil {
		t.Errorf("without a permission: %+v, %v", i, err)
	}
	w.restart(t, "") // a failure is kept for moments
	for range 2 {
		if i, err := w.Get(t.Context(), byID("i-1111111a")[0]); err != nil || i.Labels["topology.k8s.aws/zone-id"] != "euc1-az3" {
			t.Errorf("%+v, %v", i, err)
		}
	}
	n := 0
	for _, r := range w.Requests() {
		if r.Action == "DescribeAvailabilityZones" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("the zones were read %d times, want 2", n)
	}
}
