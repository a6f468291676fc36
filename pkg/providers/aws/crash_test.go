package aws

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
)

// crash is a cloud.Traffic that lets so many changes pass, and then nothing more: the process has died.
type crash struct {
	mu   sync.Mutex
	left int
	dead bool
}

var errCrashed = errors.New("crashed")

func (c *crash) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Mutates && !c.dead {
		c.dead = c.left == 0
		c.left--
	}
	if c.dead {
		return nil, errCrashed
	}
	return func(cloud.Outcome) {}, nil
}

// marked are all objects of Services: load balancers of both kinds, target groups, security groups beside the Nodes', and what those let in.
func marked(t *testing.T, c *apitest.Cloud) (out []string) {
	t.Helper()
	v2 := c.ELBv2(apitest.Account, apitest.Region)
	network, err1 := v2.LoadBalancers(nil, nil)
	groups, err2 := v2.TargetGroups(nil, nil, "")
	classic, err3 := c.ELB(apitest.Account, apitest.Region).LoadBalancers(nil)
	all, err4 := c.EC2.SecurityGroups(nil)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	for _, b := range network {
		out = append(out, "network load balancer "+b.Name)
	}
	for _, g := range groups {
		out = append(out, "target group "+g.Name)
	}
	for _, b := range classic {
		out = append(out, "classic load balancer "+b.Name)
	}
	for _, g := range all {
		if strings.HasPrefix(g.Name, "k8s-") {
			out = append(out, "security group "+g.Name)
		}
		for _, u := range g.Rules {
			if !u.Egress {
				out = append(out, "rule of "+g.Name+" "+u.Description)
			}
		}
	}
	return out
}

// A Service whose type has changed since its load balancer was made is deleted, by a process that dies before its first, second, … change, and
// by the next one, which sees no status any more: nothing is left of either kind.
func TestCrashWhileDeletingAServiceOfAnotherType(t *testing.T) {
	for was, is := range map[string]string{annotations.NLB: "", "": annotations.NLB} {
		for n := 0; ; n++ {
			c := apitest.Start(t)
			conf := "[Global]\nRegion = " + apitest.Region + "\nVPC = " + c.VPC.ID + "\nKubernetesClusterID = blue\nNLBSecurityGroupMode = Managed\n"
			spec := balanced(t, c, was)
			before := len(marked(t, c))
			made := newTerm(t, c, conf, cloud.Options{})
			if err := made.do(t.Context(), spec, made.ensure); err != nil {
				t.Fatal(err)
			}
			spec.Settings = cloud.Settings{annotations.Type: is}
			gate := &crash{left: n}
			one := newTerm(t, c, conf, cloud.Options{Traffic: gate})
			_ = one.do(t.Context(), spec, one.Delete) // it has crashed
			spec.CurrentIngress = nil
			next := newTerm(t, c, conf, cloud.Options{})
			if err := next.do(t.Context(), spec, next.Delete); err != nil {
				t.Fatal(err)
			}
			if left := marked(t, c); len(left) != before {
				t.Fatalf("type %q became %q, crash before change %d: left %q", was, is, n, left)
			}
			if !gate.dead {
				if n < 3 {
					t.Errorf("type %q: %d changes: the test checks nothing", was, n)
				}
				break
			}
		}
	}
}
