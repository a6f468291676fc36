package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

const uidTag = "isthmus-cloud.github.io/cluster-uid"

// estate is a cloud in which a cluster has a load balancer of each kind, with a security group each.
type estate struct {
	*apitest.Cloud
	*loadBalancers
	t       *testing.T
	cluster cloud.Cluster
	// empty is how many objects there are without Services.
	empty           int
	network, classy *cloud.LoadBalancerSpec
}

func newEstate(t *testing.T) *estate {
	t.Helper()
	c := apitest.Start(t)
	e := &estate{Cloud: c, t: t, classy: balanced(t, c, ""), network: balanced(t, c, annotations.NLB)}
	e.cluster = e.network.Cluster
	e.classy.Name, e.classy.UID = "old", "1e1e1e1e-1234-4abc-9def-0123456789ab"
	e.empty = len(marked(t, c))
	e.restart(cloud.Options{})
	e.make(e.network)
	e.make(e.classy)
	e.restart(cloud.Options{})
	return e
}

// restart is what a new process starts with.
func (e *estate) restart(o cloud.Options) {
	e.t.Helper()
	client, cfg := e.Client("[Global]\nRegion = "+apitest.Region+"\nVPC = "+e.VPC.ID+"\nKubernetesClusterID = blue\nNLBSecurityGroupMode = Managed\n", o)
	e.loadBalancers = newLoadBalancers(client, &cfg.Global, newIdentity(client, &cfg.Global).cluster, timing{
		joint: joint.Options{Quiet: time.Millisecond, Wait: time.Minute, Waiters: 1000}, pace: await.Pace{First: 10 * time.Millisecond, Most: 50 * time.Millisecond, Gap: 10 * time.Millisecond, Retry: 20 * time.Millisecond}})
	e.Requests()
}

func (e *estate) make(spec *cloud.LoadBalancerSpec) {
	e.t.Helper()
	again(e.t, func() error {
		_, err := e.Ensure(e.t.Context(), spec)
		return err
	})
}

// owned are what Owned tells of a cluster, as "kind of Service, proven".
func (e *estate) owned(cluster cloud.Cluster) (all []cloud.Owned, texts []string) {
	e.t.Helper()
	all, err := e.Owned(e.t.Context(), cluster)
	if err != nil {
		e.t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b cloud.Owned) int { return strings.Compare(a.Kind+a.Mark.Service, b.Kind+b.Mark.Service) }) // IDs are random
	for _, o := range all {
		texts = append(texts, fmt.Sprintf("%s of %s, proven %t", o.Kind, o.Mark.Service, o.Mark.ClusterUID == cluster.UID))
	}
	return all, texts
}

func (e *estate) expect(what string, want ...string) []cloud.Owned {
	e.t.Helper()
	all, got := e.owned(e.cluster)
	if !slices.Equal(got, want) {
		e.t.Errorf("%s: owned %q, want %q", what, got, want)
	}
	return all
}

// v2, v1 are Elastic Load Balancing.
func (e *estate) v2() *elbv2.Region { return e.ELBv2(apitest.Account, apitest.Region) }
func (e *estate) v1() *elb.Region   { return e.ELB(apitest.Account, apitest.Region) }

const (
	ownNetwork = "network load balancer of default/web, proven true"
	ownClassic = "classic load balancer of default/old, proven true"
)

// TestOwnedIsWhatTheClusterHasMade: load balancers, by few calls; what goes with them is not told by itself.
func TestOwnedIsWhatTheClusterHasMade(t *testing.T) {
	e := newEstate(t)
	all := e.expect("healthy", ownClassic, ownNetwork)
	for _, o := range all {
		if o.Created.IsZero() || o.Name == "" || len(o.Addresses) != 1 || o.Mark.ClusterID != "blue" {
			t.Errorf("%+v", o)
		}
	}
	got := map[string]int{}
	for _, r := range e.Requests() {
		got[r.Action]++
	}
	if want := map[string]int{"DescribeSecurityGroups": 1, "DescribeLoadBalancers": 2, "DescribeTargetGroups": 1, "DescribeTags": 2}; !maps.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	if _, err := e.Owned(t.Context(), cloud.Cluster{UID: "u"}); cloud.KindOf(err) != cloud.KindInvalid {
		t.Errorf("without an ID: %v", err)
	}
}

// TestOwnedAsksLittle: 100 load balancers of a kind are 5 requests for tags, not 100.
func TestOwnedAsksLittle(t *testing.T) {
	f := newFleet(t, annotations.NLB, 100)
	f.all(f.ensure)
	f.restart(t)
	all, err := f.Owned(t.Context(), f.specs[0].Cluster)
	if actions := f.Actions(); err != nil || len(all) != 100 || len(actions) != 4+200/20 {
		t.Errorf("%d owned, %v: %q", len(all), err, actions)
	}
}

// TestOwnedIsNobodyElses: another cluster's, by its UID, its ID, or beside ours; another controller's; in another VPC; without a Service.
func TestOwnedIsNobodyElses(t *testing.T) {
	e := newEstate(t)
	if _, got := e.owned(cloud.Cluster{ID: "blue", UID: "another"}); len(got) > 0 {
		t.Errorf("another cluster with the same ID owns %q", got)
	}
	if _, got := e.owned(cloud.Cluster{ID: "green", UID: "u"}); len(got) > 0 {
		t.Errorf("another ID owns %q", got)
	}
	arn := e.expect("before", ownClassic, ownNetwork)[1].ID
	for key, value := range map[string]string{
		"kubernetes.io/cluster/green": "shared", "elbv2.k8s.aws/cluster": "blue", uidTag: "another", "kubernetes.io/service-name": "", "kubernetes.io/cluster/blue": "shared",
	} {
		before, _ := e.v2().Tags(arn)
		before = maps.Clone(before)
		if err := e.v2().SetTags(arn, map[string]string{key: value}, nil); err != nil {
			t.Fatal(err)
		}
		e.expect(key+"="+value, ownClassic)
		if err := e.v2().SetTags(arn, before, []string{"kubernetes.io/cluster/green", "elbv2.k8s.aws/cluster"}); err != nil {
			t.Fatal(err)
		}
	}
	e.expect("after", ownClassic, ownNetwork)
	there, here := e.EC2.AddVPC(ec2.VPC{CIDR: "10.9.0.0/16"}), e.VPC
	e.VPC = there
	e.restart(cloud.Options{})
	e.expect("another VPC")
	e.VPC = here
}

// unmark has load balancers, target groups and security groups as the existing manager makes them.
func (e *estate) unmark() {
	balancers, _ := e.v2().LoadBalancers(nil, nil)
	targets, _ := e.v2().TargetGroups(nil, nil, "")
	var arns []string
	for _, b := range balancers {
		arns = append(arns, b.ARN)
	}
	for _, g := range targets {
		arns = append(arns, g.ARN)
	}
	for _, arn := range arns {
		if err := e.v2().SetTags(arn, nil, []string{uidTag}); err != nil {
			e.t.Fatal(err)
		}
	}
	classic, _ := e.v1().LoadBalancers(nil)
	for _, b := range classic {
		_, err := e.v1().Change(b.Name, func(b *elb.LoadBalancer) error { delete(b.Tags, uidTag); return nil })
		if err != nil {
			e.t.Fatal(err)
		}
	}
	groups, _ := e.EC2.SecurityGroups(nil)
	for _, g := range groups {
		if err := e.EC2.DeleteTags([]string{g.ID}, map[string]*string{uidTag: nil, "isthmus-cloud.github.io/service": nil}); err != nil {
			e.t.Fatal(err)
		}
	}
}

// TestOwnedOfTheExistingManagerIsNotProven: its objects carry the ID alone, and taking them over does not change that.
func TestOwnedOfTheExistingManagerIsNotProven(t *testing.T) {
	e := newEstate(t)
	e.unmark()
	e.Requests()
	for _, spec := range []*cloud.LoadBalancerSpec{e.network, e.classy} {
		spec.Verify = true
		e.make(spec)
	}
	for _, r := range e.Requests() {
		if !strings.HasPrefix(r.Action, "Describe") {
			t.Errorf("taking over calls %s", r.Action)
		}
	}
	all := e.expect("taken over", strings.Replace(ownClassic, "true", "false", 1), strings.Replace(ownNetwork, "true", "false", 1))
	e.restart(cloud.Options{})
	e.remove(all) // as who vouches for the cluster has it
	if left := marked(t, e.Cloud); len(left) != e.empty {
		t.Errorf("left: %q", left)
	}
}

// remove removes objects, whatever it takes.
func (e *estate) remove(all []cloud.Owned) {
	e.t.Helper()
	for _, o := range all {
		again(e.t, func() error { return e.Remove(e.t.Context(), e.cluster, o) })
	}
}

// TestRemoveGoesOnAfterACrash: before its first, second, … change. The next process finds what is left, and removes it with all that goes with it.
func TestRemoveGoesOnAfterACrash(t *testing.T) {
	for n := 0; ; n++ {
		e := newEstate(t)
		gate := &crash{left: n}
		e.restart(cloud.Options{Traffic: gate})
		all := e.expect("before", ownClassic, ownNetwork)
		for _, o := range all {
			for { // until it is gone, or the process
				if err := e.Remove(t.Context(), e.cluster, o); err == nil || gate.dead {
					break
				} else if cloud.KindOf(err) != cloud.KindRetryAfter {
					t.Fatal(err)
				}
			}
		}
		e.restart(cloud.Options{})
		left, texts := e.owned(e.cluster)
		for _, o := range left {
			if o.Mark.ClusterUID != "u" || !strings.Contains(o.Mark.Service, "/") {
				t.Errorf("crash before change %d: %+v", n, o)
			}
		}
		e.remove(left)
		if left := marked(t, e.Cloud); len(left) != e.empty {
			t.Fatalf("crash before change %d, where %q was found: left %q", n, texts, left)
		}
		if !gate.dead {
			if n < 6 {
				t.Errorf("%d changes: the test checks nothing", n)
			}
			return
		}
	}
}

// TestRemoveLooksAgain: what has become somebody else's since it was listed stays, with all that goes with it.
func TestRemoveLooksAgain(t *testing.T) {
	e := newEstate(t)
	all := e.expect("before", ownClassic, ownNetwork)
	want := len(marked(t, e.Cloud))
	refused := func(what string, o cloud.Owned) {
		t.Helper()
		e.restart(cloud.Options{})
		if err := e.Remove(t.Context(), e.cluster, o); cloud.KindOf(err) != cloud.KindConflict && cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("%s: %v", what, err)
		}
		if got := marked(t, e.Cloud); len(got) != want {
			t.Fatalf("%s: left %q", what, got)
		}
	}
	for _, o := range all {
		made := o
		made.Created = o.Created.Add(-time.Hour)
		refused("made anew", made)
		made = o
		made.Mark.ClusterUID = ""
		refused("marked since", made)
		made = o
		made.Mark.Service = ""
		refused("no Service", made)
		made = o
		made.Kind = "volume"
		refused("another kind", made)
	}
	if err := e.v2().SetTags(all[1].ID, map[string]string{uidTag: "another"}, nil); err != nil {
		t.Fatal(err)
	}
	_, err := e.v1().Change(all[0].ID, func(b *elb.LoadBalancer) error { b.Tags[uidTag] = "another"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		refused("another cluster's since", o)
	}
}

// TestRestsAreOwned: target groups and security groups that no load balancer has, of whoever they are proven to be.
func TestRestsAreOwned(t *testing.T) {
	e := newEstate(t)
	balancers, _ := e.v2().LoadBalancers(nil, nil)
	if err := e.v2().DeleteLoadBalancer(balancers[0].ARN); err != nil {
		t.Fatal(err)
	}
	e.v1().Delete(e.expect("rests", ownClassic, "security group of default/web, proven true", "target group of default/web, proven true")[0].ID)
	all := e.expect("rests of both", "security group of default/old, proven true", "security group of default/web, proven true", "target group of default/web, proven true")
	stays := all[0]
	stays.Name = "another"
	if err := e.Remove(t.Context(), e.cluster, stays); cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("%v", err)
	}
	// Another cluster with the same ID has a target group for a Service of that name: it is not ours, and does not go with ours.
	g, err := e.v2().CreateTargetGroup(elbv2.TargetGroup{Name: "k8s-default-web-0123456789", Protocol: "TCP", Port: 31000, VPCID: e.VPC.ID, TargetType: "instance",
		Tags: map[string]string{"kubernetes.io/cluster/blue": "owned", "kubernetes.io/service-name": "default/web", uidTag: "another"}})
	if err != nil {
		t.Fatal(err)
	}
	e.make(e.network)
	e.restart(cloud.Options{})
	again := e.expect("made again", ownNetwork, "security group of default/old, proven true")
	e.remove(again)
	left, _ := e.v2().TargetGroups(nil, nil, "")
	if len(left) != 1 || left[0].ARN != g.ARN {
		t.Errorf("left: %+v", left)
	}
	// What the existing manager's security group of a network load balancer was made for it does not tell: it is listed, and stays.
	e.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: e.VPC.ID, Name: "k8s-default-web-abcdef0123", Description: "[k8s] Managed SecurityGroup for LoadBalancer",
		Tags: map[string]string{"kubernetes.io/cluster/blue": "owned"}})
	e.restart(cloud.Options{})
	unknown := e.expect("the existing manager's", "security group of , proven false")
	if err := e.Remove(t.Context(), e.cluster, unknown[0]); cloud.KindOf(err) != cloud.KindInvalid {
		t.Errorf("%v", err)
	}
}
