package elb

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// internal is the scheme of load balancers without public addresses.
const internal = "internal"

// create makes the load balancer, and returns it as it is then.
func (l *LoadBalancers) create(ctx context.Context, ref cloud.LoadBalancerRef, w *plan.Wanted) (*plan.Observed, error) {
	w.Tags = l.tags(ref, w.Desired.Tags)
	in := &elb.CreateLoadBalancerInput{LoadBalancerName: &w.Name, Listeners: listeners(w.Listeners), Subnets: w.Subnets,
		SecurityGroups: w.Groups, Tags: api.ClassicTagsOf(tags.MarkedClassic(w.Tags, ref.Cluster.UID))}
	if w.Internal {
		in.Scheme = aws.String(internal)
	}
	name, err := l.c.CreateClassicBalancer(ctx, in)
	l.all.forget(w.Name)
	if cloud.IsStale(err) { // it was made by somebody else, or by us and the answer was lost
		return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryStale, Err: err}
	}
	if err != nil {
		return nil, err
	}
	return &plan.Observed{DNSName: name, Internal: w.Internal, Subnets: w.Subnets, Groups: w.Groups, Listeners: w.Listeners, Tags: w.Tags}, nil
}

// apply makes the changes, in their order.
func (l *LoadBalancers) apply(ctx context.Context, name string, c *plan.Changes) error {
	var refused error
	steps := []func() error{
		when(len(c.Tags) > 0, func() error { return l.c.AddClassicTags(ctx, name, c.Tags) }),
		func() error { return l.subnets(ctx, name, c) },
		when(len(c.Groups) > 0, func() error { return l.c.SetClassicGroups(ctx, name, c.Groups) }),
		func() error { return l.backends(ctx, name, c.Closed) },
		when(len(c.RemoveListeners) > 0, func() error { return l.c.RemoveClassicListeners(ctx, name, c.RemoveListeners) }),
		when(len(c.AddListeners) > 0, func() error { return l.c.AddClassicListeners(ctx, name, listeners(c.AddListeners)) }),
		func() error { return l.policies(ctx, name, c) },
		func() error { return l.backends(ctx, name, c.Backends) },
		func() error { return l.ssl(ctx, name, c.SSL) },
		when(c.Attributes != nil, func() error { return l.c.SetClassicAttributes(ctx, name, wantedAttributes(c.Attributes)) }),
		when(c.Check != nil, func() error { return l.c.SetClassicCheck(ctx, name, healthCheck(c.Check)) }),
		func() (err error) { refused, err = l.register(ctx, name, slices.Clone(c.Register)); return err },
		when(len(c.Deregister) > 0, func() error { return l.c.DeregisterClassic(ctx, name, c.Deregister) }),
	}
	if len(c.Summary()) == 0 {
		return nil
	}
	defer l.all.changed(name)
	if len(c.Tags) > 0 {
		defer l.all.tagsOf.Forget(name)
	}
	if c.Attributes != nil {
		defer l.all.attributesOf.Forget(name)
	}
	for _, step := range steps {
		err := step()
		if cloud.IsStale(err) || cloud.IsNotFound(err) { // others have changed it, or an instance is gone
			l.net.ForgetInstances(c.Register...)
			return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryStale, Err: err}
		}
		if err != nil {
			return err
		}
	}
	return refused
}

// register registers instances. AWS takes all or none, so that those that it names as the reason are left out, and refused is why to
// come back for them.
func (l *LoadBalancers) register(ctx context.Context, name string, ids []string) (refused, err error) {
	for len(ids) > 0 {
		err := l.c.RegisterClassic(ctx, name, ids)
		if err == nil {
			break
		}
		left := providerid.Without(ids, err)
		if len(left) == len(ids) || !cloud.IsStale(err) && !cloud.IsNotFound(err) {
			return refused, err
		}
		l.net.ForgetInstances(slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(left, id) })...)
		refused = &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryStopped,
			Err: fmt.Errorf("some Nodes get no traffic, as AWS does not take their instances: %w", err)}
		ids = left
	}
	return refused, nil
}

func when(is bool, step func() error) func() error {
	if is {
		return step
	}
	return func() error { return nil }
}

// subnets removes and adds subnets. A zone has one at most, so that the old one goes first, unless it is the last.
func (l *LoadBalancers) subnets(ctx context.Context, name string, c *plan.Changes) error {
	detach := when(len(c.Detach) > 0, func() error { return l.c.DetachClassic(ctx, name, c.Detach) })
	attach := when(len(c.Attach) > 0, func() error { return l.c.AttachClassic(ctx, name, c.Attach) })
	if c.AttachFirst {
		detach, attach = attach, detach
	}
	if err := detach(); err != nil {
		return err
	}
	return attach()
}

func (l *LoadBalancers) policies(ctx context.Context, name string, c *plan.Changes) error {
	for _, p := range c.Policies {
		if err := l.c.AddClassicPolicy(ctx, name, p.Name, p.Type, p.Attribute); err != nil && !cloud.IsStale(err) { // it is there already
			return err
		}
	}
	return nil
}

func (l *LoadBalancers) backends(ctx context.Context, name string, all []plan.BackendPolicy) error {
	for _, b := range all {
		var policies []string
		if b.Proxy {
			policies = []string{plan.ProxyPolicy}
		}
		if err := l.c.SetClassicBackend(ctx, name, b.Port, policies); err != nil {
			return err
		}
	}
	return nil
}

func (l *LoadBalancers) ssl(ctx context.Context, name string, all []plan.ListenerPolicy) error {
	for _, p := range all {
		if err := l.c.SetClassicListenerPolicies(ctx, name, p.Port, []string{p.Policy}); err != nil {
			return err
		}
	}
	return nil
}

func listeners(all []plan.Listener) []types.Listener {
	out := make([]types.Listener, 0, len(all))
	for _, l := range all {
		one := types.Listener{LoadBalancerPort: l.Port, InstancePort: &l.InstancePort, Protocol: &l.Protocol,
			InstanceProtocol: &l.InstanceProtocol}
		if l.Certificate != "" {
			one.SSLCertificateId = &l.Certificate
		}
		out = append(out, one)
	}
	return out
}

func healthCheck(h *plan.HealthCheck) *types.HealthCheck {
	return &types.HealthCheck{Target: &h.Target, Interval: &h.Interval, Timeout: &h.Timeout, HealthyThreshold: &h.Healthy,
		UnhealthyThreshold: &h.Unhealthy}
}

func wantedAttributes(a *plan.Attributes) *types.LoadBalancerAttributes {
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return &types.LoadBalancerAttributes{
		AccessLog: &types.AccessLog{Enabled: a.LogEnabled, EmitInterval: a.LogInterval, S3BucketName: text(a.LogBucket),
			S3BucketPrefix: text(a.LogPrefix)},
		ConnectionDraining:     &types.ConnectionDraining{Enabled: a.Draining, Timeout: a.DrainingTimeout},
		ConnectionSettings:     &types.ConnectionSettings{IdleTimeout: &a.IdleTimeout},
		CrossZoneLoadBalancing: &types.CrossZoneLoadBalancing{Enabled: a.CrossZone},
	}
}

func observedAttributes(a *types.LoadBalancerAttributes) plan.Attributes {
	var out plan.Attributes
	if a.CrossZoneLoadBalancing != nil {
		out.CrossZone = a.CrossZoneLoadBalancing.Enabled
	}
	if a.AccessLog != nil {
		out.LogEnabled, out.LogInterval = a.AccessLog.Enabled, a.AccessLog.EmitInterval
		out.LogBucket, out.LogPrefix = aws.ToString(a.AccessLog.S3BucketName), aws.ToString(a.AccessLog.S3BucketPrefix)
	}
	if a.ConnectionDraining != nil {
		out.Draining, out.DrainingTimeout = a.ConnectionDraining.Enabled, a.ConnectionDraining.Timeout
	}
	if a.ConnectionSettings != nil {
		out.IdleTimeout = aws.ToInt32(a.ConnectionSettings.IdleTimeout)
	}
	return out
}

// observed is a load balancer as it was read, without tags and attributes.
func observed(b *types.LoadBalancerDescription) *plan.Observed {
	out := &plan.Observed{DNSName: aws.ToString(b.DNSName), Internal: aws.ToString(b.Scheme) == internal, Subnets: b.Subnets, Groups: b.SecurityGroups,
		ListenerPolicies: map[int32][]string{}, BackendPolicies: map[int32][]string{}}
	for _, d := range b.ListenerDescriptions {
		if l := d.Listener; l != nil {
			out.Listeners = append(out.Listeners, plan.Listener{Port: l.LoadBalancerPort, InstancePort: aws.ToInt32(l.InstancePort),
				Protocol: aws.ToString(l.Protocol), InstanceProtocol: aws.ToString(l.InstanceProtocol),
				Certificate: aws.ToString(l.SSLCertificateId)})
			out.ListenerPolicies[l.LoadBalancerPort] = d.PolicyNames
		}
	}
	for _, d := range b.BackendServerDescriptions {
		out.BackendPolicies[aws.ToInt32(d.InstancePort)] = d.PolicyNames
	}
	if b.Policies != nil {
		out.Policies = b.Policies.OtherPolicies
	}
	if h := b.HealthCheck; h != nil {
		out.Check = plan.HealthCheck{Target: aws.ToString(h.Target), Interval: aws.ToInt32(h.Interval), Timeout: aws.ToInt32(h.Timeout),
			Healthy: aws.ToInt32(h.HealthyThreshold), Unhealthy: aws.ToInt32(h.UnhealthyThreshold)}
	}
	for _, i := range b.Instances {
		out.Instances = append(out.Instances, aws.ToString(i.InstanceId))
	}
	slices.Sort(out.Instances)
	return out
}
