package elbv2_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

const clusterTag = "kubernetes.io/cluster/c"

// world is a cluster with Nodes in a VPC, with the load balancers that are tested.
type world struct {
	*apitest.Cloud
	*elbv2.LoadBalancers
	t     *testing.T
	conf  string
	elb   *sim.Region
	nodes []cloud.LoadBalancerMember
	group string // security group of the Nodes
	gate  cloud.Traffic
	clock apitest.Clock // of the network
}

func start(t *testing.T, conf string, o awssim.Options) *world {
	t.Helper()
	c := apitest.StartWith(t, o)
	w := &world{Cloud: c, t: t, conf: conf, elb: c.ELBv2(apitest.Account, apitest.Region)}
	main := c.EC2.MainRouteTable(c.VPC.ID)
	c.EC2.AddRoute(main.ID, ec2.Route{Destination: "0.0.0.0/0", GatewayID: "igw-0123456789abcdef0"})
	w.group = c.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: c.VPC.ID, Name: "nodes", Description: "Nodes", Tags: map[string]string{clusterTag: "owned"}}).ID
	for range 2 {
		w.addNode()
	}
	w.restart()
	return w
}

// Age lets time pass.
func (w *world) Age(d time.Duration) {
	w.LoadBalancers.Age(d)
	w.clock.Pass(d)
}

// addNode adds a Node.
func (w *world) addNode() string {
	i := w.AddInstance(ec2.Instance{Tags: map[string]string{clusterTag: "owned"}, Interfaces: []*ec2.NetworkInterface{{Groups: []string{w.group}}}})
	w.nodes = append(w.nodes, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: fmt.Sprint("node-", len(w.nodes)), ProviderID: "aws:///" + i.Zone + "/" + i.ID}})
	return i.ID
}

// restart is what a new process starts with.
func (w *world) restart() {
	w.t.Helper()
	client, cfg := w.Client("[Global]\nRegion = eu-central-1\nKubernetesClusterID = c\nVPC = "+w.VPC.ID+"\n"+w.conf, cloud.Options{Traffic: w.gate})
	network := vpc.New(client, &cfg.Global, func() string { return "c" }, joint.Options{Quiet: 10 * time.Millisecond, Wait: time.Minute, Waiters: 1000, Clock: &w.clock})
	w.LoadBalancers = elbv2.New(client, &cfg.Global, network, await.Pace{First: 10 * time.Millisecond, Most: 50 * time.Millisecond, Gap: 10 * time.Millisecond, Retry: 20 * time.Millisecond})
	w.Requests()
}

// service is a Service with the Nodes that there are now.
func (w *world) service(name string) *cloud.LoadBalancerSpec {
	return &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{ID: "c", Name: "kubernetes", UID: "u"}, Namespace: "default", Name: name,
			UID: fmt.Sprintf("%x", []byte(name)), Settings: cloud.Settings{annotations.Type: annotations.NLB}},
		Ports: []cloud.LoadBalancerPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
			{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443}},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Members: slices.Clone(w.nodes), Candidates: slices.Clone(w.nodes),
	}
}

// again repeats an operation until it is not told to come back.
func (w *world) again(op func() error) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := op()
		if err == nil {
			return
		}
		if k := cloud.KindOf(err); k != cloud.KindRetryAfter && k != cloud.KindStale || time.Now().After(deadline) {
			w.t.Fatal(err)
		}
	}
}

func (w *world) ensure(spec *cloud.LoadBalancerSpec) (status *cloud.LoadBalancerStatus) {
	w.t.Helper()
	w.again(func() (err error) {
		status, err = w.Ensure(w.t.Context(), spec)
		return err
	})
	if len(status.Ingress) != 1 || status.Ingress[0].Hostname == "" {
		w.t.Fatalf("%+v", status)
	}
	return status
}

func (w *world) delete(spec *cloud.LoadBalancerSpec) {
	w.t.Helper()
	w.again(func() error { return w.Delete(w.t.Context(), spec) })
}

// counts are how often each operation was called since it was asked last, as "CreateListener 2".
func (w *world) counts(prefixes ...string) string { return count(w.Requests(), prefixes...) }

// count is that of requests: of all changes, and of reads with these prefixes.
func count(requests []cloudsim.Request, prefixes ...string) string {
	all := map[string]int{}
	for _, r := range requests {
		if !strings.HasPrefix(r.Action, "Describe") || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(r.Action, p) }) {
			all[r.Action]++
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprint(name, " ", all[name]))
	}
	return strings.Join(out, ", ")
}

// state is all that there is: load balancers with listeners, target groups with targets, groups and rules.
func (w *world) state() string {
	w.t.Helper()
	var out []string
	balancers, err := w.elb.LoadBalancers(nil, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range balancers {
		out = append(out, fmt.Sprintf("lb %s %d groups", b.Name, len(b.SecurityGroups)))
		listeners, _ := w.elb.Listeners(nil, b.ARN)
		for _, l := range listeners {
			groups, _ := w.elb.TargetGroups([]string{l.TargetGroupARN}, nil, "")
			out = append(out, fmt.Sprintf("listener %s %d → %d", l.Protocol, l.Port, groups[0].Port))
		}
	}
	groups, _ := w.elb.TargetGroups(nil, nil, "")
	for _, g := range groups {
		var targets []string
		health, _ := w.elb.Health(g.ARN, nil)
		for _, t := range health {
			if t.State != "draining" {
				targets = append(targets, t.ID)
			}
		}
		slices.Sort(targets)
		out = append(out, fmt.Sprintf("group %d %s %v", g.Port, g.Check.Protocol, targets))
	}
	sgs, _ := w.EC2.SecurityGroups(nil)
	for _, g := range sgs {
		if g.Tags[clusterTag] == "" {
			continue
		}
		out = append(out, "security group "+g.Name)
		for _, r := range g.Rules {
			if r.Egress {
				continue
			}
			out = append(out, fmt.Sprintf("rule of %s %s %d-%d %s %s", g.Name, r.Protocol, r.FromPort, r.ToPort, r.CIDR+r.CIDR6, r.Description))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func (w *world) name(spec *cloud.LoadBalancerSpec) string { return plan.Name(spec.LoadBalancerRef) }

// crash is a cloud.Traffic that lets so many changes pass, and then nothing more: the process has died.
type crash struct {
	left int
	cut  string
}

var errCrashed = errors.New("crashed")

func (c *crash) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	if c.cut != "" {
		return nil, errCrashed
	}
	if r.Mutates {
		if c.left == 0 {
			c.cut = r.Op
			return nil, errCrashed
		}
		c.left--
	}
	return func(cloud.Outcome) {}, nil
}
