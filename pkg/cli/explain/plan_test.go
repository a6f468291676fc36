package explain

import (
	"testing"

	"github.com/go-logr/logr"

	"github.com/isthmus-cloud/isthmus/pkg/dryrun"
)

// TestRecorder: a change is told with words, a change that was told before and all else are not.
func TestRecorder(t *testing.T) {
	for _, c := range []struct {
		pairs             []any
		words, call, body string
	}{
		{[]any{"method", "POST", "path", "/load-balancer/v2.0/lbaas/loadbalancers", "body", `{"loadbalancer":{"name":"x"}}`},
			"make load balancer x", "POST /load-balancer/v2.0/lbaas/loadbalancers", `{"loadbalancer":{"name":"x"}}`},
		{[]any{"method", "PUT", "path", "/v2.0/lbaas/pools/1/members", "body", "{}"}, "set members of pool 1", "PUT /v2.0/lbaas/pools/1/members", "{}"},
		{[]any{"method", "PUT", "path", "/v2/lbaas/l7policies/1"}, "change L7 policy 1", "PUT /v2/lbaas/l7policies/1", ""},
		{[]any{"method", "DELETE", "path", "/v2.0/lbaas/loadbalancers/1?cascade=true"}, "delete load balancer 1", "DELETE /v2.0/lbaas/loadbalancers/1?cascade=true", ""},
		{[]any{"method", "DELETE", "path", "/v2.0/floatingips/1/tags/x"}, "delete tag x", "DELETE /v2.0/floatingips/1/tags/x", ""},
		{[]any{"method", "POST", "path", "/v2.0/security-group-rules", "body", "no JSON"}, "make security group rule", "POST /v2.0/security-group-rules", "no JSON"},
		{[]any{"method", "PATCH", "path", "/apis/x.y/v1alpha1/namespaces/ns/virtualmachineservices/web"}, "change VirtualMachineService web", "PATCH /apis/x.y/v1alpha1/namespaces/ns/virtualmachineservices/web", ""},
		{[]any{"method", "POST", "path", "/"}, "make ", "POST /", ""},
		{[]any{"operation", "CreateLoadBalancer", "parameters", `{"Name":"x","Scheme":"","Tags":null,"Subnets":[{"ID":"1","Zone":""}]}`},
			"create load balancer x", "CreateLoadBalancer", `{"Name":"x","Subnets":[{"ID":"1"}]}`},
		{[]any{"operation", "DeleteListener", "parameters", `{"ListenerArn":"a"}`}, "delete listener of a", "DeleteListener", `{"ListenerArn":"a"}`},
		{[]any{"operation", "Oddly", "parameters", "no JSON", "alone"}, "oddly", "Oddly", "no JSON"},
	} {
		r := &recorder{}
		logger := logr.New(r).WithName("x").WithValues("y", "z")
		logger.Info("another message", c.pairs...)
		logger.V(4).Info(dryrun.CloudWouldChange, c.pairs...)
		logger.Error(nil, dryrun.CloudWouldChange, c.pairs...)
		logger.Info(dryrun.CloudWouldChange, c.pairs...)
		got := r.took()
		if len(got) != 1 || got[0].Words != c.words || got[0].Call != c.call || got[0].Body != c.body {
			t.Errorf("%q: %+v", c.pairs, got)
		}
		if again := r.took(); len(again) != 0 {
			t.Errorf("taken twice: %+v", again)
		}
	}
}
