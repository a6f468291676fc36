package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	provider "github.com/isthmus-cloud/isthmus/pkg/providers/aws"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// clusterID is the cluster's in tags.
const clusterID = "conformance"

func clusterTags() map[string]string {
	return map[string]string{"kubernetes.io/cluster/" + clusterID: "owned"}
}

// World is an account's region with a VPC, whose main route table is the cluster's.
type World struct {
	sim    *awssim.Sim
	region *ec2.Region
	subnet *ec2.Subnet
	table  string
	dir    string // of cloud.conf

	// env is locked while providers are made: they take the environment's credentials.
	env sync.Mutex
	mu  sync.Mutex
	ips int // of IPv6 that were given
}

var _ cloudtest.World = (*World)(nil)

// New makes the World in a subnet of a VPC. The environment leads to the simulator, with credentials.
func New(sim *awssim.Sim, region *ec2.Region, subnet *ec2.Subnet, dir string) (*World, error) {
	w := &World{sim: sim, region: region, subnet: subnet, table: region.MainRouteTable(subnet.VPCID).ID, dir: dir}
	return w, region.CreateTags([]string{w.table}, clusterTags())
}

// Setup is the suite's setup of this World.
func (w *World) Setup() cloudtest.Setup {
	return cloudtest.Setup{New: w.start, NewDenied: w.startDenied, World: w, Unsupported: Unsupported(), Untried: Untried()}
}

// startDenied makes a provider with a secret that is not its key's.
func (w *World) startDenied(o cloud.Options) (*cloud.Provider, func(), error) {
	const secret = "AWS_SECRET_ACCESS_KEY"
	w.env.Lock()
	defer w.env.Unlock()
	right := os.Getenv(secret)
	if err := os.Setenv(secret, "not-"+right); err != nil {
		return nil, nil, err
	}
	p, stop, err := w.make(o)
	return p, stop, errors.Join(err, os.Setenv(secret, right))
}

func (w *World) start(o cloud.Options) (*cloud.Provider, func(), error) {
	w.env.Lock()
	defer w.env.Unlock()
	return w.make(o)
}

// make makes the provider as the program does.
func (w *World) make(o cloud.Options) (*cloud.Provider, func(), error) {
	file := filepath.Join(w.dir, "cloud.conf")
	conf := "[Global]\nRegion = " + w.region.Name() + "\nKubernetesClusterID = " + clusterID + "\nVPC = " + w.subnet.VPCID + "\nSubnetID = " + w.subnet.ID +
		"\nNodeIPFamilies = ipv4\nNodeIPFamilies = ipv6\n"
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, nil, err
	}
	o.RequestTimeout = 30 * time.Second
	p, _, err := provider.New(context.Background(), file, o)
	if err != nil {
		return nil, nil, err
	}
	policy := caller.Policy{Attempts: 2, BackoffBase: 100 * time.Millisecond}
	d, err := decorate.New(p, caller.Options{Reads: policy, Mutations: policy})
	if err != nil {
		return nil, nil, err
	}
	// The contract is the cloud's; the guard on deletions, which decorate puts before it, answers for many Nodes.
	d.Instances = p.Instances
	return &d.Provider, d.Close, nil
}

// MakeInstance implements cloudtest.World.
func (w *World) MakeInstance(_ context.Context, name string) (cloudtest.Instance, error) {
	w.mu.Lock()
	w.ips++
	ip := fmt.Sprintf("fd00::%x", w.ips)
	w.mu.Unlock()
	tags := clusterTags()
	tags["Name"] = name
	i := w.region.AddInstance(ec2.Instance{SubnetID: w.subnet.ID, Tags: tags, Interfaces: []*ec2.NetworkInterface{{IPv6: []string{ip}}}})
	out := cloudtest.Instance{Ref: cloud.InstanceRef{NodeName: i.PrivateDNSName, ProviderID: "aws:///" + i.Zone + "/" + i.ID}, Zone: i.Zone}
	for _, text := range []string{i.PrivateIP, ip} {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return out, err
		}
		out.Addresses = append(out.Addresses, a)
	}
	return out, nil
}

func idOf(providerID string) string { return providerID[strings.LastIndexByte(providerID, '/')+1:] }

// StopInstance implements cloudtest.World.
func (w *World) StopInstance(_ context.Context, i cloudtest.Instance) error {
	w.region.Stop(idOf(i.Ref.ProviderID))
	return nil
}

// DeleteInstance implements cloudtest.World.
func (w *World) DeleteInstance(_ context.Context, i cloudtest.Instance) error {
	w.region.Terminate(idOf(i.Ref.ProviderID))
	return nil
}

// UnknownID implements cloudtest.World.
func (w *World) UnknownID() string { return "aws:///" + w.region.Name() + "a/i-0fedcba9876543210" }

// ForeignID implements cloudtest.World.
func (w *World) ForeignID() string { return "openstack:///8a2f1b0e-4b57-4a55-9d52-0f4bb5a1c111" }

// AddRoute implements cloudtest.World.
func (w *World) AddRoute(_ context.Context, r cloud.Route) error {
	return w.region.CreateRoute(w.table, ec2.Route{Destination: r.Destination.String(), InstanceID: idOf(r.Target)}, r.Destination.Addr().Is6())
}

// RemoveRoute implements cloudtest.World.
func (w *World) RemoveRoute(_ context.Context, r cloud.Route) error {
	return w.region.DeleteRoute(w.table, r.Destination.String())
}

// Routes implements cloudtest.World.
func (w *World) Routes(context.Context) ([]cloud.Route, error) {
	tables, err := w.region.RouteTables([]string{w.table})
	if err != nil {
		return nil, err
	}
	var out []cloud.Route
	for _, r := range w.region.Routes(tables[0]) {
		destination, err := netip.ParsePrefix(r.Destination)
		if err != nil {
			return nil, err
		}
		route := cloud.Route{Destination: destination, Blackhole: r.State == "blackhole"}
		switch {
		case r.InstanceID == "" || r.Local:
			continue
		case !route.Blackhole:
			found, err := w.region.Instances([]string{r.InstanceID})
			if err != nil {
				return nil, err
			}
			route.Target = "aws:///" + found[0].Zone + "/" + r.InstanceID
		}
		out = append(out, route)
	}
	return out, nil
}

// MakeVolume implements cloudtest.World.
func (w *World) MakeVolume(context.Context) (*corev1.PersistentVolume, string, error) {
	v := w.region.AddVolume(ec2.Volume{})
	pv := &corev1.PersistentVolume{}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: v.ID}
	return pv, v.Zone, nil
}

// DeleteVolume implements cloudtest.World.
func (w *World) DeleteVolume(_ context.Context, pv *corev1.PersistentVolume) error {
	w.region.RemoveVolume(pv.Spec.CSI.VolumeHandle)
	return nil
}

// Throttle implements cloudtest.World.
func (w *World) Throttle() (undo func(), reason string) {
	ofEC2 := w.sim.AddFault(awssim.Fault{Service: "ec2", Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "Request limit exceeded."})
	var others []func()
	for _, service := range []string{"elb", "elbv2"} {
		others = append(others, w.sim.AddFault(awssim.Fault{Service: service, Status: http.StatusBadRequest, Code: "Throttling", Message: "Rate exceeded"}))
	}
	return func() {
		ofEC2()
		for _, f := range others {
			f()
		}
	}, ""
}

// Left implements cloudtest.World: load balancers and their security groups, by their tags and by the name that follows from the UID.
func (w *World) Left(_ context.Context, ref cloud.LoadBalancerRef) ([]string, error) {
	const service = "kubernetes.io/service-name"
	name := ("a" + strings.ReplaceAll(ref.UID, "-", ""))[:32]
	var out []string
	balancers, err := w.sim.ELBv2(w.region.Account(), w.region.Name()).LoadBalancers(nil, nil)
	for _, b := range balancers {
		if b.Name == name || b.Tags[service] == ref.Namespace+"/"+ref.Name {
			out = append(out, "load balancer "+b.ARN)
		}
	}
	classic, classicErr := w.sim.ELB(w.region.Account(), w.region.Name()).LoadBalancers(nil)
	for _, b := range classic {
		if b.Name == name || b.Tags[service] == ref.Namespace+"/"+ref.Name {
			out = append(out, "classic load balancer "+b.Name)
		}
	}
	groups, groupsErr := w.region.SecurityGroups(nil)
	for _, g := range groups {
		if strings.Contains(g.Name, name) {
			out = append(out, "security group "+g.ID)
		}
	}
	return out, errors.Join(err, classicErr, groupsErr)
}

// Everything implements cloudtest.World.
func (w *World) Everything(ctx context.Context) ([]string, error) {
	instances, err := w.region.Instances(nil)
	routes, routesErr := w.Routes(ctx)
	groups, groupsErr := w.region.SecurityGroups(nil)
	balancers, balancersErr := w.sim.ELBv2(w.region.Account(), w.region.Name()).LoadBalancers(nil, nil)
	var out []string
	for _, i := range instances {
		if i.State != ec2.Terminated { // one that is gone is shown for a while
			out = append(out, "instance "+i.ID)
		}
	}
	for _, r := range routes {
		out = append(out, fmt.Sprintf("route %s via %s", r.Destination, r.Hop()))
	}
	for _, g := range groups {
		out = append(out, "security group "+g.ID+" "+g.Name)
	}
	for _, b := range balancers {
		out = append(out, "load balancer "+b.ARN)
	}
	return out, errors.Join(err, routesErr, groupsErr, balancersErr)
}
