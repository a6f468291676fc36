package api

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go/middleware"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/dryrun"
)

// dryRun lets nothing that changes the cloud be sent. What that would be is said once, and answered as if it were done, so that
// all that would follow is said, too. What would be made has an ID by its name, so that it is the same each time.
type dryRun struct {
	c      *Client
	logger klog.Logger
	once   dryrun.Once
	// made are the IDs, and the names of classic load balancers, that such answers have.
	made sync.Map
}

// errNotSent has call answer as AWS does where an answer says nothing.
var errNotSent = errors.New("dry run: it was not sent")

// madeUp is what an ARN in an answer begins with.
const madeUp = "arn:aws:elasticloadbalancing:dry-run::"

// HandleInitialize implements a middleware.
func (d *dryRun) HandleInitialize(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	out, none := middleware.InitializeOutput{}, middleware.Metadata{}
	operation := awsmiddleware.GetOperationName(ctx)
	if isTrial(in.Parameters) {
		return next.HandleInitialize(ctx, in)
	}
	if !mutates(operation) {
		answer, err := d.read(in.Parameters)
		if answer == nil && err == nil {
			return next.HandleInitialize(ctx, in)
		}
		out.Result = answer
		return out, none, err
	}
	what := parameters(in.Parameters)
	d.once.Logger(d.logger, operation, []byte(what)).Info(dryrun.CloudWouldChange, "operation", operation, "parameters", what)
	answer, err := d.change(ctx, in.Parameters)
	if answer == nil && err == nil {
		err = errNotSent
	}
	out.Result = answer
	return out, none, err
}

// isTrial reports whether a request asks by itself not to be carried out; see Trial.
func isTrial(in any) bool {
	v := reflect.Indirect(reflect.ValueOf(in))
	if v.Kind() != reflect.Struct {
		return false
	}
	field := v.FieldByName("DryRun")
	if !field.IsValid() {
		return false
	}
	asked, ok := field.Interface().(*bool)
	return ok && aws.ToBool(asked)
}

// ID implements a middleware.
func (*dryRun) ID() string { return "DryRun" }

// change is the answer to what would make something, or change what the answer shows; nil for all else.
func (d *dryRun) change(ctx context.Context, in any) (any, error) {
	switch in := in.(type) {
	case *ec2.CreateSecurityGroupInput:
		return &ec2.CreateSecurityGroupOutput{GroupId: d.note("sg-dry-run-" + aws.ToString(in.GroupName))}, nil
	case *elb.CreateLoadBalancerInput:
		return &elb.CreateLoadBalancerOutput{DNSName: aws.String(*d.note(aws.ToString(in.LoadBalancerName)) + ".dry-run.invalid")}, nil
	case *elbv2.CreateLoadBalancerInput:
		return d.balancer(ctx, in)
	case *elbv2.CreateTargetGroupInput:
		return &elbv2.CreateTargetGroupOutput{TargetGroups: []types.TargetGroup{{
			TargetGroupArn: d.note(madeUp + "targetgroup/" + aws.ToString(in.Name)), TargetGroupName: in.Name, Port: in.Port, Protocol: in.Protocol,
			VpcId: in.VpcId, TargetType: in.TargetType, IpAddressType: in.IpAddressType, HealthCheckProtocol: in.HealthCheckProtocol, HealthCheckPort: in.HealthCheckPort,
			HealthCheckPath: in.HealthCheckPath, HealthCheckIntervalSeconds: in.HealthCheckIntervalSeconds,
			HealthCheckTimeoutSeconds: in.HealthCheckTimeoutSeconds, HealthyThresholdCount: in.HealthyThresholdCount,
			UnhealthyThresholdCount: in.UnhealthyThresholdCount,
		}}}, nil
	case *elbv2.CreateListenerInput:
		arn := d.note(strings.Join([]string{madeUp + "listener", aws.ToString(in.LoadBalancerArn), string(in.Protocol), strconv.Itoa(int(aws.ToInt32(in.Port)))}, "/"))
		return &elbv2.CreateListenerOutput{Listeners: []types.Listener{{ListenerArn: arn, Port: in.Port, Protocol: in.Protocol,
			SslPolicy: in.SslPolicy, Certificates: in.Certificates, DefaultActions: in.DefaultActions}}}, nil
	case *elbv2.ModifyListenerInput:
		return &elbv2.ModifyListenerOutput{Listeners: []types.Listener{{ListenerArn: in.ListenerArn, Port: in.Port, Protocol: in.Protocol,
			SslPolicy: in.SslPolicy, Certificates: in.Certificates, DefaultActions: in.DefaultActions}}}, nil
	}
	return nil, nil
}

// balancer is a network load balancer that would be made.
func (d *dryRun) balancer(ctx context.Context, in *elbv2.CreateLoadBalancerInput) (*elbv2.CreateLoadBalancerOutput, error) {
	name := aws.ToString(in.Name)
	made := types.LoadBalancer{
		LoadBalancerArn: d.note(madeUp + "loadbalancer/" + name), LoadBalancerName: in.Name, DNSName: aws.String(name + ".dry-run.invalid"),
		Type: in.Type, Scheme: in.Scheme, IpAddressType: in.IpAddressType, SecurityGroups: in.SecurityGroups, State: &types.LoadBalancerState{Code: types.LoadBalancerStateEnumActive},
	}
	var ids []string
	for _, m := range in.SubnetMappings {
		ids = append(ids, aws.ToString(m.SubnetId))
		made.AvailabilityZones = append(made.AvailabilityZones, types.AvailabilityZone{SubnetId: m.SubnetId})
	}
	subnets, err := d.c.Subnets(ctx, Filter("subnet-id", ids...))
	if err != nil {
		return nil, err
	}
	if len(subnets) > 0 {
		made.VpcId = subnets[0].VpcId
	}
	return &elbv2.CreateLoadBalancerOutput{LoadBalancers: []types.LoadBalancer{made}}, nil
}

// read is the answer about what would have been made, of which AWS knows nothing; nil for all else.
func (d *dryRun) read(in any) (any, error) {
	var arn *string
	switch in := in.(type) {
	case *elb.DescribeLoadBalancerAttributesInput:
		if d.has(aws.ToString(in.LoadBalancerName)) {
			return &elb.DescribeLoadBalancerAttributesOutput{LoadBalancerAttributes: &classic.LoadBalancerAttributes{
				ConnectionSettings: &classic.ConnectionSettings{IdleTimeout: aws.Int32(60)}}}, nil
		}
	case *elbv2.DescribeListenersInput:
		arn = in.LoadBalancerArn
	case *elbv2.DescribeLoadBalancerAttributesInput:
		arn = in.LoadBalancerArn
	case *elbv2.DescribeTargetHealthInput:
		arn = in.TargetGroupArn
	case *elbv2.DescribeTargetGroupAttributesInput:
		arn = in.TargetGroupArn
	}
	if d.has(aws.ToString(arn)) {
		return nil, cloud.Errorf(cloud.KindNotFound, "dry run: %s was not made", *arn)
	}
	return nil, nil
}

// note notes the ID of something that would be made.
func (d *dryRun) note(id string) *string {
	d.made.Store(id, nil)
	return &id
}

func (d *dryRun) has(id string) bool {
	_, made := d.made.Load(id)
	return made
}

// WouldMake reports whether an ID is that of something that was not made, as this is a dry run.
func (c *Client) WouldMake(id string) bool { return c.dry != nil && c.dry.has(id) }

// DryRun reports whether nothing that changes the cloud is sent.
func (c *Client) DryRun() bool { return c.dry != nil }

// asIfDone is the empty answer to a change that was not sent.
func asIfDone[Out any](out Out, err error) (Out, error) {
	if !errors.Is(err, errNotSent) {
		return out, err
	}
	out, _ = reflect.New(reflect.TypeFor[Out]().Elem()).Interface().(Out)
	return out, nil
}
