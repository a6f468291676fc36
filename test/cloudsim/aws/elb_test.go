package aws_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
)

// classic is a world with a client for classic load balancers.
type classic struct {
	*balancing
	client *elasticloadbalancing.Client
}

func newClassic(t *testing.T, opts aws.Options) *classic {
	t.Helper()
	b := newBalancing(t, opts)
	return &classic{b, elasticloadbalancing.NewFromConfig(b.config)}
}

func listener(port, to int32) types.Listener {
	return types.Listener{LoadBalancerPort: port, InstancePort: &to, Protocol: sdk.String("tcp"),
		InstanceProtocol: sdk.String("tcp")}
}

func (c *classic) make(name string, listeners ...types.Listener) (string, error) {
	out, err := c.client.CreateLoadBalancer(c.t.Context(), &elasticloadbalancing.CreateLoadBalancerInput{
		LoadBalancerName: &name, Listeners: listeners, Subnets: c.subnets, Tags: []types.Tag{{Key: sdk.String("a"),
			Value: sdk.String("b")}},
	})
	if err != nil {
		return "", err
	}
	return *out.DNSName, nil
}

func (c *classic) show(name string) types.LoadBalancerDescription {
	c.t.Helper()
	in := &elasticloadbalancing.DescribeLoadBalancersInput{LoadBalancerNames: []string{name}}
	return must(c.client.DescribeLoadBalancers(c.t.Context(), in))(c.t).LoadBalancerDescriptions[0]
}

func TestClassicLoadBalancerLives(t *testing.T) {
	c := newClassic(t, aws.Options{ELB: elb.Options{LoadBalancers: 2, Release: 100 * time.Millisecond}})
	name := must(c.make("aaa", listener(80, 30080)))(t)
	if !strings.HasPrefix(name, "aaa-") || !strings.HasSuffix(name, ".eu-central-1.elb.amazonaws.com") {
		t.Errorf("DNS name %s", name)
	}
	if again := must(c.make("aaa", listener(80, 30080)))(t); again != name {
		t.Errorf("made twice: %s", again)
	}
	_, err := c.make("aaa", listener(81, 30080))
	wantError(t, err, "DuplicateLoadBalancerName",
		"Load Balancer named aaa already exists and it is configured with different parameters")
	must(c.make("bbb", listener(80, 30080)))(t)
	_, err = c.make("ccc", listener(80, 30080))
	wantError(t, err, "TooManyLoadBalancers", "")
	got := c.show("aaa")
	if *got.VPCId != c.vpc || len(got.Subnets) != 2 || len(got.SecurityGroups) != 1 || *got.Scheme != "internet-facing" ||
		*got.HealthCheck.Target != "TCP:30080" || *got.HealthCheck.HealthyThreshold != 10 ||
		*got.ListenerDescriptions[0].Listener.Protocol != "TCP" {
		t.Errorf("%+v", got)
	}
	pages := 0
	in := &elasticloadbalancing.DescribeLoadBalancersInput{PageSize: sdk.Int32(1)}
	for p := elasticloadbalancing.NewDescribeLoadBalancersPaginator(c.client, in); p.HasMorePages(); pages++ {
		must(p.NextPage(t.Context()))(t)
	}
	if pages != 2 {
		t.Errorf("%d pages", pages)
	}
	if r := c.Requests()[len(c.Requests())-1]; r.Service != "elb" || r.Host != "elasticloadbalancing.eu-central-1.amazonaws.com" {
		t.Errorf("logged: %+v", r)
	}
	group := c.region.AddSecurityGroup(sim.SecurityGroup{VPCID: c.vpc, Name: "k8s-elb-aaa", Description: "a"}).ID
	must(c.client.ApplySecurityGroupsToLoadBalancer(t.Context(), &elasticloadbalancing.ApplySecurityGroupsToLoadBalancerInput{
		LoadBalancerName: sdk.String("aaa"), SecurityGroups: []string{group},
	}))(t)
	for range 2 { // a load balancer that is gone is deleted with success
		must(c.client.DeleteLoadBalancer(t.Context(),
			&elasticloadbalancing.DeleteLoadBalancerInput{LoadBalancerName: sdk.String("aaa")}))(t)
	}
	_, err = c.client.DescribeLoadBalancers(t.Context(),
		&elasticloadbalancing.DescribeLoadBalancersInput{LoadBalancerNames: []string{"bbb", "aaa"}})
	wantError(t, err, "LoadBalancerNotFound", "There is no ACTIVE Load Balancer named 'aaa'")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // its interfaces stay for a while
		if _, err = c.ec2.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: &group}); err == nil {
			break
		}
		wantError(t, err, "DependencyViolation", "")
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestClassicListenersAndPolicies(t *testing.T) {
	c := newClassic(t, aws.Options{})
	name := sdk.String("aaa")
	must(c.make("aaa", listener(80, 30080)))(t)
	add := func(l types.Listener) error {
		_, err := c.client.CreateLoadBalancerListeners(t.Context(),
			&elasticloadbalancing.CreateLoadBalancerListenersInput{LoadBalancerName: name, Listeners: []types.Listener{l}})
		return err
	}
	for range 2 {
		if err := add(listener(81, 30081)); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, add(listener(81, 30082)), "DuplicateListener", "")
	must(c.client.DeleteLoadBalancerListeners(t.Context(),
		&elasticloadbalancing.DeleteLoadBalancerListenersInput{LoadBalancerName: name, LoadBalancerPorts: []int32{81, 99}}))(t)
	policy := &elasticloadbalancing.CreateLoadBalancerPolicyInput{
		LoadBalancerName: name, PolicyName: sdk.String("k8s-proxyprotocol-enabled"),
		PolicyTypeName:   sdk.String("ProxyProtocolPolicyType"),
		PolicyAttributes: []types.PolicyAttribute{{AttributeName: sdk.String("ProxyProtocol"), AttributeValue: sdk.String("true")}},
	}
	set := func(policies ...string) error {
		_, err := c.client.SetLoadBalancerPoliciesForBackendServer(t.Context(),
			&elasticloadbalancing.SetLoadBalancerPoliciesForBackendServerInput{
				LoadBalancerName: name, InstancePort: sdk.Int32(30080), PolicyNames: append([]string{}, policies...),
			})
		return err
	}
	wantError(t, set(*policy.PolicyName), "PolicyNotFound", "")
	must(c.client.CreateLoadBalancerPolicy(t.Context(), policy))(t)
	_, err := c.client.CreateLoadBalancerPolicy(t.Context(), policy)
	wantError(t, err, "DuplicatePolicyName", "")
	if err := set(*policy.PolicyName); err != nil {
		t.Fatal(err)
	}
	got := c.show("aaa")
	if b := got.BackendServerDescriptions; len(got.ListenerDescriptions) != 1 || len(b) != 1 || *b[0].InstancePort != 30080 ||
		b[0].PolicyNames[0] != *policy.PolicyName {
		t.Errorf("%+v", got)
	}
	if err := set(); err != nil || len(c.show("aaa").BackendServerDescriptions) != 0 {
		t.Errorf("policies stay: %v", err)
	}
	described := must(c.client.DescribeLoadBalancerPolicies(t.Context(),
		&elasticloadbalancing.DescribeLoadBalancerPoliciesInput{LoadBalancerName: name,
			PolicyNames: []string{*policy.PolicyName}}))(t)
	if p := described.PolicyDescriptions[0]; *p.PolicyTypeName != "ProxyProtocolPolicyType" ||
		*p.PolicyAttributeDescriptions[0].AttributeValue != "true" {
		t.Errorf("%+v", p)
	}
	_, err = c.client.DescribeLoadBalancerPolicies(t.Context(),
		&elasticloadbalancing.DescribeLoadBalancerPoliciesInput{LoadBalancerName: name, PolicyNames: []string{"other"}})
	wantError(t, err, "PolicyNotFound", "")
}

func TestClassicSettingsHaveLimits(t *testing.T) {
	c := newClassic(t, aws.Options{})
	name := sdk.String("aaa")
	must(c.make("aaa", listener(80, 30080)))(t)
	for _, target := range []string{"", "TCP", "TCP:0", "TCP:65536", "UDP:80", "HTTP:x/"} {
		_, err := c.client.ConfigureHealthCheck(t.Context(), &elasticloadbalancing.ConfigureHealthCheckInput{LoadBalancerName: name,
			HealthCheck: &types.HealthCheck{Target: &target, Interval: sdk.Int32(10), Timeout: sdk.Int32(5), HealthyThreshold: sdk.Int32(2), UnhealthyThreshold: sdk.Int32(2)}})
		wantError(t, err, "ValidationError", "")
	}
	before := *c.show("aaa").HealthCheck.Target
	for code, all := range map[string][]types.LoadBalancerAttributes{
		"ValidationError": {
			{ConnectionSettings: &types.ConnectionSettings{IdleTimeout: sdk.Int32(0)}}, {ConnectionSettings: &types.ConnectionSettings{IdleTimeout: sdk.Int32(4001)}},
			{ConnectionDraining: &types.ConnectionDraining{Timeout: sdk.Int32(0)}}, {ConnectionDraining: &types.ConnectionDraining{Timeout: sdk.Int32(3601)}},
		},
		"InvalidConfigurationRequest": {
			{AccessLog: &types.AccessLog{Enabled: true}}, {AccessLog: &types.AccessLog{EmitInterval: sdk.Int32(7)}},
		},
	} {
		for _, a := range all {
			_, err := c.client.ModifyLoadBalancerAttributes(t.Context(), &elasticloadbalancing.ModifyLoadBalancerAttributesInput{LoadBalancerName: name, LoadBalancerAttributes: &a})
			wantError(t, err, code, "")
		}
	}
	a := must(c.client.DescribeLoadBalancerAttributes(t.Context(), &elasticloadbalancing.DescribeLoadBalancerAttributesInput{LoadBalancerName: name}))(t).LoadBalancerAttributes
	if after := *c.show("aaa").HealthCheck.Target; after != before || *a.ConnectionSettings.IdleTimeout != 60 || *a.ConnectionDraining.Timeout != 300 || a.AccessLog.Enabled {
		t.Errorf("what was refused was done: %s, %+v", after, a)
	}
}

func TestClassicInstancesSubnetsAndSettings(t *testing.T) {
	c := newClassic(t, aws.Options{})
	name := sdk.String("aaa")
	must(c.make("aaa", listener(80, 30080)))(t)
	one := c.region.AddInstance(sim.Instance{SubnetID: c.subnets[0]}).ID
	two := c.region.AddInstance(sim.Instance{SubnetID: c.subnets[1]}).ID
	register := func(ids ...string) error {
		in := &elasticloadbalancing.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: name}
		for _, id := range ids {
			in.Instances = append(in.Instances, types.Instance{InstanceId: &id})
		}
		_, err := c.client.RegisterInstancesWithLoadBalancer(t.Context(), in)
		return err
	}
	if err := register(one, two, one); err != nil {
		t.Fatal(err)
	}
	wantError(t, register("i-0123456789abcdef0"), "InvalidInstance", "")
	c.region.Stop(two)
	health := must(c.client.DescribeInstanceHealth(t.Context(),
		&elasticloadbalancing.DescribeInstanceHealthInput{LoadBalancerName: name}))(t)
	if got := fmt.Sprint(*health.InstanceStates[0].State, len(health.InstanceStates),
		*health.InstanceStates[1].State); got != "InService2OutOfService" {
		t.Errorf("health: %s", got)
	}
	out := must(c.client.DeregisterInstancesFromLoadBalancer(t.Context(),
		&elasticloadbalancing.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: name,
			Instances: []types.Instance{{InstanceId: &two}}}))(t)
	if len(out.Instances) != 1 || *out.Instances[0].InstanceId != one {
		t.Errorf("%+v", out.Instances)
	}
	left := must(c.client.DetachLoadBalancerFromSubnets(t.Context(),
		&elasticloadbalancing.DetachLoadBalancerFromSubnetsInput{LoadBalancerName: name, Subnets: c.subnets[:1]}))(t)
	if len(left.Subnets) != 1 || len(c.show("aaa").AvailabilityZones) != 1 {
		t.Errorf("%v", left.Subnets)
	}
	must(c.client.AttachLoadBalancerToSubnets(t.Context(),
		&elasticloadbalancing.AttachLoadBalancerToSubnetsInput{LoadBalancerName: name, Subnets: c.subnets}))(t)
	must(c.client.ConfigureHealthCheck(t.Context(), &elasticloadbalancing.ConfigureHealthCheckInput{LoadBalancerName: name,
		HealthCheck: &types.HealthCheck{
			Target: sdk.String("HTTP:10256/healthz"), Interval: sdk.Int32(10), Timeout: sdk.Int32(5), HealthyThreshold: sdk.Int32(2),
			UnhealthyThreshold: sdk.Int32(6),
		}}))(t)
	must(c.client.ModifyLoadBalancerAttributes(t.Context(),
		&elasticloadbalancing.ModifyLoadBalancerAttributesInput{LoadBalancerName: name,
			LoadBalancerAttributes: &types.LoadBalancerAttributes{
				CrossZoneLoadBalancing: &types.CrossZoneLoadBalancing{Enabled: true},
				ConnectionSettings:     &types.ConnectionSettings{IdleTimeout: sdk.Int32(90)},
			}}))(t)
	a := must(c.client.DescribeLoadBalancerAttributes(t.Context(),
		&elasticloadbalancing.DescribeLoadBalancerAttributesInput{LoadBalancerName: name}))(t).LoadBalancerAttributes
	if got := fmt.Sprint(a.CrossZoneLoadBalancing.Enabled, *a.ConnectionSettings.IdleTimeout, a.AccessLog.Enabled,
		*a.ConnectionDraining.Timeout,
		len(a.AdditionalAttributes), *c.show("aaa").HealthCheck.Target); got != "true 90 false 300 1HTTP:10256/healthz" {
		t.Errorf("attributes: %s", got)
	}
	must(c.client.AddTags(t.Context(), &elasticloadbalancing.AddTagsInput{LoadBalancerNames: []string{"aaa"},
		Tags: []types.Tag{{Key: sdk.String("c"), Value: sdk.String("d")}}}))(t)
	tags := must(c.client.DescribeTags(t.Context(),
		&elasticloadbalancing.DescribeTagsInput{LoadBalancerNames: []string{"aaa"}}))(t)
	if got := tags.TagDescriptions[0].Tags; len(got) != 2 || *got[1].Key != "c" || *got[1].Value != "d" {
		t.Errorf("%+v", got)
	}
	_, err := c.client.DescribeTags(t.Context(), &elasticloadbalancing.DescribeTagsInput{LoadBalancerNames: make([]string, 21)})
	wantError(t, err, "ValidationError", "")
}
