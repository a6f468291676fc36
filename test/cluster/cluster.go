package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// Options of a cluster.
type Options struct {
	// Dir is a folder for all that is written; it must be there.
	Dir string
	// Workers is how many machines there are besides that of the control plane, which is a Node, too.
	Workers int
	// Say tells what happens; nil for nobody.
	Say io.Writer
}

// Cluster is a running cluster. Its methods are not to be called concurrently.
type Cluster struct {
	// Cloud is the simulated OpenStack.
	Cloud *openstack.Sim
	// Registry is a private registry that all machines reach.
	Registry *Registry
	// Machines are the control plane's, which is the first, and the workers.
	Machines []*Machine
	// Config and Client have all rights; Kubeconfig is a file for them.
	Config     *rest.Config
	Client     *kubernetes.Clientset
	Kubeconfig string

	env    *environment
	ca     *authority
	router *router
	// machines is how many there ever were.
	machines int
}

// Start starts a cluster, whose Nodes are there but not ready: they wait for a cloud controller manager. The
// caller must Stop it. The error is ErrKernel where the kernel is what it fails for.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Say == nil {
		o.Say = io.Discard
	}
	env, err := newEnvironment(o.Dir, o.Say)
	if err != nil {
		return nil, err
	}
	c := &Cluster{env: env}
	if err := c.start(ctx, o); err != nil {
		return nil, errors.Join(err, c.Stop()) //nolint:contextcheck // the power goes off also where ctx has ended
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, o Options) (err error) {
	if err := checkKernel(ctx, c.env, features()); err != nil {
		return err
	}
	if c.ca, err = newAuthority(); err != nil {
		return err
	}
	if err := c.startCloud(ctx, 1+o.Workers); err != nil {
		return err
	}
	if c.Registry, err = startRegistry(ctx, c.env, c.ca); err != nil {
		return err
	}
	if c.Config, err = c.ca.client(c.server(), "admin", "system:masters"); err != nil {
		return err
	}
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return err
	}
	c.Kubeconfig = filepath.Join(c.env.dir, "kubeconfig")
	if err := controlplane.WriteKubeconfig(c.Kubeconfig, c.Config); err != nil {
		return err
	}
	for _, m := range c.Machines {
		if err := c.install(ctx, m); err != nil {
			return err
		}
	}
	return c.labelControlPlane(ctx)
}

// install boots a new machine, puts onto it what it needs, and starts what it runs.
func (c *Cluster) install(ctx context.Context, m *Machine) error {
	if err := m.powerOn(ctx); err != nil {
		return err
	}
	if m == c.Machines[0] {
		if err := c.writeControlPlane(m); err != nil {
			return err
		}
	}
	if err := c.writeNode(m); err != nil {
		return err
	}
	if err := c.installProvider(ctx, m); err != nil {
		return fmt.Errorf("credential provider of %s: %w", m.Name, err)
	}
	return c.startMachine(ctx, m)
}

// Add adds a worker: a new server in the cloud, and a machine for it.
func (c *Cluster) Add(ctx context.Context) (*Machine, error) {
	s := c.Cloud.SeedServers(openstack.Seed{Count: 1, NamePrefix: fmt.Sprintf("node-%d-", c.machines), Zones: []string{"az2"}})[0]
	m := newMachine(c.env, s.Name, c.machines, s.Addresses[0])
	c.machines++
	c.Machines = append(c.Machines, m)
	if err := c.env.run(ctx, "ip", "route", "del", "local", m.Address.String(), "dev", "lo"); err != nil {
		return m, err
	}
	return m, c.install(ctx, m)
}

// Remove switches a machine off for good, and deletes its server.
func (c *Cluster) Remove(m *Machine) error {
	c.Machines = slices.DeleteFunc(c.Machines, func(x *Machine) bool { return x == m })
	err := m.PowerOff()
	for _, s := range c.Cloud.Snapshot().Servers {
		if s.Name == m.Name && !c.Cloud.DeleteServer(s.ID) {
			err = errors.Join(err, fmt.Errorf("the cloud has no server %s", s.ID))
		}
	}
	return err
}

// startCloud starts the simulated cloud with a server for each machine, and its network.
func (c *Cluster) startCloud(ctx context.Context, machines int) error {
	// The address of the router is the API's as well.
	if err := makeNetwork(ctx, c.env); err != nil {
		return fmt.Errorf("the cloud's network: %w", err)
	}
	cloud, err := openstack.Start(openstack.Options{Addresses: addresses, Listen: netip.AddrPortFrom(gateway, 5000).String()})
	if err != nil {
		return err
	}
	c.Cloud = cloud
	for i, s := range cloud.SeedServers(openstack.Seed{Count: machines, NamePrefix: "node-", Zones: []string{"az1", "az2"}}) {
		c.Machines = append(c.Machines, newMachine(c.env, s.Name, i, s.Addresses[0]))
	}
	c.machines = machines
	if err := giveAddresses(ctx, c.env, c.Machines); err != nil {
		return fmt.Errorf("the cloud's network: %w", err)
	}
	c.router = startRouter(ctx, c.env, cloud)
	return nil
}

// startMachine starts all that a machine runs, as its init system does after a boot.
func (c *Cluster) startMachine(ctx context.Context, m *Machine) error {
	if m == c.Machines[0] {
		if err := c.startControlPlane(ctx, m); err != nil {
			return err
		}
	}
	return c.startNode(ctx, m)
}

// Boot boots a machine whose power is off, and starts what it runs.
func (c *Cluster) Boot(ctx context.Context, m *Machine) error {
	if err := m.powerOn(ctx); err != nil {
		return err
	}
	return c.startMachine(ctx, m)
}

// Logs is the folder with what all programs wrote, a file for each and each boot.
func (c *Cluster) Logs() string { return c.env.logs() }

// Kubectl runs kubectl with an input.
func (c *Cluster) Kubectl(ctx context.Context, in string, args ...string) (string, error) {
	return c.env.output(ctx, strings.NewReader(in), "kubectl", append([]string{"--kubeconfig=" + c.Kubeconfig}, args...)...)
}

// Dump writes the cluster's objects into Logs.
func (c *Cluster) Dump(ctx context.Context) error {
	out, err := c.Kubectl(ctx, "", "get", "-A", "-o", "yaml", "nodes,pods,services,endpointslices,deployments,leases,events,pv")
	return errors.Join(err, os.WriteFile(filepath.Join(c.Logs(), "objects.yaml"), []byte(out), 0o644))
}

// Stop ends everything.
func (c *Cluster) Stop() error {
	var errs []error
	for _, m := range c.Machines {
		errs = append(errs, m.PowerOff())
	}
	if c.Registry != nil {
		c.Registry.close()
	}
	if c.router != nil {
		c.router.close()
	}
	if c.Cloud != nil {
		c.Cloud.Close()
	}
	return errors.Join(errs...)
}
