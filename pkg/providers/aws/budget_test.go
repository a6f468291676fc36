package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

// fleet is a cluster with many Services of one kind, all of which are seen to at once, as by a service controller that waits for the
// provider's word.
type fleet struct {
	*apitest.Cloud
	*term
	specs []*cloud.LoadBalancerSpec
}

func newFleet(t *testing.T, kind string, services int) *fleet {
	t.Helper()
	c := apitest.StartWith(t, awssim.Options{EC2: ec2.Options{RulesPerGroup: 1000, GroupsPerVPC: 1000},
		ELB: elb.Options{LoadBalancers: services}, ELBv2: elbv2.Options{LoadBalancers: services}})
	f := &fleet{Cloud: c}
	one := balanced(t, c, kind)
	for n := range services {
		spec := *one
		spec.Name, spec.UID = fmt.Sprint("web-", n), fmt.Sprintf("%08x-1234-4abc-9def-0123456789ab", n)
		spec.Ports = slices.Clone(one.Ports)
		spec.Ports[0].NodePort += int32(n) //nolint:gosec // few
		f.specs = append(f.specs, &spec)
	}
	f.restart(t)
	return f
}

// restart is what a new process starts with.
func (f *fleet) restart(t *testing.T) {
	t.Helper()
	f.term = newTerm(t, f.Cloud, "[Global]\nRegion = "+apitest.Region+"\nVPC = "+f.VPC.ID+"\nKubernetesClusterID = blue\n", cloud.Options{})
	f.Requests()
}

// all does the same for each Service at once, and again for whom the provider says so, one op after the other. It returns how often
// each operation was called by then.
func (f *fleet) all(ops ...func(context.Context, *cloud.LoadBalancerSpec) error) map[string]int {
	f.t.Helper()
	for _, op := range ops {
		var group sync.WaitGroup
		for _, spec := range f.specs {
			group.Go(func() {
				if err := f.do(f.t.Context(), spec, op); err != nil {
					f.t.Error(err)
				}
			})
		}
		group.Wait()
	}
	got := map[string]int{}
	for _, action := range f.Actions() {
		got[action]++
	}
	return got
}

// join adds an instance to all Services.
func (f *fleet) join() {
	at := f.specs[0].Members[0].Node.ProviderID
	old, err := f.EC2.Instances([]string{at[strings.LastIndexByte(at, '/')+1:]})
	if err != nil {
		f.t.Fatal(err)
	}
	i := f.AddInstance(ec2.Instance{Tags: old[0].Tags, Interfaces: []*ec2.NetworkInterface{{Groups: old[0].Primary().Groups}}})
	for _, spec := range f.specs {
		spec.Members = append(slices.Clone(spec.Members), cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: "joined", ProviderID: "aws:///" + i.Zone + "/" + i.ID}})
		spec.Candidates = spec.Members
	}
}

// budget is how often operations are called at most; others, but for those that Services share, are not called at all.
type budget map[string]int

// shared are operations that are made once for many Services, at most so often for all of them: how often depends on who comes in time.
func shared() budget {
	return budget{
		"DescribeAvailabilityZones": 1, "DescribeRouteTables": 1, "DescribeSubnets": 1, "DescribeInstances": 2, "DescribeSecurityGroups": 12,
		"DescribeLoadBalancers": 2, "DescribeTargetGroups": 2, "DescribeTags": 20, "AuthorizeSecurityGroupIngress": 10, "RevokeSecurityGroupIngress": 10,
	}
}

func (b budget) check(t *testing.T, what string, got map[string]int) {
	t.Helper()
	t.Logf("%s: %v", what, got)
	for action, n := range got {
		if most := b[action] + shared()[action]; n > most {
			t.Errorf("%s: %d times %s, want %d at most", what, n, action, most)
		}
	}
}

// TestCallBudgets: what 100 Services cost when they are made, have not changed, get a Node, have not changed since a restart, and are deleted.
func TestCallBudgets(t *testing.T) {
	const n = 100
	for kind, want := range map[string]map[string]budget{
		annotations.NLB: {
			"create":  {"CreateLoadBalancer": n, "CreateTargetGroup": n, "RegisterTargets": n, "CreateListener": n},
			"join":    {"RegisterTargets": n},
			"restart": {"DescribeListeners": n, "DescribeLoadBalancerAttributes": n, "DescribeTargetHealth": n},
			"delete":  {"DeleteLoadBalancer": n, "DeleteTargetGroup": n},
		},
		"": {
			"create": {"CreateSecurityGroup": n, "AuthorizeSecurityGroupIngress": n, "CreateLoadBalancer": n, "DescribeLoadBalancerAttributes": n,
				"ConfigureHealthCheck": n, "RegisterInstancesWithLoadBalancer": n, "DescribeLoadBalancers": n},
			"join":    {"RegisterInstancesWithLoadBalancer": n, "DescribeLoadBalancers": n},
			"restart": {"DescribeLoadBalancerAttributes": n},
			"delete":  {"DeleteLoadBalancer": n, "DeleteSecurityGroup": n},
		},
	} {
		t.Run("type "+kind, func(t *testing.T) {
			f := newFleet(t, kind, n)
			// The second time, those look at what they have made who did not have to come back before.
			want["create"].check(t, "create", f.all(f.ensure, f.ensure))
			unchanged := f.all(f.ensure)
			want["unchanged"].check(t, "unchanged", unchanged)
			f.join()
			want["join"].check(t, "join", f.all(f.UpdateMembers))
			f.restart(t)
			restarted := f.all(f.ensure)
			want["restart"].check(t, "restart", restarted)
			for _, got := range []map[string]int{unchanged, restarted} {
				for action := range got {
					if !strings.HasPrefix(action, "Describe") {
						t.Errorf("nothing is new, but %s was called", action)
					}
				}
			}
			want["delete"].check(t, "delete", f.all(f.Delete))
		})
	}
}
