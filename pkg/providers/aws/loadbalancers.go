package aws

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb"
	elbplan "github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2"
	nlbplan "github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

var (
	_ cloud.LoadBalancers = (*loadBalancers)(nil)
	_ cloud.Waiting       = (*loadBalancers)(nil)
)

// otherController serves the Services of the types nlb-ip and external.
const otherController = "aws-load-balancer-controller"

// kind is a type of load balancers.
type kind int

const (
	unknown kind = iota
	network
	classic
)

func (k kind) String() string {
	return [...]string{"load balancer", "network load balancer", "classic load balancer"}[k]
}

// balancers are the load balancers of one kind.
type balancers interface {
	cloud.LoadBalancers
	owner
	// Exists reports whether there is one for the Service, by what all Services share.
	Exists(ctx context.Context, ref cloud.LoadBalancerRef) (bool, error)
	Serves(ctx context.Context, ref cloud.LoadBalancerRef) (bool, error)
}

// loadBalancers gives each Service to the load balancers of the kind that it wants or has.
type loadBalancers struct {
	kinds   map[kind]balancers
	network *vpc.Network
	waits   []cloud.Waiting
}

// timing is how load balancers pass the time.
type timing struct {
	// joint is of what Services change together.
	joint joint.Options
	// pace is that of waiting for AWS.
	pace await.Pace
}

// newLoadBalancers makes them.
func newLoadBalancers(c *api.Client, cfg *config.Global, cluster func() string, t timing) *loadBalancers {
	net := vpc.New(c, cfg, cluster, t.joint)
	nlb := elbv2.New(c, cfg, net, t.pace)
	return &loadBalancers{
		kinds:   map[kind]balancers{network: nlb, classic: elb.New(c, cfg, cluster, net)},
		network: net,
		waits:   []cloud.Waiting{net, nlb},
	}
}

// Attach implements cloud.Waiting.
func (l *loadBalancers) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	for _, w := range l.waits {
		w.Attach(ctx, again)
	}
}

// Ensure implements cloud.LoadBalancers. A load balancer never becomes one of the other kind.
func (l *loadBalancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	if err := cloud.Refuse(cloud.KindInvalid, "", elsewhere(spec)); err != nil {
		return nil, err
	}
	switch k, has, err := l.served(ctx, spec); {
	case err != nil:
		return nil, err
	case has != k:
		return nil, &cloud.Error{Kind: cloud.KindInvalid, Err: otherKind(has, k)}
	default:
		return l.kinds[k].Ensure(ctx, spec)
	}
}

// served is the kind that a Service wants, and the one that it has. That is another one only where the cloud has it, too: the host name
// that the Service shows is what leads to asking. What is left of one that is gone goes with the Service.
func (l *loadBalancers) served(ctx context.Context, spec *cloud.LoadBalancerSpec) (wants, has kind, err error) {
	wants = wanted(spec)
	other := shown(spec.CurrentIngress)
	if other == unknown || other == wants {
		return wants, wants, nil
	}
	serves, err := l.kinds[other].Serves(ctx, spec.LoadBalancerRef)
	if err != nil || !serves {
		return wants, wants, err
	}
	return wants, other, nil
}

// UpdateMembers implements cloud.LoadBalancers.
func (l *loadBalancers) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	_, has, err := l.served(ctx, spec)
	if err != nil {
		return err
	}
	return l.kinds[has].UpdateMembers(ctx, spec)
}

// Delete implements cloud.LoadBalancers. The Service may want another kind by now than was made for it, and former versions of the
// existing manager left the old one then.
func (l *loadBalancers) Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	var first error
	for _, k := range []kind{network, classic} {
		err := l.delete(ctx, spec, k)
		if err != nil && (first == nil || cloud.KindOf(first) == cloud.KindRetryAfter) { // what is more than a wait counts
			first = err
		}
	}
	return first
}

// delete deletes all of one kind, as far as there is something left of it. Where the Service shows the other kind and wants it, too, there
// is hardly anything of this one: it is looked for first.
func (l *loadBalancers) delete(ctx context.Context, spec *cloud.LoadBalancerSpec, k kind) error {
	if shows := shown(spec.CurrentIngress); shows != unknown && shows != k && wanted(spec) != k {
		if exists, err := l.kinds[k].Exists(ctx, spec.LoadBalancerRef); err != nil || !exists {
			return err
		}
	}
	return l.kinds[k].Delete(ctx, spec)
}

// wanted is the kind that a Service wants.
func wanted(spec *cloud.LoadBalancerSpec) kind {
	if spec.Class == annotations.NLB || spec.Settings.String(annotations.Type, "") == annotations.NLB {
		return network
	}
	return classic
}

// isOthers reports whether a type is another controller's.
func isOthers(t string) bool { return t == annotations.NLBIP || t == annotations.External }

// elsewhere refuses a Service whose class is one of ours, but whose type is another controller's. Those without a class are left to
// that.
func elsewhere(spec *cloud.LoadBalancerSpec) field.ErrorList {
	t := spec.Settings.String(annotations.Type, "")
	if spec.Class == annotations.NLB || !isOthers(t) {
		return nil
	}
	return field.ErrorList{field.Invalid(cloud.AnnotationPath(annotations.Type), t,
		"this type is "+otherController+"'s, and spec.loadBalancerClass is not; use "+annotations.NLB+", or another class in a new Service")}
}

// region is how regions of all partitions are called.
var region = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)

// shown is the kind of the load balancer whose host name a Service shows: of network load balancers the region comes after "elb",
// of classic ones before, in all partitions. Addresses and names of others' tell nothing.
func shown(ingress []corev1.LoadBalancerIngress) kind {
	if len(ingress) == 0 {
		return unknown
	}
	labels := strings.Split(strings.ToLower(ingress[0].Hostname), ".")
	for i := 1; i < len(labels)-1; i++ {
		switch {
		case labels[i] != "elb":
		case region.MatchString(labels[i+1]):
			return network
		case region.MatchString(labels[i-1]):
			return classic
		}
	}
	return unknown
}

// otherKind says that a Service has another kind of load balancer than it wants.
func otherKind(has, k kind) error {
	return fmt.Errorf("annotation %s: the Service has a %s, which does not become a %s; take the change back, or delete the Service and make it anew",
		annotations.Type, has, k)
}

// checker implements cloud.Provider.CheckLoadBalancer.
func checker(cfg *config.Global) func(*cloud.LoadBalancerSpec) (field.ErrorList, []string) {
	return func(spec *cloud.LoadBalancerSpec) (problems field.ErrorList, warnings []string) {
		k := wanted(spec)
		if problems := elsewhere(spec); problems != nil {
			return problems, nil
		}
		if has := shown(spec.CurrentIngress); has != unknown && has != k {
			warnings = append(warnings, otherKind(has, k).Error())
		}
		var more []string
		if k == classic {
			problems, more = elbplan.Check(spec)
		} else {
			problems, more = nlbplan.Check(spec, cfg)
		}
		return problems, append(warnings, more...)
	}
}

// loadBalancingTraits are what the planner must know.
func loadBalancingTraits() cloud.LoadBalancerTraits {
	return cloud.LoadBalancerTraits{
		Reach: cloud.ByInstance, NodePorts: true,
		Eligible: func(n *corev1.Node) bool { // others than instances, as of Fargate, cannot be targets
			_, err := providerid.Parse(n.Spec.ProviderID)
			return err == nil || n.Spec.ProviderID == ""
		},
		Elsewhere: func(s *corev1.Service) string {
			if isOthers(s.Annotations[annotations.Type]) {
				return otherController
			}
			return ""
		},
		Classes: cloud.OwnClasses(Name, annotations.NLB),
	}
}
