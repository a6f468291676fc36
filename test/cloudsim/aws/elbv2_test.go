package aws_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

// balancing is a world with a VPC for load balancers.
type balancing struct {
	*world
	lb      *elasticloadbalancingv2.Client
	vpc     string
	subnets []string
}

func newBalancing(t *testing.T, opts aws.Options) *balancing {
	t.Helper()
	w := newWorld(t, opts)
	b := &balancing{world: w, lb: elasticloadbalancingv2.NewFromConfig(w.config), vpc: w.region.AddVPC(sim.VPC{}).ID}
	for n, zone := range []string{"a", "b"} {
		subnet := w.region.AddSubnet(sim.Subnet{VPCID: b.vpc, CIDR: fmt.Sprintf("10.0.%d.0/24", n), Zone: region + zone})
		b.subnets = append(b.subnets, subnet.ID)
	}
	return b
}

func (b *balancing) create(name string, groups ...string) (*types.LoadBalancer, error) {
	out, err := b.lb.CreateLoadBalancer(b.t.Context(), &elasticloadbalancingv2.CreateLoadBalancerInput{
		Name: &name, Type: types.LoadBalancerTypeEnumNetwork, Subnets: b.subnets, SecurityGroups: groups,
		Tags: []types.Tag{{Key: sdk.String("kubernetes.io/cluster/one"), Value: sdk.String("owned")}},
	})
	if err != nil {
		return nil, err
	}
	return &out.LoadBalancers[0], nil
}

func (b *balancing) group(name string, port int32) (*types.TargetGroup, error) {
	out, err := b.lb.CreateTargetGroup(b.t.Context(), &elasticloadbalancingv2.CreateTargetGroupInput{
		Name: &name, Protocol: types.ProtocolEnumTcp, Port: &port, VpcId: &b.vpc,
	})
	if err != nil {
		return nil, err
	}
	return &out.TargetGroups[0], nil
}

func (b *balancing) listen(balancer *types.LoadBalancer, port int32, group *types.TargetGroup) (*types.Listener, error) {
	out, err := b.lb.CreateListener(b.t.Context(), &elasticloadbalancingv2.CreateListenerInput{
		LoadBalancerArn: balancer.LoadBalancerArn, Port: &port, Protocol: types.ProtocolEnumTcp,
		DefaultActions: []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: group.TargetGroupArn}},
	})
	if err != nil {
		return nil, err
	}
	return &out.Listeners[0], nil
}

func TestNetworkLoadBalancerLives(t *testing.T) {
	b := newBalancing(t, aws.Options{ELBv2: elbv2.Options{Provisioning: 100 * time.Millisecond, LoadBalancers: 2}})
	group := b.region.AddSecurityGroup(sim.SecurityGroup{VPCID: b.vpc, Name: "k8s-a", Description: "a"}).ID
	made := must(b.create("aaa", group))(t)
	if made.State.Code != types.LoadBalancerStateEnumProvisioning || *made.VpcId != b.vpc || len(made.AvailabilityZones) != 2 ||
		*made.AvailabilityZones[1].ZoneName != region+"b" || made.SecurityGroups[0] != group || !strings.HasPrefix(*made.DNSName,
		"aaa-") ||
		!strings.HasSuffix(*made.DNSName, ".elb.eu-central-1.amazonaws.com") ||
		!strings.HasPrefix(*made.LoadBalancerArn, "arn:aws:elasticloadbalancing:eu-central-1:111122223333:loadbalancer/net/aaa/") {
		t.Errorf("%+v", made)
	}
	if again := must(b.create("aaa", group))(t); *again.LoadBalancerArn != *made.LoadBalancerArn {
		t.Errorf("made twice: %s", *again.LoadBalancerArn)
	}
	_, err := b.create("aaa")
	wantError(t, err, "DuplicateLoadBalancerName", "A load balancer with the same name 'aaa' exists, but with different settings")
	must(b.create("bbb"))(t)
	_, err = b.create("ccc")
	wantError(t, err, "TooManyLoadBalancers", "")
	_, err = b.create(strings.Repeat("n", 33))
	wantError(t, err, "ValidationError", "")
	_, err = b.create("ddd", "sg-0123456789abcdef0")
	wantError(t, err, "InvalidSecurityGroup", "")

	waiter := elasticloadbalancingv2.NewLoadBalancerAvailableWaiter(b.lb,
		func(o *elasticloadbalancingv2.LoadBalancerAvailableWaiterOptions) {
			o.MinDelay, o.MaxDelay = 10*time.Millisecond, 20*time.Millisecond
		})
	in := &elasticloadbalancingv2.DescribeLoadBalancersInput{Names: []string{"aaa"}}
	if err := waiter.Wait(t.Context(), in, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if r := b.Requests()[len(b.Requests())-1]; r.Service != "elbv2" || r.Action != "DescribeLoadBalancers" ||
		r.Host != "elasticloadbalancing.eu-central-1.amazonaws.com" {
		t.Errorf("logged: %+v", r)
	}
	_, err = b.ec2.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: &group})
	wantError(t, err, "DependencyViolation", "")
	for range 2 { // a load balancer that is gone is deleted with success
		must(b.lb.DeleteLoadBalancer(t.Context(),
			&elasticloadbalancingv2.DeleteLoadBalancerInput{LoadBalancerArn: made.LoadBalancerArn}))(t)
	}
	_, err = b.lb.DescribeLoadBalancers(t.Context(), in)
	wantError(t, err, "LoadBalancerNotFound", "")
	must(b.ec2.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: &group}))(t)
}

func TestLoadBalancersComeInPages(t *testing.T) {
	b := newBalancing(t, aws.Options{})
	for n := range 5 {
		must(b.create(fmt.Sprint("lb-", n)))(t)
	}
	var names []string
	pages := 0
	in := &elasticloadbalancingv2.DescribeLoadBalancersInput{PageSize: sdk.Int32(2)}
	for p := elasticloadbalancingv2.NewDescribeLoadBalancersPaginator(b.lb, in); p.HasMorePages(); pages++ {
		for _, lb := range must(p.NextPage(t.Context()))(t).LoadBalancers {
			names = append(names, *lb.LoadBalancerName)
		}
	}
	if got := strings.Join(names, " "); got != "lb-0 lb-1 lb-2 lb-3 lb-4" || pages != 3 {
		t.Errorf("%s in %d pages", got, pages)
	}
}

func TestListenersAndTargetGroups(t *testing.T) {
	b := newBalancing(t, aws.Options{ELBv2: elbv2.Options{Listeners: 2, Release: 100 * time.Millisecond}})
	one, two := must(b.create("one"))(t), must(b.create("two"))(t)
	group := must(b.group("k8s-a", 30080))(t)
	if *group.HealthCheckPort != "traffic-port" || group.HealthCheckProtocol != types.ProtocolEnumTcp ||
		*group.HealthCheckIntervalSeconds != 30 ||
		*group.HealthyThresholdCount != 5 || *group.UnhealthyThresholdCount != 2 || group.TargetType != types.TargetTypeEnumInstance {
		t.Errorf("%+v", group)
	}
	if again := must(b.group("k8s-a", 30080))(t); *again.TargetGroupArn != *group.TargetGroupArn {
		t.Errorf("made twice: %s", *again.TargetGroupArn)
	}
	_, err := b.group("k8s-a", 30081)
	wantError(t, err, "DuplicateTargetGroupName", "A target group with the same name 'k8s-a' exists, but with different settings")
	l := must(b.listen(one, 80, group))(t)
	if again := must(b.listen(one, 80, group))(t); *again.ListenerArn != *l.ListenerArn {
		t.Errorf("made twice: %s", *again.ListenerArn)
	}
	other := must(b.group("k8s-b", 30081))(t)
	_, err = b.listen(one, 80, other)
	wantError(t, err, "DuplicateListener", "")
	_, err = b.listen(two, 80, group)
	wantError(t, err, "TargetGroupAssociationLimit", "")
	must(b.listen(one, 81, group))(t)
	_, err = b.listen(one, 82, group)
	wantError(t, err, "TooManyListeners", "")
	listed := must(b.lb.DescribeListeners(t.Context(),
		&elasticloadbalancingv2.DescribeListenersInput{LoadBalancerArn: one.LoadBalancerArn}))(t)
	if len(listed.Listeners) != 2 || *listed.Listeners[0].DefaultActions[0].TargetGroupArn != *group.TargetGroupArn {
		t.Errorf("%+v", listed.Listeners)
	}
	must(b.lb.ModifyListener(t.Context(), &elasticloadbalancingv2.ModifyListenerInput{
		ListenerArn:    l.ListenerArn,
		DefaultActions: []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: other.TargetGroupArn}},
	}))(t)
	of := must(b.lb.DescribeTargetGroups(t.Context(),
		&elasticloadbalancingv2.DescribeTargetGroupsInput{LoadBalancerArn: one.LoadBalancerArn}))(t)
	if len(of.TargetGroups) != 2 || of.TargetGroups[0].LoadBalancerArns[0] != *one.LoadBalancerArn {
		t.Errorf("%+v", of.TargetGroups)
	}
	must(b.lb.DeleteLoadBalancer(t.Context(),
		&elasticloadbalancingv2.DeleteLoadBalancerInput{LoadBalancerArn: one.LoadBalancerArn}))(t)
	remove := &elasticloadbalancingv2.DeleteTargetGroupInput{TargetGroupArn: group.TargetGroupArn}
	_, err = b.lb.DeleteTargetGroup(t.Context(), remove)
	wantError(t, err, "ResourceInUse", "Target group '"+*group.TargetGroupArn+"' is currently in use by a listener or a rule")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err = b.lb.DeleteTargetGroup(t.Context(), remove); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	_, err = b.lb.DescribeTargetGroups(t.Context(),
		&elasticloadbalancingv2.DescribeTargetGroupsInput{TargetGroupArns: []string{*group.TargetGroupArn}})
	wantError(t, err, "TargetGroupNotFound", "One or more target groups not found")
	_, err = b.lb.DeleteListener(t.Context(), &elasticloadbalancingv2.DeleteListenerInput{ListenerArn: l.ListenerArn})
	wantError(t, err, "ListenerNotFound", "")
}

func TestTLSListener(t *testing.T) {
	b := newBalancing(t, aws.Options{})
	lb, group := must(b.create("one"))(t), must(b.group("k8s-a", 30080))(t)
	in := &elasticloadbalancingv2.CreateListenerInput{
		LoadBalancerArn: lb.LoadBalancerArn, Port: sdk.Int32(443), Protocol: types.ProtocolEnumTls,
		DefaultActions: []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: group.TargetGroupArn}},
	}
	_, err := b.lb.CreateListener(t.Context(), in)
	wantError(t, err, "ValidationError", "A certificate must be specified for TLS listeners")
	in.Certificates = []types.Certificate{{CertificateArn: sdk.String("arn:aws:acm:eu-central-1:111122223333:certificate/a")}}
	l := must(b.lb.CreateListener(t.Context(), in))(t).Listeners[0]
	if *l.Certificates[0].CertificateArn != *in.Certificates[0].CertificateArn || sdk.ToString(l.SslPolicy) == "" {
		t.Errorf("%+v", l)
	}
	plain := must(b.lb.ModifyListener(t.Context(), &elasticloadbalancingv2.ModifyListenerInput{ListenerArn: l.ListenerArn,
		Protocol: types.ProtocolEnumTcp}))(t)
	if got := plain.Listeners[0]; len(got.Certificates) != 0 || got.SslPolicy != nil || *got.Port != 443 {
		t.Errorf("%+v", got)
	}
}

func TestTargetsAndTheirHealth(t *testing.T) {
	b := newBalancing(t, aws.Options{ELBv2: elbv2.Options{Draining: 100 * time.Millisecond, Targets: 2}})
	lb, group := must(b.create("one"))(t), must(b.group("k8s-a", 30080))(t)
	arn := *group.TargetGroupArn
	one, two := b.region.AddInstance(sim.Instance{SubnetID: b.subnets[0]}), b.region.AddInstance(sim.Instance{SubnetID: b.subnets[1]})
	register := func(ids ...string) error {
		in := &elasticloadbalancingv2.RegisterTargetsInput{TargetGroupArn: &arn}
		for _, id := range ids {
			in.Targets = append(in.Targets, types.TargetDescription{Id: &id})
		}
		_, err := b.lb.RegisterTargets(t.Context(), in)
		return err
	}
	health := func(targets ...types.TargetDescription) string {
		out := must(b.lb.DescribeTargetHealth(t.Context(), &elasticloadbalancingv2.DescribeTargetHealthInput{TargetGroupArn: &arn,
			Targets: targets}))(t)
		var all []string
		for _, d := range out.TargetHealthDescriptions {
			all = append(all, fmt.Sprintf("%s:%d %s %s", *d.Target.Id, *d.Target.Port, d.TargetHealth.State, d.TargetHealth.Reason))
		}
		return strings.Join(all, ", ")
	}
	if err := register(one.ID, two.ID, one.ID); err != nil {
		t.Fatal(err)
	}
	want := func(got string, says ...string) {
		t.Helper()
		if w := strings.Join(says, ", "); got != w {
			t.Errorf("got %s, want %s", got, w)
		}
	}
	want(health(), one.ID+":30080 unused Target.NotInUse", two.ID+":30080 unused Target.NotInUse")
	must(b.listen(lb, 80, group))(t)
	b.ELBv2(account, region).SetHealth(arn, two.ID, 30080, elbv2.Health{State: "unhealthy", Reason: "Target.FailedHealthChecks"})
	want(health(), one.ID+":30080 healthy ", two.ID+":30080 unhealthy Target.FailedHealthChecks")
	b.region.Stop(two.ID)
	want(health(), one.ID+":30080 healthy ", two.ID+":30080 unused Target.InvalidState")

	three := b.region.AddInstance(sim.Instance{SubnetID: b.subnets[0]})
	wantError(t, register(three.ID), "TooManyTargets", "")
	wantError(t, register(one.ID, two.ID), "InvalidTarget",
		"The following targets are not in a running state and cannot be registered: '"+two.ID+"'")
	wantError(t, register("i-0123456789abcdef0"), "InvalidTarget", "")
	wantError(t, register(b.region.AddInstance(sim.Instance{}).ID), "InvalidTarget", "")
	must(b.lb.DeregisterTargets(t.Context(), &elasticloadbalancingv2.DeregisterTargetsInput{
		TargetGroupArn: &arn, Targets: []types.TargetDescription{{Id: &two.ID}, {Id: &three.ID}},
	}))(t)
	if got := health(); got != one.ID+":30080 healthy , "+two.ID+":30080 draining Target.DeregistrationInProgress" &&
		got != one.ID+":30080 healthy " { // when this machine is slow
		t.Errorf("got %s", got)
	}
	time.Sleep(120 * time.Millisecond)
	want(health(), one.ID+":30080 healthy ")
	want(health(types.TargetDescription{Id: &two.ID}), two.ID+":30080 unused Target.NotRegistered")
}

func TestAttributesAndTags(t *testing.T) {
	b := newBalancing(t, aws.Options{})
	lb, group := must(b.create("one"))(t), must(b.group("k8s-a", 30080))(t)
	out := must(b.lb.ModifyLoadBalancerAttributes(t.Context(), &elasticloadbalancingv2.ModifyLoadBalancerAttributesInput{
		LoadBalancerArn: lb.LoadBalancerArn,
		Attributes: []types.LoadBalancerAttribute{{Key: sdk.String("load_balancing.cross_zone.enabled"),
			Value: sdk.String("true")}},
	}))(t)
	got := map[string]string{}
	for _, a := range out.Attributes {
		got[*a.Key] = *a.Value
	}
	if got["load_balancing.cross_zone.enabled"] != "true" || got["deletion_protection.enabled"] != "false" ||
		got["access_logs.s3.bucket"] != "" {
		t.Errorf("%v", got)
	}
	_, err := b.lb.ModifyTargetGroupAttributes(t.Context(), &elasticloadbalancingv2.ModifyTargetGroupAttributesInput{
		TargetGroupArn: group.TargetGroupArn, Attributes: []types.TargetGroupAttribute{{Key: sdk.String("color"),
			Value: sdk.String("red")}},
	})
	wantError(t, err, "ValidationError", "")
	attributes := must(b.lb.DescribeTargetGroupAttributes(t.Context(),
		&elasticloadbalancingv2.DescribeTargetGroupAttributesInput{TargetGroupArn: group.TargetGroupArn}))(t)
	if len(attributes.Attributes) < 10 {
		t.Errorf("%+v", attributes.Attributes)
	}
	both := []string{*lb.LoadBalancerArn, *group.TargetGroupArn}
	must(b.lb.AddTags(t.Context(), &elasticloadbalancingv2.AddTagsInput{ResourceArns: both,
		Tags: []types.Tag{{Key: sdk.String("a"), Value: sdk.String("")}}}))(t)
	must(b.lb.RemoveTags(t.Context(), &elasticloadbalancingv2.RemoveTagsInput{ResourceArns: both[:1], TagKeys: []string{"a"}}))(t)
	tags := must(b.lb.DescribeTags(t.Context(), &elasticloadbalancingv2.DescribeTagsInput{ResourceArns: both}))(t).TagDescriptions
	if len(tags[0].Tags) != 1 || *tags[0].Tags[0].Key != "kubernetes.io/cluster/one" || len(tags[1].Tags) != 1 ||
		*tags[1].Tags[0].Key != "a" {
		t.Errorf("%+v", tags)
	}
	_, err = b.lb.DescribeTags(t.Context(), &elasticloadbalancingv2.DescribeTagsInput{ResourceArns: []string{both[0], both[1] +
		"0"}})
	wantError(t, err, "TargetGroupNotFound", "")
	_, err = b.lb.DescribeTags(t.Context(), &elasticloadbalancingv2.DescribeTagsInput{ResourceArns: make([]string, 21)})
	wantError(t, err, "ValidationError", "")
	b.Throttle("elbv2", "DescribeTags", 1, 0)
	in := &elasticloadbalancingv2.DescribeTagsInput{ResourceArns: both}
	must(b.lb.DescribeTags(t.Context(), in))(t)
	_, err = b.lb.DescribeTags(t.Context(), in)
	wantError(t, err, "Throttling", "Rate exceeded")
}

func TestSubnetsAndSecurityGroupsAreReplaced(t *testing.T) {
	b := newBalancing(t, aws.Options{})
	one := b.region.AddSecurityGroup(sim.SecurityGroup{VPCID: b.vpc, Name: "one", Description: "a"}).ID
	two := b.region.AddSecurityGroup(sim.SecurityGroup{VPCID: b.vpc, Name: "two", Description: "a"}).ID
	lb, bare := must(b.create("one", one))(t), must(b.create("two"))(t)
	must(b.lb.SetSecurityGroups(t.Context(), &elasticloadbalancingv2.SetSecurityGroupsInput{LoadBalancerArn: lb.LoadBalancerArn,
		SecurityGroups: []string{two}}))(t)
	must(b.ec2.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: &one}))(t)
	_, err := b.lb.SetSecurityGroups(t.Context(),
		&elasticloadbalancingv2.SetSecurityGroupsInput{LoadBalancerArn: bare.LoadBalancerArn, SecurityGroups: []string{two}})
	wantError(t, err, "InvalidConfigurationRequest", "")
	zones := must(b.lb.SetSubnets(t.Context(), &elasticloadbalancingv2.SetSubnetsInput{LoadBalancerArn: lb.LoadBalancerArn,
		Subnets: b.subnets[1:]}))(t)
	if len(zones.AvailabilityZones) != 1 || *zones.AvailabilityZones[0].SubnetId != b.subnets[1] {
		t.Errorf("%+v", zones.AvailabilityZones)
	}
	twice := b.region.AddSubnet(sim.Subnet{VPCID: b.vpc, CIDR: "10.0.7.0/24", Zone: region + "b"}).ID
	_, err = b.lb.SetSubnets(t.Context(), &elasticloadbalancingv2.SetSubnetsInput{LoadBalancerArn: lb.LoadBalancerArn,
		Subnets: []string{b.subnets[1], twice}})
	wantError(t, err, "InvalidConfigurationRequest",
		"A load balancer cannot be attached to multiple subnets in the same Availability Zone")
	_, err = b.lb.SetSubnets(t.Context(), &elasticloadbalancingv2.SetSubnetsInput{LoadBalancerArn: lb.LoadBalancerArn,
		Subnets: []string{"subnet-0123456789abcdef0"}})
	wantError(t, err, "SubnetNotFound", "The subnet ID 'subnet-0123456789abcdef0' does not exist")
	ip := b.region.AddAddress(sim.Address{PublicIP: "203.0.113.80"})
	fixed := must(b.lb.CreateLoadBalancer(t.Context(), &elasticloadbalancingv2.CreateLoadBalancerInput{
		Name: sdk.String("fixed"), Type: types.LoadBalancerTypeEnumNetwork,
		SubnetMappings: []types.SubnetMapping{{SubnetId: &b.subnets[0], AllocationId: &ip.ID}},
	}))(t).LoadBalancers[0]
	if a := fixed.AvailabilityZones[0].LoadBalancerAddresses; len(a) != 1 || *a[0].IpAddress != "203.0.113.80" ||
		*a[0].AllocationId != ip.ID {
		t.Errorf("%+v", fixed.AvailabilityZones)
	}
}
