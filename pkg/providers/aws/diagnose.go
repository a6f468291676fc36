package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

// diagnosis implements cloud.Provider.Diagnose.
type diagnosis struct {
	c       *api.Client
	cfg     *config.Global
	id      *identity
	network *vpc.Network

	found cloud.Diagnosis
}

// diagnose makes one for each call: it keeps what one part finds for the next.
func diagnose(c *api.Client, cfg *config.Global, id *identity, network *vpc.Network) func(context.Context) (cloud.Diagnosis, error) {
	return func(ctx context.Context) (cloud.Diagnosis, error) {
		d := &diagnosis{c: c, cfg: cfg, id: id, network: network}
		err := d.run(ctx)
		return d.found, err
	}
}

func (d *diagnosis) problem(p cloud.Problem) { d.found.Problems = append(d.found.Problems, p) }
func (d *diagnosis) unseen(what string)      { d.found.Unseen = append(d.found.Unseen, what) }

// run makes all parts, also where one fails.
func (d *diagnosis) run(ctx context.Context) error {
	if _, err := d.id.identify(ctx, cloud.Cluster{}); err != nil {
		d.unseen("what has the cluster's tag: KubernetesClusterID is not set in cloud.conf, and the machine that this runs on is none of the cluster's")
	}
	dry, err := d.permitted(ctx, api.Reads())
	own, clockErr := d.endpoint(ctx)
	errs := []error{err, clockErr, d.balancers(ctx)}
	problems, scene, err := d.network.Diagnose(ctx)
	d.found.Problems = append(d.found.Problems, problems...)
	if err = d.unlessDenied(err); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if id := d.id.cluster(); id != "" && len(scene.Cluster) == 0 {
		d.problem(cloud.Problem{Object: "tag " + tags.Key(id), What: "no instance that runs in the VPC has it: Nodes are no targets of load balancers, and get no pod routes", Warning: true,
			Next: "tag the cluster's instances, or correct KubernetesClusterID in [Global] of cloud.conf"})
	}
	d.table(scene)
	errs = append(errs, d.changes(ctx, dry && own, scene))
	return errors.Join(errs...)
}

// unlessDenied leaves out what was denied: permitted has told which permission is missing.
func (d *diagnosis) unlessDenied(err error) error {
	if cloud.KindOf(err) == cloud.KindDenied {
		d.unseen(fmt.Sprintf("what needs a permission that is missing: %v", err))
		return nil
	}
	return err
}

// permitted asks EC2 of each trial whether it would be allowed. dry is false where the endpoint does not know dry runs.
func (d *diagnosis) permitted(ctx context.Context, trials []api.Trial) (dry bool, err error) {
	for _, t := range trials {
		err := d.c.Try(ctx, t)
		switch kind := cloud.KindOf(err); {
		case err == nil:
		case errors.Is(err, api.ErrNotDry):
			return false, nil
		case kind == cloud.KindDenied:
			d.problem(cloud.Problem{Object: "permission " + t.Action, What: err.Error(), Next: "give the identity of cloud.conf the policy that ships: manifests/overlays/aws/iam-policy.json"})
		case kind == cloud.KindUnavailable || kind == cloud.KindThrottled || ctx.Err() != nil:
			return true, err
		default: // EC2 has said something else first
			d.unseen(fmt.Sprintf("whether %s is allowed: %v", t.Action, err))
		}
	}
	return true, nil
}

// changes asks whether what is changed in EC2 would be allowed. What has not the cluster's mark is not tried on: policies may tell it apart.
func (d *diagnosis) changes(ctx context.Context, dry bool, s vpc.Scene) error {
	const balancing = "whether load balancers may be made, changed and deleted (elasticloadbalancing:…, iam:CreateServiceLinkedRole): AWS tells only who tries; compare the policy that ships"
	if !dry {
		d.unseen("whether security groups, routes and load balancers may be changed: the endpoint of EC2 is not AWS' own, or does not know dry runs")
		return nil
	}
	d.unseen(balancing)
	var o api.Objects
	var err error
	if o.VPC, err = d.network.ID(ctx); err != nil {
		return d.unlessDenied(err)
	}
	if len(s.Groups) > 0 {
		o.Group = s.Groups[0]
	}
	if d.cfg.DisableSGIngress {
		o.Group = ""
	}
	switch {
	case d.cfg.RouteTableID != "" && slices.Contains(s.Tables, d.cfg.RouteTableID):
		o.Table = d.cfg.RouteTableID
	case len(s.Tagged) == 1:
		o.Table = s.Tagged[0]
	default:
		d.unseen("whether pod routes may be set: no single route table has the cluster's tag")
	}
	if len(s.Cluster) > 0 {
		o.Instance = s.Cluster[0]
	}
	_, err = d.permitted(ctx, api.Changes(o, tags.New(d.id.cluster(), d.cfg.KubernetesClusterTag != "", nil)))
	return err
}

// table looks at the route table that cloud.conf names.
func (d *diagnosis) table(s vpc.Scene) {
	if id := d.cfg.RouteTableID; id != "" && !slices.Contains(s.Tables, id) {
		d.problem(cloud.Problem{Object: "route table " + id, What: "RouteTableID in [Global] of cloud.conf names it, and the VPC has no such table: there are no pod routes",
			Next: "correct RouteTableID, or leave it out and give the cluster's table the tag " + tags.Key(d.id.cluster())})
	}
	if d.cfg.RouteTableID == "" && len(s.Tagged) > 1 {
		d.problem(cloud.Problem{Object: "route tables " + s.Tagged[0] + ", " + s.Tagged[1], What: "several have the cluster's tag: pod routes are set in none", Warning: true,
			Next: "where the controller manager sets pod routes, name one by RouteTableID in [Global] of cloud.conf"})
	}
}

// mostSkew is how far clocks may be apart: AWS refuses what was signed more than five minutes ago or ahead.
const mostSkew = time.Minute

// endpoint compares clocks, and returns whether it is AWS' own that answers.
func (d *diagnosis) endpoint(ctx context.Context) (own bool, err error) {
	e, err := d.c.Endpoint(ctx)
	if err != nil {
		return false, d.unlessDenied(err)
	}
	if skew := e.Skew; skew.Abs() >= mostSkew {
		d.problem(cloud.Problem{Object: "this machine's clock", What: fmt.Sprintf("it differs from AWS' by %s; from 5 minutes on AWS refuses all requests", skew.Abs().Round(time.Second)), Warning: true,
			Next: "have the clocks of this machine and of the controller manager's set by NTP"})
	}
	return e.Own, nil
}

// balancers compares how many load balancers there are with the account's limits.
func (d *diagnosis) balancers(ctx context.Context) error {
	classic, err := d.c.ClassicBalancers(ctx)
	if err != nil {
		return d.deniedBalancing(err)
	}
	all, err := d.c.Balancers(ctx)
	if err != nil {
		return d.deniedBalancing(err)
	}
	groups, err := d.c.TargetGroups(ctx)
	if err != nil {
		return d.deniedBalancing(err)
	}
	limits, err := d.c.Limits(ctx)
	if kind := cloud.KindOf(err); err != nil && kind != cloud.KindUnavailable && ctx.Err() == nil {
		d.unseen("quotas of load balancers: " + err.Error())
		return nil
	} else if err != nil {
		return err
	}
	nlbs := 0
	for i := range all {
		if all[i].Type == elbtypes.LoadBalancerTypeEnumNetwork {
			nlbs++
		}
	}
	for _, x := range []struct {
		name string
		used int
	}{{"classic-load-balancers", len(classic)}, {"network-load-balancers", nlbs}, {"target-groups", len(groups)}} {
		if most, ok := limits[x.name]; ok && x.used >= most {
			d.problem(cloud.Problem{Object: "quota " + x.name, What: fmt.Sprintf("%d of %d are used in the region: no further one can be made", x.used, most), Warning: true,
				Next: "delete what nobody needs, or have the quota raised (Service Quotas)"})
		}
	}
	return nil
}

// deniedBalancing makes a problem of a read of load balancers that is denied.
func (d *diagnosis) deniedBalancing(err error) error {
	if cloud.KindOf(err) != cloud.KindDenied {
		return err
	}
	d.problem(cloud.Problem{Object: "Elastic Load Balancing", What: err.Error() + ": Services of type LoadBalancer are not served", Next: "give the identity of cloud.conf the policy that ships: manifests/overlays/aws/iam-policy.json"})
	return nil
}
