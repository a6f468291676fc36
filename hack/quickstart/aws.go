package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// amazon plays on a simulated AWS.
type amazon struct {
	*world
	sim    *awssim.Sim
	region *ec2.Region
	table  string // of the pods' routes
	nodes  string // security group of the nodes
}

const (
	awsAccount = "111122223333"
	awsRegion  = "eu-central-1"
)

func playAWS(w *world) []step {
	a := &amazon{world: w}
	return []step{
		{"a simulated AWS with 3 instances in 3 zones", a.start},
		{"etcd and kube-apiserver", a.startCluster},
		{"the controller manager, as its instance's IAM role", a.startManager},
		{"nodes join and are initialized", a.nodesJoin},
		{"pod routes appear in the VPC's route table", a.routesAppear},
		{"a Service gets a name that reaches a backend", a.serviceWorks},
		{"an instance's stop is noticed", a.shutdownNoticed},
		{"an instance's termination is noticed", a.deletionNoticed},
		{"a PersistentVolume comes back labeled", a.volumeLabeled},
		{"a private image of ECR is pulled as the node", a.imagePulled},
		{"the Service's deletion leaves nothing in the cloud", a.serviceDeleted},
	}
}

// start starts the cloud with its instances. What the binaries may do there is the policy that ships, and what a node needs to
// pull images; they find their role by the metadata service, and the cluster's ID by their instance's tags.
func (a *amazon) start(context.Context) (string, error) {
	sim, err := awssim.Start(awssim.Options{Traffic: true})
	if err != nil {
		return "", err
	}
	a.onClose(func() error { sim.Close(); return nil })
	a.sim = sim
	actions, err := manifests.IAMActions()
	if err != nil {
		return "", err
	}
	sim.SetInstanceRole(sim.AddRole(awssim.Principal{Account: awsAccount, Name: "quickstart", Actions: append(actions, "ecr:*")}))
	region := sim.EC2(awsAccount, awsRegion)
	ours := map[string]string{"kubernetes.io/cluster/quickstart": "owned"}
	a.region, a.table = region, region.MainRouteTable(region.DefaultVPC().ID).ID
	if err := region.CreateTags([]string{a.table}, ours); err != nil {
		return "", err
	}
	a.nodes = region.AddSecurityGroup(ec2.SecurityGroup{VPCID: region.DefaultVPC().ID, Name: "nodes", Description: "nodes", Tags: ours}).ID
	a.scene = &scene{
		provider: "aws", region: awsRegion, env: sim.Env(), args: routed(), balances: true,
		annotations: map[string]string{"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}, resolve: sim.Resolve,
		calls:  func() int { return len(sim.Requests()) },
		stop:   func(_ context.Context, m machine) error { region.Stop(m.id); return nil },
		remove: func(_ context.Context, m machine) error { region.Terminate(m.id); return nil },
		volume: func(_ context.Context, zone string) (corev1.PersistentVolumeSource, error) {
			return csiVolume("ebs.csi.aws.com", region.AddVolume(ec2.Volume{Zone: zone}).ID), nil
		},
	}
	for _, zone := range region.Zones() {
		i := region.AddInstance(ec2.Instance{Zone: zone.Name, Tags: ours, Interfaces: []*ec2.NetworkInterface{{Groups: []string{a.nodes}}}})
		a.scene.machines = append(a.scene.machines, machine{i.ID, i.PrivateDNSName, "aws:///" + i.Zone + "/" + i.ID, i.Zone, i.PrivateIP})
	}
	sim.SetInstance(awsAccount, awsRegion, a.scene.machines[0].id)
	return "simulated: nothing of it is at Amazon; account " + awsAccount + ", " + awsRegion, nil
}

// routesAppear waits until the route table has a route for every node's pod CIDR.
func (a *amazon) routesAppear(ctx context.Context) (string, error) {
	var seen []string
	err := eventually(ctx, func(context.Context) error {
		tables, err := a.region.RouteTables([]string{a.table})
		if err != nil {
			return err
		}
		seen = nil
		for i, m := range a.scene.machines {
			want := ec2.Route{Destination: fmt.Sprintf("10.244.%d.0/24", i), InstanceID: m.id}
			if !slices.ContainsFunc(tables[0].Routes, func(r ec2.Route) bool { return r.Destination == want.Destination && r.InstanceID == want.InstanceID }) {
				return fmt.Errorf("no route %s to %s in %s: it has %+v", want.Destination, m.id, a.table, tables[0].Routes)
			}
			seen = append(seen, want.Destination+" to "+m.id)
		}
		return nil
	})
	return strings.Join(seen, ", "), err
}

// serviceDeleted deletes the Service and looks whether the cloud keeps anything of it.
func (a *amazon) serviceDeleted(ctx context.Context) (string, error) {
	if err := a.deleteService(ctx); err != nil {
		return "", err
	}
	balancers, err := a.sim.ELBv2(awsAccount, awsRegion).LoadBalancers(nil, nil)
	if err != nil {
		return "", err
	}
	groups, err := a.sim.ELBv2(awsAccount, awsRegion).TargetGroups(nil, nil, "")
	if err != nil {
		return "", err
	}
	security, err := a.region.SecurityGroups(nil)
	if err != nil {
		return "", err
	}
	rules := 0
	for _, g := range security {
		for _, r := range g.Rules {
			if g.ID == a.nodes && !r.Egress {
				rules++
			}
		}
	}
	if n := len(balancers) + len(groups) + rules; n > 0 {
		return "", fmt.Errorf("left in the cloud: %d load balancers, %d target groups, %d rules of the nodes' security group", len(balancers), len(groups), rules)
	}
	return "no load balancer, target group or rule of the nodes' security group left", nil
}

// imagePulled starts a private registry that takes what the simulated ECR gives, in the place of ECR's own, runs the credential
// provider as the kubelet does and pulls with what it answers.
func (a *amazon) imagePulled(ctx context.Context) (string, error) {
	host, err := a.startRegistry(ctx, a.sim.Registry(awsAccount, awsRegion))
	if err != nil {
		return "", err
	}
	image := awsAccount + ".dkr.ecr." + awsRegion + ".amazonaws.com/team/app"
	ref, err := name.NewTag(image+":v1", name.Insecure)
	if err != nil {
		return "", err
	}
	// ECR's name leads to the registry here.
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, host)
	}}
	defer transport.CloseIdleConnections()
	there := remote.WithTransport(transport)
	if _, err := remote.Image(ref, remote.WithContext(ctx), there); err == nil {
		return "", errors.New("the registry lets anonymous clients pull: this would show nothing")
	}
	auth, err := a.askPlugin(ctx, image, "--registries=ecr")
	if err != nil {
		return "", err
	}
	digest, err := push(ctx, ref, there, remote.WithAuth(auth))
	if err != nil {
		return "", err
	}
	got, err := remote.Image(ref, remote.WithContext(ctx), there, remote.WithAuth(auth))
	if err != nil {
		return "", err
	}
	pulled, err := got.Digest()
	if err == nil && pulled.String() != digest {
		err = fmt.Errorf("pulled %s, pushed %s", pulled, digest)
	}
	return ref.String(), err
}
