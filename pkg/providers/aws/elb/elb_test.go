package elb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	simelb "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
)

const clusterTag = "kubernetes.io/cluster/c"

// world is a VPC with three nodes, and the load balancers that are tested.
type world struct {
	*apitest.Cloud
	*elb.LoadBalancers
	t     *testing.T
	conf  string
	nodes string // the security group of the nodes
	ids   []string
	clock apitest.Clock // of the network
}

func start(t *testing.T, conf string, o awssim.Options) *world {
	t.Helper()
	w := &world{Cloud: apitest.StartWith(t, o), t: t, conf: conf}
	w.EC2.AddRoute(w.EC2.MainRouteTable(w.VPC.ID).ID, ec2.Route{Destination: "0.0.0.0/0", GatewayID: "igw-1"})
	w.nodes = w.group("nodes", clusterTag)
	for n := range 3 {
		w.ids = append(w.ids, w.AddInstance(ec2.Instance{SubnetID: w.Subnets[n].ID, Tags: map[string]string{clusterTag: "owned"},
			Interfaces: []*ec2.NetworkInterface{{Groups: []string{w.nodes}}}}).ID)
	}
	w.restart(nil)
	return w
}

func (w *world) group(name string, tags ...string) string {
	g := ec2.SecurityGroup{VPCID: w.VPC.ID, Name: name, Description: name, Tags: map[string]string{}}
	for _, tag := range tags {
		g.Tags[tag] = "owned"
	}
	return w.EC2.AddSecurityGroup(g).ID
}

// restart is what a new process starts with.
func (w *world) restart(traffic cloud.Traffic) {
	w.t.Helper()
	client, cfg := w.Client("[Global]\nRegion = eu-central-1\nKubernetesClusterID = c\nVPC = "+w.VPC.ID+"\n"+w.conf, cloud.Options{Traffic: traffic})
	cluster := func() string { return "c" }
	n := vpc.New(client, &cfg.Global, cluster, joint.Options{Quiet: 10 * time.Millisecond, Wait: time.Minute, Waiters: 100, Clock: &w.clock})
	w.LoadBalancers = elb.New(client, &cfg.Global, cluster, n)
	w.Requests()
}

// spec is a Service with the node ports 30080 and 30443 for 80 and 443, and some of the nodes, by pairs of annotations.
func (w *world) spec(name string, nodes int, pairs ...string) *cloud.LoadBalancerSpec {
	s := &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{ID: "c", UID: "u"}, Namespace: "default", Name: name,
		UID: fmt.Sprintf("%08x-0000-4000-8000-00000000000a", sum(name)), Settings: cloud.Settings{}}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}
	for i := 0; i < len(pairs); i += 2 {
		s.Settings[pairs[i]] = pairs[i+1]
	}
	s.Ports = []cloud.LoadBalancerPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}, {Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443}}
	for n, id := range w.ids {
		m := cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: fmt.Sprint("node", n), ProviderID: "aws:///eu-central-1a/" + id}}
		if s.Candidates = append(s.Candidates, m); n < nodes {
			s.Members = append(s.Members, m)
		}
	}
	return s
}

func sum(s string) (n int) {
	for _, r := range s {
		n = n*31 + int(r)
	}
	return n & 0x7fffffff
}

// ensure asks until it is done.
func (w *world) ensure(s *cloud.LoadBalancerSpec) *cloud.LoadBalancerStatus {
	w.t.Helper()
	for range 10 {
		status, err := w.Ensure(w.t.Context(), s)
		if err == nil {
			return status
		}
		if cloud.KindOf(err) != cloud.KindRetryAfter {
			w.t.Fatal(err)
		}
	}
	w.t.Fatal("it does not end")
	return nil
}

func (w *world) delete(s *cloud.LoadBalancerSpec) {
	w.t.Helper()
	for range 10 {
		err := w.Delete(w.t.Context(), s)
		if err == nil {
			return
		}
		if cloud.KindOf(err) != cloud.KindRetryAfter {
			w.t.Fatal(err)
		}
	}
	w.t.Fatal("it does not end")
}

// mutations are the names of requests that change something.
func (w *world) mutations() []string {
	return slices.DeleteFunc(w.Actions(), func(a string) bool { return strings.HasPrefix(a, "Describe") })
}

func (w *world) wantActions(want ...string) {
	w.t.Helper()
	if got := w.Actions(); !slices.Equal(got, want) {
		w.t.Errorf("requests %v, want %v", got, want)
	}
}

// state is all that there is of load balancers and security groups, with names of groups in place of IDs.
func (w *world) state() string {
	w.t.Helper()
	all, err := w.ELB(apitest.Account, apitest.Region).LoadBalancers(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	groups, err := w.EC2.SecurityGroups(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, b := range all {
		var subnets []string
		for _, s := range b.Subnets {
			subnets = append(subnets, s.Zone)
		}
		slices.Sort(subnets)
		slices.SortFunc(b.Listeners, func(x, y simelb.Listener) int { return x.Port - y.Port })
		slices.Sort(b.Instances)
		out = append(out, fmt.Sprintln(b.Name, b.Scheme, subnets, b.SecurityGroups), fmt.Sprintf("%+v\n%+v\n%v\n%v\n%v\n", b.Listeners, b.Check, b.Policies, b.Backends, b.Instances),
			fmt.Sprintln(b.Attributes), fmt.Sprintln(b.Tags))
	}
	for _, g := range groups {
		if g.VPCID != w.VPC.ID || g.Name == "default" {
			continue
		}
		var rules []string
		for _, u := range g.Rules {
			if !u.Egress {
				rules = append(rules, fmt.Sprintf("  %s %d-%d %s%s %s\n", u.Protocol, u.FromPort, u.ToPort, u.CIDR, u.Group, u.Description))
			}
		}
		slices.Sort(rules)
		out = append(out, fmt.Sprintln(g.Name, g.Description, g.Tags), strings.Join(rules, ""))
	}
	text := strings.Join(out, "")
	for _, g := range groups {
		text = strings.ReplaceAll(text, g.ID, "<"+g.Name+">")
	}
	return text
}

func (w *world) balancer(s *cloud.LoadBalancerSpec) *simelb.LoadBalancer {
	w.t.Helper()
	found, err := w.ELB(apitest.Account, apitest.Region).LoadBalancers([]string{plan.Name(s.LoadBalancerRef)})
	if err != nil {
		w.t.Fatal(err)
	}
	return found[0]
}

func TestLoadBalancerIsMade(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 2, annotations.Tags, "team=x")
	status := w.ensure(s)
	w.wantActions("DescribeLoadBalancers", "DescribeSubnets", "DescribeRouteTables", "DescribeAvailabilityZones", "DescribeSecurityGroups", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress",
		"CreateLoadBalancer", "DescribeInstances", "DescribeLoadBalancerAttributes", "DescribeSecurityGroups", "AuthorizeSecurityGroupIngress", "ConfigureHealthCheck", "RegisterInstancesWithLoadBalancer")
	b := w.balancer(s)
	if len(status.Ingress) != 1 || status.Ingress[0].Hostname != b.DNSName || len(status.Warnings)+len(status.Repaired) > 0 {
		t.Errorf("%+v", status)
	}
	if b.Name != "a"+strings.ReplaceAll(s.UID, "-", "")[:31] || b.Scheme != "internet-facing" || len(b.Subnets) != 3 || len(b.Listeners) != 2 ||
		b.Check != (simelb.Check{Target: "TCP:30080", Interval: 10, Timeout: 5, Healthy: 2, Unhealthy: 6}) || !slices.Equal(slices.Sorted(slices.Values(b.Instances)), slices.Sorted(slices.Values(w.ids[:2]))) {
		t.Errorf("%+v", b)
	}
	if want := map[string]string{"team": "x", clusterTag: "owned", plan.Service: "default/web", "isthmus-cloud.github.io/cluster-uid": "u"}; !maps.Equal(b.Tags, want) {
		t.Errorf("tags %v", b.Tags)
	}
	name := "k8s-elb-" + b.Name
	want := "nodes nodes map[kubernetes.io/cluster/c:owned]\n  -1 0-0 <" + name + "> \n" +
		name + " Security group for Kubernetes ELB " + b.Name + " (default/web) map[isthmus-cloud.github.io/cluster-uid:u isthmus-cloud.github.io/service:default/web kubernetes.io/cluster/c:owned team:x]\n  icmp 3-4 0.0.0.0/0 \n  tcp 443-443 0.0.0.0/0 \n  tcp 80-80 0.0.0.0/0 \n"
	if got := w.state(); !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestNothingChangesWhereNothingHas(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 3, annotations.CrossZone, "true", annotations.Tags, "team=x")
	w.ensure(s)
	before := w.state()
	w.Requests()
	for range 3 {
		w.ensure(s)
	}
	if got := w.mutations(); len(got) > 0 {
		t.Errorf("changed: %v", got)
	}
	w.restart(nil)
	for _, verify := range []bool{false, true} {
		s.Verify = verify
		if status := w.ensure(s); len(status.Repaired) > 0 {
			t.Errorf("%q", status.Repaired)
		}
	}
	if got := w.mutations(); len(got) > 0 || w.state() != before {
		t.Errorf("changed after a restart: %v", got)
	}
}

// everything has other settings than a Service without annotations.
func (w *world) everything(name string) *cloud.LoadBalancerSpec {
	s := w.spec(name, 2, annotations.Certificate, "arn:aws:acm:eu-central-1:111122223333:certificate/x", annotations.SSLPorts, "https", annotations.BackendProtocol, "http",
		annotations.SSLPolicy, "ELBSecurityPolicy-TLS-1-2-2017-01", annotations.ProxyProtocol, "*", annotations.CrossZone, "true", annotations.IdleTimeout, "90",
		annotations.DrainingEnabled, "true", annotations.DrainingTimeout, "120", annotations.LogEnabled, "true", annotations.LogBucket, "b", annotations.LogPrefix, "p", annotations.LogInterval, "5",
		annotations.CheckProtocol, "HTTP", annotations.CheckPort, "8080", annotations.CheckPath, "/live", annotations.CheckInterval, "20", annotations.CheckTimeout, "10",
		annotations.CheckHealthy, "3", annotations.CheckUnhealthy, "4", annotations.Tags, "team=y", annotations.Subnets, w.Subnets[0].ID+","+w.Subnets[1].ID)
	s.Ports = append(s.Ports, cloud.LoadBalancerPort{Name: "more", Protocol: corev1.ProtocolTCP, Port: 8080, NodePort: 30088})
	s.Ports[0].NodePort = 30081
	s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
	return s
}

func TestEverythingIsChanged(t *testing.T) {
	w := start(t, "", awssim.Options{})
	w.ensure(w.spec("web", 3))
	w.Requests()
	s := w.everything("web")
	w.ensure(s)
	b := w.balancer(s)
	want := []string{"AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress", "AddTags", "DetachLoadBalancerFromSubnets", "DeleteLoadBalancerListeners", "CreateLoadBalancerListeners",
		"CreateLoadBalancerPolicy", "CreateLoadBalancerPolicy", "SetLoadBalancerPoliciesForBackendServer", "SetLoadBalancerPoliciesForBackendServer", "SetLoadBalancerPoliciesForBackendServer",
		"SetLoadBalancerPoliciesOfListener", "ModifyLoadBalancerAttributes", "ConfigureHealthCheck", "DeregisterInstancesFromLoadBalancer"}
	if got := w.mutations(); !slices.Equal(got, want) {
		t.Errorf("requests %v, want %v", got, want)
	}
	if got := fmt.Sprint(b.Listeners, b.Check, b.Attributes); got != "[{80 30081 HTTP HTTP  []} {443 30443 HTTPS HTTP arn:aws:acm:eu-central-1:111122223333:certificate/x [k8s-SSLNegotiationPolicy-ELBSecurityPolicy-TLS-1-2-2017-01]} {8080 30088 HTTP HTTP  []}]"+
		" {HTTP:8080/live 20 10 3 4} map[AccessLog.EmitInterval:5 AccessLog.Enabled:true AccessLog.S3BucketName:b AccessLog.S3BucketPrefix:p AdditionalAttributes.elb.http.desyncmitigationmode:defensive"+
		" ConnectionDraining.Enabled:true ConnectionDraining.Timeout:120 ConnectionSettings.IdleTimeout:90 CrossZoneLoadBalancing.Enabled:true]" {
		t.Error(got)
	}
	for _, port := range []int{30081, 30443, 30088} {
		if !slices.Equal(b.Backends[port], []string{plan.ProxyPolicy}) {
			t.Errorf("%v", b.Backends)
		}
	}
	w.ensure(w.spec("web", 3)) // and back: proxy protocol goes, whoever had it
	if b = w.balancer(s); len(b.Subnets) != 3 || len(b.Backends) != 0 || b.Attributes["ConnectionSettings.IdleTimeout"] != "60" || b.Tags["team"] != "y" {
		t.Errorf("%+v", b)
	}
}

// kubernetes/cloud-provider-aws#566, kubernetes/kubernetes#79994, #84366: security groups were left over, as nobody came back for one in use.
func TestComplaint566DeletionLeavesNothing(t *testing.T) {
	w := start(t, "", awssim.Options{ELB: simelb.Options{Release: 300 * time.Millisecond}})
	before := w.state()
	s := w.spec("web", 3)
	w.ensure(s)
	w.Requests()
	err := w.Delete(t.Context(), s)
	if cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("the load balancer still has its group: %v", err)
	}
	if got := w.mutations(); !slices.Equal(got, []string{"RevokeSecurityGroupIngress", "DeleteLoadBalancer", "DeleteSecurityGroup"}) {
		t.Errorf("%v", got)
	}
	w.restart(nil)
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); {
		if err = w.Delete(t.Context(), s); err != nil && cloud.KindOf(err) != cloud.KindRetryAfter {
			t.Fatal(err)
		}
	}
	if err != nil || w.state() != before {
		t.Errorf("%v\n%s\nwant\n%s", err, w.state(), before)
	}
	w.Requests()
	w.delete(s)
	if got := w.mutations(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestLoadBalancerOfSomebodyElseIsLeftAlone(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 3)
	for name, tags := range map[string]map[string]string{
		"no tags": {}, "another cluster": {"kubernetes.io/cluster/d": "owned", plan.Service: "default/web"}, "another Service": {clusterTag: "owned", plan.Service: "default/other"},
	} {
		region := w.ELB(apitest.Account, apitest.Region)
		if _, err := region.Create(simelb.LoadBalancer{Name: plan.Name(s.LoadBalancerRef), Subnets: []simelb.Subnet{{ID: w.Subnets[0].ID}}, Tags: tags,
			Listeners: []simelb.Listener{{Port: 1, InstancePort: 1, Protocol: "TCP"}}}); err != nil {
			t.Fatal(err)
		}
		before := w.state()
		w.restart(nil)
		if _, err := w.Ensure(t.Context(), s); cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.UpdateMembers(t.Context(), s); cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("%s: %v", name, err)
		}
		w.delete(s)
		if got := w.mutations(); len(got) > 0 || w.state() != before {
			t.Errorf("%s: %v", name, got)
		}
		region.Delete(plan.Name(s.LoadBalancerRef))
	}
}

// What is remembered of tags may be minutes old: whatever has changed hands since is not deleted.
func TestLoadBalancerThatHasChangedHandsIsNotDeleted(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 3)
	w.ensure(s)
	_, err := w.ELB(apitest.Account, apitest.Region).Change(plan.Name(s.LoadBalancerRef), func(b *simelb.LoadBalancer) error {
		b.Tags = map[string]string{clusterTag: "owned", plan.Service: "default/other"}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before := w.state()
	w.delete(s)
	if got := w.state(); got != before {
		t.Errorf("%s\nwant\n%s", got, before)
	}
}

func TestLoadBalancerWithoutTagsThatIsPublishedIsMarked(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 3)
	host := w.ensure(s).Ingress
	_, err := w.ELB(apitest.Account, apitest.Region).Change(plan.Name(s.LoadBalancerRef), func(b *simelb.LoadBalancer) error { clear(b.Tags); return nil })
	if err != nil {
		t.Fatal(err)
	}
	s.CurrentIngress = host
	w.restart(nil)
	w.ensure(s)
	if b := w.balancer(s); b.Tags[clusterTag] != "owned" || b.Tags[plan.Service] != "default/web" {
		t.Errorf("%v", b.Tags)
	}
}

func TestComplaint94966InstanceThatDoesNotRunKeepsNobodyOut(t *testing.T) {
	w := start(t, "", awssim.Options{})
	w.EC2.Stop(w.ids[0])
	s := w.spec("web", 3)
	var err error
	for range 10 { // until all is done but that
		if _, err = w.Ensure(t.Context(), s); err == nil || strings.Contains(err.Error(), w.ids[0]) {
			break
		}
	}
	if cloud.KindOf(err) != cloud.KindRetryAfter || !strings.Contains(err.Error(), w.ids[0]) {
		t.Errorf("%v, want to be told to come back for %s", err, w.ids[0])
	}
	if b := w.balancer(s); slices.Contains(b.Instances, w.ids[0]) || len(b.Instances) != 2 {
		t.Errorf("%v", b.Instances)
	}
	if err := w.UpdateMembers(t.Context(), s); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("%v", err)
	}
	w.EC2.Run(w.ids[0])
	w.restart(nil)
	if w.ensure(s); len(w.balancer(s).Instances) != 3 {
		t.Errorf("%v", w.balancer(s).Instances)
	}
}

// AWS takes all instances of a request or none: those that it names are left out, and the others get their traffic.
func TestComplaint94966InstanceThatIsRefusedKeepsNobodyOut(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 1)
	w.ensure(s)
	s = w.cut(w.spec("web", 3), 2)
	w.Requests()
	w.Fail("RegisterInstancesWithLoadBalancer", apitest.Fault{Status: http.StatusBadRequest, Code: "InvalidInstance", Message: "Could not find EC2 instance " + w.ids[1] + "."})
	err := settle(w, func(w *world) error {
		err := w.UpdateMembers(t.Context(), s)
		if strings.Contains(fmt.Sprint(err), w.ids[1]) {
			return cloud.Errorf(cloud.KindInvalid, "%w", err)
		}
		return err
	})
	if cloud.KindOf(errors.Unwrap(err)) != cloud.KindRetryAfter || !strings.Contains(fmt.Sprint(err), "AWS does not take their instances") {
		t.Errorf("%v", err)
	}
	if got := w.balancer(s).Instances; !slices.Equal(got, w.ids[2:]) {
		t.Errorf("members %v, want the one that is not refused, and not the old one", got)
	}
	w.Requests()
	if w.ensure(s); len(w.balancer(s).Instances) != 2 {
		t.Errorf("members %v", w.balancer(s).Instances)
	}
	for _, r := range w.Requests() {
		if r.Action == "DescribeInstances" && (r.Form.Get("Filter.1.Name") != "instance-id" || r.Form.Get("Filter.1.Value.2") != "") {
			t.Errorf("read more than the one that was refused: %v", r.Form)
		}
	}
}

// EC2's reads lag behind: an instance that it does not show yet comes in by itself.
func TestInstanceThatIsNotShownYetIsWaitedFor(t *testing.T) {
	w := start(t, "", awssim.Options{})
	w.ensure(w.spec("web", 3))
	w.ids = append(w.ids, "i-0aaaaaaaaaaaaaaaa")
	s := w.spec("web", 4)
	lacking := func(times, reads int) {
		t.Helper()
		w.Requests()
		for range times {
			if err := w.UpdateMembers(t.Context(), s); cloud.KindOf(err) != cloud.KindRetryAfter || !strings.Contains(err.Error(), w.ids[3]) {
				t.Errorf("%v", err)
			}
		}
		n := 0
		for _, a := range w.Actions() {
			n += count(a == "DescribeInstances")
		}
		if n != reads {
			t.Errorf("%d reads, want %d", n, reads)
		}
	}
	lacking(5, 1)
	w.clock.Pass(5 * time.Second)
	lacking(5, 1)
	w.AddInstance(ec2.Instance{ID: w.ids[3], SubnetID: w.Subnets[0].ID, Tags: map[string]string{clusterTag: "owned"}, Interfaces: []*ec2.NetworkInterface{{Groups: []string{w.nodes}}}})
	w.clock.Pass(5 * time.Second)
	if err := w.UpdateMembers(t.Context(), s); err != nil || len(w.balancer(s).Instances) != 4 {
		t.Errorf("%v, %v", w.balancer(s).Instances, err)
	}
	w.ids = append(w.ids, "i-0bbbbbbbbbbbbbbbb")
	s = w.spec("web", 5)
	if err := w.UpdateMembers(t.Context(), s); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("%v", err)
	}
	w.clock.Pass(10 * time.Minute)
	for range 2 {
		if err := w.UpdateMembers(t.Context(), s); err != nil {
			t.Errorf("it is waited for without end: %v", err)
		}
		w.clock.Pass(50 * time.Minute)
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// One Node whose security groups do not tell where to let in, or a group that may not be written, keeps the load balancer from none.
func TestNodeThatCannotBeOpenedKeepsNobodyOut(t *testing.T) {
	w := start(t, "", awssim.Options{})
	w.ids = append(w.ids, w.AddInstance(ec2.Instance{SubnetID: w.Subnets[0].ID, Tags: map[string]string{clusterTag: "owned"},
		Interfaces: []*ec2.NetworkInterface{{Groups: []string{w.group("x"), w.group("y")}}}}).ID)
	s := w.spec("web", 3)
	told := func(kind cloud.Kind, text string, members int) {
		t.Helper()
		var status *cloud.LoadBalancerStatus
		err := settle(w, func(w *world) (err error) {
			status, err = w.Ensure(t.Context(), s)
			return err
		})
		if cloud.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), text) || status == nil || len(status.Ingress) != 1 {
			t.Errorf("%+v, %v", status, err)
		}
		if got := w.balancer(s).Instances; len(got) != members {
			t.Errorf("members %v", got)
		}
	}
	denied := w.AddFault(apitest.Fault{Action: "AuthorizeSecurityGroupIngress", Status: http.StatusForbidden, Code: "UnauthorizedOperation", Message: "m"})
	s.Settings[annotations.SecurityGroups] = w.group("mine") // which needs no rules of its own
	told(cloud.KindDenied, w.nodes, 3)
	denied()
	s = w.spec("web", 4, annotations.SecurityGroups, s.Settings[annotations.SecurityGroups])
	told(cloud.KindFailed, w.ids[3]+" has 2 security groups", 4)
	if !strings.Contains(w.state(), "-1 0-0 <mine>") {
		t.Error("the other Nodes are shut")
	}
	if err := settle(w, func(w *world) error { return w.UpdateMembers(t.Context(), w.cut(s, 1)) }); cloud.KindOf(err) != cloud.KindFailed {
		t.Errorf("%v", err)
	}
	if got := w.balancer(s).Instances; !slices.Equal(got, w.ids[3:]) {
		t.Errorf("members %v", got)
	}
}

// cut is the same with its last n members alone.
func (w *world) cut(s *cloud.LoadBalancerSpec, n int) *cloud.LoadBalancerSpec {
	out := *s
	out.Members = s.Members[len(s.Members)-n:]
	return &out
}

func TestOwnGroupGoesWhereAnnotationsNameAnother(t *testing.T) {
	w := start(t, "", awssim.Options{})
	mine, extra := w.group("mine"), w.group("extra")
	w.ensure(w.spec("web", 3))
	s := w.spec("web", 3, annotations.SecurityGroups, mine, annotations.ExtraSecurityGroups, extra)
	w.ensure(s)
	if got := w.state(); strings.Contains(got, "<k8s-elb") || !strings.Contains(got, "-1 0-0 <mine>") || !slices.Equal(w.balancer(s).SecurityGroups, []string{mine, extra}) {
		t.Error(got)
	}
	w.delete(s)
	if got := w.state(); strings.Contains(got, "-1 0-0 <mine>") || strings.Contains(got, "<k8s-elb") {
		t.Error(got)
	}
}

func TestMembersAreUpdated(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 3)
	if err := w.UpdateMembers(t.Context(), s); !cloud.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	w.ensure(s)
	update := func(s *cloud.LoadBalancerSpec, want ...string) {
		t.Helper()
		w.restart(nil)
		if err := w.UpdateMembers(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := w.balancer(s).Instances; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("instances %v, want %v", got, want)
		}
	}
	update(w.spec("web", 1), w.ids[0])
	w.EC2.Terminate(w.ids[1])
	update(w.spec("web", 3), w.ids[0], w.ids[2])
	fargate := w.spec("web", 3)
	fargate.Members[0].Node.ProviderID = "aws:///eu-central-1a/0123456789-abcdef/fargate-ip-10-0-0-1.eu-central-1.compute.internal"
	update(fargate, w.ids[2])
	frozen := w.spec("web", 0)
	frozen.Frozen, frozen.Ports = true, nil
	update(frozen, w.ids[2])
	frozen.Candidates = frozen.Candidates[:1]
	update(frozen, w.ids[2]) // never all
}

func TestAnswerWithoutInstancesIsNotBelieved(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 3)
	w.ensure(s)
	before := w.state()
	w.restart(nil)
	none := apitest.Body(`<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet/></DescribeInstancesResponse>`)
	w.Fail("DescribeInstances", none, none)
	if _, err := w.Ensure(t.Context(), s); cloud.KindOf(err) != cloud.KindUnknown || !strings.Contains(err.Error(), "EC2 knows none of the 3 instances of Nodes") {
		t.Errorf("%v", err)
	}
	if got := w.mutations(); len(got) > 0 || w.state() != before {
		t.Errorf("%v", got)
	}
}

func TestManyServicesAtOnce(t *testing.T) {
	const services = 30
	w := start(t, "", awssim.Options{EC2: ec2.Options{RulesPerGroup: 100}, ELB: simelb.Options{LoadBalancers: services}})
	all := func(do func(*cloud.LoadBalancerSpec) error) {
		t.Helper()
		var group sync.WaitGroup
		for n := range services {
			group.Go(func() {
				if err := do(w.spec(fmt.Sprint("web-", n), 3)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	ensure := func(s *cloud.LoadBalancerSpec) error { _, err := w.Ensure(t.Context(), s); return err }
	w.ensure(w.spec("web-0", 3)) // lists are there
	w.Requests()
	all(ensure)
	if n := len(w.Requests()); n > 7*services {
		t.Errorf("%d requests for %d Services", n, services)
	}
	w.restart(nil)
	all(ensure)
	got := w.Actions()
	count := map[string]int{}
	for _, a := range got {
		count[a]++
	}
	if m := slices.DeleteFunc(got, func(a string) bool { return strings.HasPrefix(a, "Describe") }); len(m) > 0 {
		t.Errorf("changed: %v", m)
	}
	if count["DescribeLoadBalancerAttributes"] != services || count["DescribeLoadBalancers"] != 1 || count["DescribeSubnets"] != 1 || count["DescribeTags"] > services/5 || count["DescribeSecurityGroups"] > services/3 {
		t.Errorf("%v", count)
	}
	w.Requests()
	all(func(s *cloud.LoadBalancerSpec) error { return w.Delete(t.Context(), s) })
	count = map[string]int{}
	for _, a := range w.Actions() {
		count[a]++
	}
	if count["DeleteLoadBalancer"] != services || count["DeleteSecurityGroup"] != services || count["RevokeSecurityGroupIngress"] > services/2 {
		t.Errorf("%v", count)
	}
}

// What Services share fails for all at once, and tags are those of the load balancers that are there.
func TestServicesShareReadsThatFail(t *testing.T) {
	w := start(t, "", awssim.Options{})
	one, two := w.spec("web-1", 3), w.spec("web-2", 3)
	w.ensure(one)
	w.ensure(two)
	w.restart(nil)
	remove := w.AddFault(apitest.Fault{Action: "DescribeLoadBalancers", Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: "m"})
	var group sync.WaitGroup
	for n := range 50 {
		group.Go(func() {
			if _, err := w.Ensure(t.Context(), w.spec(fmt.Sprint("web-", n), 3)); !cloud.IsUnavailable(err) {
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	if n := len(w.Requests()); n > 3 {
		t.Errorf("%d requests in an outage, want one", n)
	}
	remove()
	w.restart(nil)
	if there, err := w.Serves(t.Context(), two.LoadBalancerRef); err != nil || !there {
		t.Errorf("%t, %v", there, err)
	}
	w.ELB(apitest.Account, apitest.Region).Delete(plan.Name(two.LoadBalancerRef)) // which the list has still
	w.Requests()
	w.ensure(one)
	if got := w.mutations(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// crash is a process that ends before its change n.
type crash struct {
	mu   sync.Mutex
	n    int
	dead bool
}

var errCrashed = errors.New("the process has ended")

func (c *crash) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Mutates && !c.dead {
		c.dead = c.n == 0
		c.n--
	}
	if c.dead {
		return nil, &cloud.Error{Kind: cloud.KindUnavailable, Err: errCrashed}
	}
	return func(cloud.Outcome) {}, nil
}

// phases are what happens to a Service, one after the other.
func phases() map[string][]func(*world) error {
	ensure := func(spec func(*world) *cloud.LoadBalancerSpec) func(*world) error {
		return func(w *world) error { _, err := w.Ensure(w.t.Context(), spec(w)); return err }
	}
	remove := func(w *world) error { return w.Delete(w.t.Context(), w.spec("web", 0)) }
	plain := ensure(func(w *world) *cloud.LoadBalancerSpec { return w.spec("web", 3) })
	full := ensure(func(w *world) *cloud.LoadBalancerSpec { return w.everything("web") })
	groups := ensure(func(w *world) *cloud.LoadBalancerSpec {
		return w.spec("web", 3, annotations.SecurityGroups, w.group2("mine"))
	})
	return map[string][]func(*world) error{
		"create": {plain}, "create with everything": {full}, "change": {plain, full}, "change back": {full, plain}, "other groups": {plain, groups},
		"delete": {plain, remove}, "delete while it is made": {remove},
	}
}

// group2 is a group of that name, which is made at first.
func (w *world) group2(name string) string {
	all, _ := w.EC2.SecurityGroups(nil)
	if i := slices.IndexFunc(all, func(g *ec2.SecurityGroup) bool { return g.Name == name }); i >= 0 {
		return all[i].ID
	}
	return w.group(name)
}

// settle does something until it is done.
func settle(w *world, do func(*world) error) error {
	var err error
	for range 10 {
		if err = do(w); err == nil || cloud.KindOf(err) != cloud.KindRetryAfter {
			return err
		}
	}
	return err
}

func TestCrashBeforeEachChangeConverges(t *testing.T) {
	for name, steps := range phases() {
		t.Run(name, func(t *testing.T) {
			last := len(steps) - 1
			begin := func() *world {
				w := start(t, "", awssim.Options{})
				for _, step := range steps[:last] {
					if err := settle(w, step); err != nil {
						t.Fatal(err)
					}
				}
				return w
			}
			clean := begin()
			if name == "other groups" {
				clean.group2("mine")
			}
			clean.Requests()
			if err := settle(clean, steps[last]); err != nil {
				t.Fatal(err)
			}
			want, changes := clean.state(), len(clean.mutations())
			if name == "delete while it is made" {
				changes = 6
			}
			for n := range changes {
				w := begin()
				if name == "delete while it is made" {
					w.restart(&crash{n: n})
					_ = settle(w, phases()["create"][0])
				} else {
					w.restart(&crash{n: n})
					if err := settle(w, steps[last]); !errors.Is(err, errCrashed) {
						t.Fatalf("before change %d: %v", n, err)
					}
				}
				w.restart(nil)
				if err := settle(w, steps[last]); err != nil {
					t.Fatalf("after a crash before change %d: %v", n, err)
				}
				if got := w.state(); got != want {
					t.Errorf("after a crash before change %d:\n%s\nwant\n%s", n, got, want)
				}
				if err := settle(w, steps[last]); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A lost answer is no failure: what was carried out is found.
func TestLostAnswersConverge(t *testing.T) {
	for _, action := range []string{"CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "CreateLoadBalancer", "ConfigureHealthCheck", "RegisterInstancesWithLoadBalancer",
		"CreateLoadBalancerPolicy", "SetLoadBalancerPoliciesForBackendServer", "SetLoadBalancerPoliciesOfListener", "ModifyLoadBalancerAttributes"} {
		w := start(t, "", awssim.Options{})
		s := w.everything("web")
		w.AddFault(cloudsim.Fault{Action: action, Times: 1, Lost: true})
		if _, err := w.Ensure(t.Context(), s); err == nil {
			t.Errorf("%s: no error", action)
		}
		w.ensure(s) // the same process
		got := w.state()
		other := start(t, "", awssim.Options{})
		other.ensure(other.everything("web"))
		if want := other.state(); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", action, got, want)
		}
	}
}
