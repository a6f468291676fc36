package vpc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

const clusterTag = "kubernetes.io/cluster/c"

// world is a VPC with the network that is tested.
type world struct {
	*apitest.Cloud
	*vpc.Network
	t     *testing.T
	clock apitest.Clock
	gate  cloud.Traffic
}

func start(t *testing.T, conf string, o awssim.Options) *world {
	t.Helper()
	c := apitest.StartWith(t, o)
	w := &world{Cloud: c, t: t}
	w.restart(conf)
	return w
}

// restart is what a new process starts with.
func (w *world) restart(conf string) {
	w.t.Helper()
	w.open(conf, joint.Options{Quiet: 20 * time.Millisecond, Wait: time.Minute, Waiters: 100})
}

// EnsureNodeRules is that of the network where what has changed does not matter.
func (w *world) EnsureNodeRules(ctx context.Context, ref cloud.LoadBalancerRef, want vpc.NodeRules) error {
	_, err := w.Network.EnsureNodeRules(ctx, ref, want)
	return err
}

// EnsureGroup is that of the network where what has changed does not matter.
func (w *world) EnsureGroup(ctx context.Context, ref cloud.LoadBalancerRef, g vpc.Group, rules []vpc.Rule) (string, error) {
	id, _, err := w.Network.EnsureGroup(ctx, ref, g, rules)
	return id, err
}

// hurry is restart where nobody waits for rules of Nodes.
func (w *world) hurry() {
	w.open("", joint.Options{Quiet: 20 * time.Millisecond, Wait: time.Nanosecond})
}

func (w *world) open(conf string, o joint.Options) {
	w.t.Helper()
	client, cfg := w.Client("[Global]\nRegion = eu-central-1\nKubernetesClusterID = c\nVPC = "+w.VPC.ID+"\n"+conf, cloud.Options{Traffic: w.gate})
	o.Clock = &w.clock
	w.Network = vpc.New(client, &cfg.Global, func() string { return "c" }, o)
	w.Requests()
}

func ref(name string) cloud.LoadBalancerRef {
	return cloud.LoadBalancerRef{Cluster: cloud.Cluster{ID: "c", UID: "u"}, Namespace: "default", Name: name, UID: "uid-" + name}
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// inbound are the rules of a group, as "tcp 80-80 10.0.0.0/8 description", sorted.
func (w *world) inbound(id string) []string {
	w.t.Helper()
	found, err := w.EC2.SecurityGroups([]string{id})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, u := range found[0].Rules {
		if u.Egress {
			continue
		}
		ports := ""
		if u.HasPorts() {
			ports = fmt.Sprintf(" %d-%d", u.FromPort, u.ToPort)
		}
		out = append(out, strings.TrimSpace(u.Protocol+ports+" "+u.CIDR+u.CIDR6+u.Group+" "+u.Description))
	}
	slices.Sort(out)
	return out
}

func (w *world) wantInbound(id string, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if got := w.inbound(id); !slices.Equal(got, want) {
		w.t.Errorf("%s lets in\n%s\nwant\n%s", id, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (w *world) wantActions(want ...string) {
	w.t.Helper()
	if got := w.Actions(); !slices.Equal(got, want) {
		w.t.Errorf("requests %v, want %v", got, want)
	}
}

// allow adds rules to a group.
func (w *world) allow(id string, rules []ec2.Rule) {
	w.t.Helper()
	if _, err := w.EC2.Authorize(id, rules); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) group(name string, tagged bool) string {
	g := ec2.SecurityGroup{VPCID: w.VPC.ID, Name: name, Description: name, Tags: map[string]string{}}
	if tagged {
		g.Tags[clusterTag] = "owned"
	}
	return w.EC2.AddSecurityGroup(g).ID
}

// node is an instance of the cluster with groups.
func (w *world) node(groups ...string) string {
	return w.AddInstance(ec2.Instance{Interfaces: []*ec2.NetworkInterface{{Groups: groups}}, Tags: map[string]string{clusterTag: "owned"}}).ID
}

// crash is a cloud.Traffic that lets so many changes pass, and then nothing more: the process has died.
type crash struct {
	left int
	dead bool
}

var errCrashed = errors.New("crashed")

func (c *crash) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	if c.dead = c.dead || r.Mutates && c.left == 0; c.dead {
		return nil, errCrashed
	}
	if r.Mutates {
		c.left--
	}
	return func(cloud.Outcome) {}, nil
}

// all asks for rules of Services at the same time.
func (w *world) all(n int, ask func(i int) error) {
	w.t.Helper()
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if err := ask(i); err != nil {
				w.t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestSubnetsArePickedAsByTheExistingManager(t *testing.T) {
	w := start(t, "", awssim.Options{})
	zones := w.EC2.Zones()
	w.EC2.AddZone(ec2.Zone{Name: "eu-central-1-ham-1a", ID: "euc1-ham1-az1", Type: "local-zone"})
	main := w.EC2.MainRouteTable(w.VPC.ID).ID
	add := func(id, cidr, zone string, tags map[string]string) {
		w.EC2.AddSubnet(ec2.Subnet{ID: id, VPCID: w.VPC.ID, CIDR: cidr, Zone: zone, Tags: tags})
	}
	add("subnet-00a", "10.0.192.0/24", zones[0].Name, nil)
	add("subnet-00b", "10.0.193.0/24", zones[0].Name, map[string]string{clusterTag: "shared"})
	add("subnet-zzz", "10.0.194.0/24", zones[0].Name, map[string]string{"kubernetes.io/role/internal-elb": "", "Name": "by-name"})
	add("subnet-00c", "10.0.195.0/24", zones[1].Name, map[string]string{"kubernetes.io/cluster/other": "owned", "kubernetes.io/role/internal-elb": "1"})
	add("subnet-00d", "10.0.196.0/24", "eu-central-1-ham-1a", nil)
	ids := func(internal bool, named ...string) string {
		t.Helper()
		got, err := w.Network.Subnets(t.Context(), internal, named)
		if err != nil {
			return cloud.KindOf(err).String() + ": " + err.Error()
		}
		var out []string
		for _, s := range got {
			out = append(out, s.ID)
		}
		return strings.Join(out, " ")
	}
	rest := w.Cloud.Subnets
	if got, want := ids(true), "subnet-zzz "+rest[1].ID+" "+rest[2].ID; got != want {
		t.Errorf("internal: %s, want %s", got, want)
	}
	w.wantActions("DescribeSubnets", "DescribeRouteTables", "DescribeAvailabilityZones")
	if got := ids(false); !strings.HasPrefix(got, "Invalid: no subnet of VPC "+w.VPC.ID+" is fit for a public load balancer") || !strings.Contains(got, "kubernetes.io/role/elb") {
		t.Error(got)
	}
	w.EC2.AddRoute(main, ec2.Route{Destination: "0.0.0.0/0", GatewayID: "igw-1"})
	w.restart("")
	if got, want := ids(false), "subnet-00b "+rest[1].ID+" "+rest[2].ID; got != want {
		t.Errorf("public: %s, want %s", got, want)
	}
	for named, want := range map[string]string{
		"by-name,subnet-00c":    "subnet-00c subnet-zzz",
		"subnet-nope":           `Invalid: VPC ` + w.VPC.ID + ` has no subnet "subnet-nope"; name subnets by ID (subnet-…) or by their tag Name`,
		"subnet-zzz,by-name":    "Invalid: subnet subnet-zzz is named twice",
		"subnet-00a,subnet-00a": "Invalid: subnet subnet-00a is named twice",
	} {
		if got := ids(false, strings.Split(named, ",")...); got != want {
			t.Errorf("%s: %s, want %s", named, got, want)
		}
	}
	got, err := w.Network.Subnets(t.Context(), true, []string{"subnet-00a"})
	if err != nil || got[0].CIDRs[0] != netip.MustParsePrefix("10.0.192.0/24") || !got[0].Public || got[0].Zone != zones[0].Name {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSubnetsAreReadOnceForManyServices(t *testing.T) {
	w := start(t, "", awssim.Options{})
	for range 100 {
		if _, err := w.Network.Subnets(t.Context(), true, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.Requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// In an outage they must not all try, one after the other.
func TestServicesShareReadsThatFail(t *testing.T) {
	w := start(t, "", awssim.Options{})
	node := w.node(w.group("nodes", true))
	for action, ask := range map[string]func() error{
		"DescribeSubnets":        func() error { _, err := w.Network.Subnets(t.Context(), true, nil); return err },
		"DescribeInstances":      func() error { _, _, err := w.Instances(t.Context(), members(node)); return err },
		"DescribeSecurityGroups": func() error { _, err := w.FindGroup(t.Context(), ref("web"), "k8s-elb-a1"); return err },
	} {
		remove := w.AddFault(apitest.Fault{Action: action, Status: http.StatusServiceUnavailable, Code: "Unavailable", Message: "m"})
		w.Requests()
		w.all(50, func(int) error {
			if err := ask(); !cloud.IsUnavailable(err) {
				return fmt.Errorf("%s: %w", action, err)
			}
			return nil
		})
		if n := len(w.Requests()); n > 3 {
			t.Errorf("%s: %d requests, want one", action, n)
		}
		remove()
		w.clock.Pass(2 * time.Second)
		if err := ask(); err != nil {
			t.Error(err)
		}
	}
}

func TestSubnetThatIsNewIsFound(t *testing.T) {
	w := start(t, "", awssim.Options{})
	if _, err := w.Network.Subnets(t.Context(), true, nil); err != nil {
		t.Fatal(err)
	}
	w.clock.Pass(30 * time.Second) // what is younger is believed
	w.EC2.AddSubnet(ec2.Subnet{ID: "subnet-new", VPCID: w.VPC.ID, CIDR: "10.0.192.0/24"})
	if got, err := w.Network.Subnets(t.Context(), true, []string{"subnet-new"}); err != nil || got[0].ID != "subnet-new" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSubnetsThatAreNotThereCostFewReads(t *testing.T) {
	w := start(t, "", awssim.Options{})
	const services, minutes = 200, 5
	for range minutes * 60 / 2 { // each is tried every two seconds
		for n := range services {
			if _, err := w.Network.Subnets(t.Context(), true, []string{fmt.Sprint("subnet-", n)}); cloud.KindOf(err) != cloud.KindInvalid {
				t.Fatal(err)
			}
		}
		w.clock.Pass(2 * time.Second)
	}
	if n := len(w.Requests()); n > 3*(2*minutes+1) {
		t.Errorf("%d requests in %d minutes of %d Services with wrong subnets, want 3 each half minute", n, minutes, services)
	}
}

var webGroup = vpc.Group{Name: "k8s-elb-a1", Description: "Security group for Kubernetes ELB a1 (default/web)", Tags: map[string]string{"team": "x"}}

func webRules(cidrs ...string) []vpc.Rule {
	return []vpc.Rule{{Protocol: "tcp", From: 80, To: 80, CIDRs: prefixes(cidrs...)}, {Protocol: "icmp", From: 3, To: 4, CIDRs: prefixes(cidrs...)}}
}

func TestGroupIsMadeChangedAndDeleted(t *testing.T) {
	w := start(t, "", awssim.Options{})
	ensure := func(rules []vpc.Rule) string {
		t.Helper()
		id, err := w.EnsureGroup(t.Context(), ref("web"), webGroup, rules)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := ensure(webRules("0.0.0.0/0"))
	w.wantActions("DescribeSecurityGroups", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress")
	w.wantInbound(id, "tcp 80-80 0.0.0.0/0", "icmp 3-4 0.0.0.0/0")
	found, _ := w.EC2.SecurityGroups([]string{id})
	if g := found[0]; g.Name != webGroup.Name || g.Description != webGroup.Description || g.Tags["team"] != "x" || g.Tags[clusterTag] != "owned" ||
		g.Tags["isthmus-cloud.github.io/cluster-uid"] != ref("web").Cluster.UID || g.Tags["isthmus-cloud.github.io/service"] != "default/web" || len(g.Tags) != 4 {
		t.Errorf("%+v", g)
	}
	if again := ensure(webRules("0.0.0.0/0")); again != id {
		t.Errorf("made twice: %s", again)
	}
	w.wantActions()
	w.restart("")
	ensure(webRules("0.0.0.0/0"))
	w.wantActions("DescribeSecurityGroups")
	ensure(webRules("10.0.0.0/8", "192.168.0.0/16"))
	w.wantActions("AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress")
	w.wantInbound(id, "tcp 80-80 10.0.0.0/8", "icmp 3-4 10.0.0.0/8", "tcp 80-80 192.168.0.0/16", "icmp 3-4 192.168.0.0/16")
	if err := w.DeleteGroup(t.Context(), ref("web"), webGroup.Name); err != nil {
		t.Error(err)
	}
	w.wantActions("DescribeSecurityGroups", "DeleteSecurityGroup")
	w.restart("")
	if err := w.DeleteGroup(t.Context(), ref("web"), webGroup.Name); err != nil {
		t.Error(err)
	}
	w.wantActions("DescribeSecurityGroups")
}

func TestGroupOfSomebodyElseIsLeftAlone(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"without tags": nil, "shared": {clusterTag: "shared"}, "of another cluster": {"kubernetes.io/cluster/d": "owned"}, "of the controller of AWS": {"elbv2.k8s.aws/cluster": "c"},
		"of the controller of AWS, with tags of a user's": {"elbv2.k8s.aws/cluster": "c", clusterTag: "owned"},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, "", awssim.Options{})
			id := w.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: w.VPC.ID, Name: webGroup.Name, Description: "d", Tags: tags}).ID
			_, err := w.EnsureGroup(t.Context(), ref("web"), webGroup, webRules("0.0.0.0/0"))
			if cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), clusterTag+"=owned") {
				t.Errorf("%v", err)
			}
			if err := w.DeleteGroup(t.Context(), ref("web"), webGroup.Name); err != nil {
				t.Error(err)
			}
			w.wantInbound(id)
		})
	}
	w := start(t, "", awssim.Options{})
	w.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: w.VPC.ID, Name: webGroup.Name, Description: "d", Tags: map[string]string{"KubernetesCluster": "c"}})
	if _, err := w.EnsureGroup(t.Context(), ref("web"), webGroup, webRules("0.0.0.0/0")); err != nil {
		t.Errorf("the old tag counts: %v", err)
	}
}

// kubernetes/cloud-provider-aws#566, kubernetes/kubernetes#79994, #84366: security groups were left over, as nobody came back for one in use.
func TestComplaint566GroupThatIsUsedIsDeletedLater(t *testing.T) {
	w := start(t, "", awssim.Options{})
	id, err := w.EnsureGroup(t.Context(), ref("web"), webGroup, webRules("0.0.0.0/0"))
	if err != nil {
		t.Fatal(err)
	}
	eni := w.EC2.AddInterface(ec2.NetworkInterface{SubnetID: w.Cloud.Subnets[0].ID, Groups: []string{id}})
	if err := w.DeleteGroup(t.Context(), ref("web"), webGroup.Name); cloud.KindOf(err) != cloud.KindRetryAfter || cloud.RetryAfter(err) == 0 {
		t.Errorf("%v", err)
	}
	w.EC2.RemoveInterface(eni.ID)
	if err := w.DeleteGroup(t.Context(), ref("web"), webGroup.Name); err != nil {
		t.Errorf("%v", err)
	}
	if _, err := w.EC2.SecurityGroups([]string{id}); err == nil {
		t.Error("it stays")
	}
}

func TestGroupThatHasChangedHandsStays(t *testing.T) {
	w := start(t, "", awssim.Options{})
	id, err := w.EnsureGroup(t.Context(), ref("web"), webGroup, webRules("0.0.0.0/0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.EC2.DeleteTags([]string{id}, map[string]*string{clusterTag: nil}), w.DeleteGroup(t.Context(), ref("web"), webGroup.Name)); err != nil {
		t.Error(err)
	}
	if _, err := w.EC2.SecurityGroups([]string{id}); err != nil {
		t.Error(err)
	}
}

func TestGroupConvergesAfterEachFailure(t *testing.T) {
	for _, action := range []string{"DescribeSecurityGroups", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"} {
		w := start(t, "", awssim.Options{})
		ensure := func(cidr string) error {
			_, err := w.EnsureGroup(t.Context(), ref("web"), webGroup, webRules(cidr))
			return err
		}
		if action == "RevokeSecurityGroupIngress" {
			if err := ensure("10.0.0.0/8"); err != nil {
				t.Fatal(err)
			}
		}
		w.Fail(action, apitest.Fault{Status: 503, Code: "Unavailable"})
		if err := ensure("0.0.0.0/0"); !cloud.IsUnavailable(err) {
			t.Errorf("%s: %v", action, err)
		}
		w.restart("")
		if err := ensure("0.0.0.0/0"); err != nil {
			t.Errorf("%s: %v", action, err)
		}
		all, _ := w.EC2.SecurityGroups(nil)
		all = slices.DeleteFunc(all, func(g *ec2.SecurityGroup) bool { return g.Name != webGroup.Name })
		if len(all) != 1 {
			t.Fatalf("%s: %d groups", action, len(all))
		}
		w.wantInbound(all[0].ID, "tcp 80-80 0.0.0.0/0", "icmp 3-4 0.0.0.0/0")
	}
}

func TestGroupThatIsHiddenAtFirst(t *testing.T) {
	w := start(t, "", awssim.Options{})
	w.EC2.SetConsistency(time.Hour)
	for range 3 {
		if _, err := w.EnsureGroup(t.Context(), ref("web"), webGroup, webRules("0.0.0.0/0")); cloud.KindOf(err) != cloud.KindRetryAfter {
			t.Errorf("%v", err)
		}
	}
	w.EC2.SetConsistency(0)
	if id, err := w.EnsureGroup(t.Context(), ref("web"), webGroup, webRules("0.0.0.0/0")); err != nil {
		t.Errorf("%v", err)
	} else {
		w.wantInbound(id, "tcp 80-80 0.0.0.0/0", "icmp 3-4 0.0.0.0/0")
	}
}
