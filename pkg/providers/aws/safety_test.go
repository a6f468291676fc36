package aws

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
)

// wrongAnswers are what AWS says in place of the truth.
func wrongAnswers() map[string][]apitest.Fault {
	all := func(f apitest.Fault) (out []apitest.Fault) {
		for _, service := range []string{"ec2", "elb", "elbv2"} {
			f.Service = service
			out = append(out, f)
		}
		return out
	}
	body := func(text string) apitest.Fault { return apitest.Body(text) }
	out := map[string][]apitest.Fault{
		"503":                   all(apitest.Fault{Status: http.StatusServiceUnavailable, Code: "Unavailable"}),
		"500":                   all(apitest.Fault{Status: http.StatusInternalServerError, Code: "InternalFailure"}),
		"404 of a proxy":        all(apitest.Fault{Status: http.StatusNotFound}),
		"throttled":             all(apitest.Fault{Status: http.StatusBadRequest, Code: "Throttling"}),
		"denied":                all(apitest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}),
		"connection cut":        all(apitest.Fault{Reset: true}),
		"200 that is no XML":    all(body("login")),
		"200 that is cut":       all(body("<DescribeResponse><DescribeResult><LoadBalancers><member>")),
		"200 of something else": all(body("<html><body>login</body></html>")),
	}
	for _, action := range []string{"DescribeInstances", "DescribeSecurityGroups", "DescribeSubnets", "DescribeLoadBalancers", "DescribeTargetGroups",
		"DescribeListeners", "DescribeTargetHealth", "DescribeTags", "DescribeLoadBalancerAttributes"} {
		f := body(fmt.Sprintf("<%[1]sResponse><%[1]sResult></%[1]sResult></%[1]sResponse>", action))
		f.Action = action
		out["empty "+action] = []apitest.Fault{f}
	}
	return out
}

// removed are the calls that take something away.
func removed(c *apitest.Cloud) (out []string) {
	for _, r := range c.Requests() {
		for _, verb := range []string{"Delete", "Deregister", "Revoke", "Remove", "Detach"} {
			if strings.HasPrefix(r.Action, verb) {
				out = append(out, r.Action)
			}
		}
	}
	return out
}

// Whatever AWS answers in place of the truth, nothing of a Service that is served is taken away, and once it answers rightly all is as before.
func TestWrongAnswersTakeNothingAway(t *testing.T) {
	for _, kind := range []string{annotations.NLB, ""} {
		c := apitest.Start(t)
		conf := "[Global]\nRegion = " + apitest.Region + "\nVPC = " + c.VPC.ID + "\nKubernetesClusterID = blue\n"
		spec := balanced(t, c, kind)
		ensure(t, provider(t, conf), spec)
		before := marked(t, c)
		for name, faults := range wrongAnswers() {
			known, fresh := provider(t, conf), provider(t, conf)
			ensure(t, known, spec)
			c.Requests()
			var undo []func()
			for _, f := range faults {
				undo = append(undo, c.AddFault(f))
			}
			verified := *spec
			verified.Verify = true
			for range 2 {
				for _, p := range []*cloud.Provider{known, fresh} {
					_, _ = p.LoadBalancers.Ensure(t.Context(), &verified)
					_ = p.LoadBalancers.UpdateMembers(t.Context(), spec)
				}
			}
			for _, f := range undo {
				f()
			}
			if got := removed(c); len(got) > 0 {
				t.Errorf("type %q, %s: %q", kind, name, got)
			}
			ensure(t, provider(t, conf), spec)
			if now := marked(t, c); !slices.Equal(now, before) {
				t.Errorf("type %q, %s: there is %q, and was %q", kind, name, now, before)
			}
		}
	}
}

// With another account's credentials nothing is found. That is no reason to make what is there, nor to take a Service for deleted.
func TestAnotherAccountsCredentialsProveNothing(t *testing.T) {
	for _, kind := range []string{annotations.NLB, ""} {
		c := apitest.Start(t)
		conf := "[Global]\nRegion = " + apitest.Region + "\nVPC = " + c.VPC.ID + "\nKubernetesClusterID = blue\n"
		spec := balanced(t, c, kind)
		ensure(t, provider(t, conf), spec)
		before := marked(t, c)
		key := c.AddUser(awssim.Principal{Account: "444455556666", Name: "other", Actions: []string{"ec2:*", "elasticloadbalancing:*"}})
		t.Setenv("AWS_ACCESS_KEY_ID", key.AccessKeyID)
		t.Setenv("AWS_SECRET_ACCESS_KEY", key.SecretAccessKey)
		p := provider(t, conf)
		changes(c)
		if err := p.LoadBalancers.Delete(t.Context(), spec); err == nil {
			t.Errorf("type %q: the load balancer is said to be deleted", kind)
		}
		if _, err := p.LoadBalancers.Ensure(t.Context(), spec); err == nil {
			t.Errorf("type %q: the Service is said to be served", kind)
		}
		if err := p.LoadBalancers.UpdateMembers(t.Context(), spec); err == nil {
			t.Errorf("type %q: the Nodes are said to be served", kind)
		}
		if got := changes(c); len(got) > 0 {
			t.Errorf("type %q: %q", kind, got)
		}
		if now := marked(t, c); !slices.Equal(now, before) {
			t.Errorf("type %q: there is %q, and was %q", kind, now, before)
		}
	}
}
