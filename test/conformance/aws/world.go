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
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

// ClusterID is the cluster's in tags.
const ClusterID = "conformance"

func clusterTags() map[string]string {
	return map[string]string{"kubernetes.io/cluster/" + ClusterID: "owned"}
}

// Kind is a kind of load balancers.
type Kind string

// The kinds of load balancers that Services choose from.
const (
	Network Kind = "network"
	Classic Kind = "classic"
)

// World is an account's region with a VPC that is reached from outside by both IP families, whose main route table is the cluster's, and a security group of the
// Nodes.
type World struct {
	Kind
	sim    *awssim.Sim
	region *ec2.Region
	elb    *elb.Region
	elbv2  *elbv2.Region
	subnet *ec2.Subnet
	table  string
	nodes  string // the security group
	more   string // lines of cloud.conf
	dir    string // of cloud.conf

	// env is locked while providers are made: they take the environment's credentials.
	env sync.Mutex
	mu  sync.Mutex
	ips int // of IPv6 that were given
}

var (
	_ cloudtest.World    = (*World)(nil)
	_ cloudtest.Resolver = (*World)(nil)
)

// Options configures a World.
type Options struct {
	// Kind is that of the load balancers.
	Kind Kind
	// Conf are more lines of [Global] of cloud.conf.
	Conf string
	// Dir is for the provider's configuration.
	Dir string
}

// New makes the World in a subnet of a VPC. The environment leads to the simulator, with credentials.
func New(sim *awssim.Sim, region *ec2.Region, subnet *ec2.Subnet, o Options) (*World, error) {
	account, name := region.Account(), region.Name()
	w := &World{sim: sim, region: region, elb: sim.ELB(account, name), elbv2: sim.ELBv2(account, name), Kind: o.Kind, subnet: subnet,
		table: region.MainRouteTable(subnet.VPCID).ID, more: o.Conf, dir: o.Dir}
	for _, everywhere := range []string{"0.0.0.0/0", "::/0"} {
		region.AddRoute(w.table, ec2.Route{Destination: everywhere, GatewayID: "igw-0123456789abcdef0"})
	}
	subnets, err := region.Subnets(nil)
	if err != nil {
		return nil, err
	}
	for n, s := range subnets {
		if s.VPCID == subnet.VPCID {
			region.SetSubnetIPv6(s.ID, fmt.Sprintf("2001:db8:0:%x::/64", n))
		}
	}
	w.nodes = region.AddSecurityGroup(ec2.SecurityGroup{VPCID: subnet.VPCID, Name: "nodes", Description: "Nodes", Tags: clusterTags()}).ID
	return w, region.CreateTags([]string{w.table}, clusterTags())
}

// Setup is the suite's setup of this World.
func (w *World) Setup() cloudtest.Setup {
	return cloudtest.Setup{New: w.start, NewDenied: w.startDenied, World: w, Unsupported: Unsupported(w.Kind), Annotations: w.Annotations(),
		Remembers: w.Kind == Network}
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

func (w *World) make(o cloud.Options) (*cloud.Provider, func(), error) {
	conf := "[Global]\nRegion = " + w.region.Name() + "\nKubernetesClusterID = " + ClusterID + "\nVPC = " + w.subnet.VPCID + "\nSubnetID = " + w.subnet.ID +
		"\nNodeIPFamilies = ipv4\nNodeIPFamilies = ipv6\n" + w.more
	return Make(w.dir, conf, o, caller.Policy{Attempts: 2, BackoffBase: 100 * time.Millisecond})
}

// Make makes the provider as the program does, of a cloud.conf that it writes into dir; policy is that of all calls.
func Make(dir, conf string, o cloud.Options, policy caller.Policy) (*cloud.Provider, func(), error) {
	file := filepath.Join(dir, "cloud.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, nil, err
	}
	o.RequestTimeout = 30 * time.Second
	p, _, err := provider.New(context.Background(), file, o)
	if err != nil {
		return nil, nil, err
	}
	d, err := decorate.New(p, caller.Options{Reads: policy, Mutations: policy})
	if err != nil {
		return nil, nil, err
	}
	// The contract is the cloud's; the guard on deletions, which decorate puts before it, answers for many Nodes.
	d.Instances = p.Instances
	return &d.Provider, d.Close, nil
}

// MakeInstance implements cloudtest.World. The name has no address, by which a Node is found, too, whatever else is in its name.
func (w *World) MakeInstance(_ context.Context, name string) (cloudtest.Instance, error) {
	w.mu.Lock()
	w.ips++
	ip := fmt.Sprintf("fd00::%x", w.ips)
	w.mu.Unlock()
	tags := clusterTags()
	tags["Name"] = name
	i := w.region.AddInstance(ec2.Instance{SubnetID: w.subnet.ID, Tags: tags, PrivateDNSName: name + ".example.internal", Interfaces: []*ec2.NetworkInterface{{IPv6: []string{ip}, PrimaryIPv6: true, Groups: []string{w.nodes}}}})
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
