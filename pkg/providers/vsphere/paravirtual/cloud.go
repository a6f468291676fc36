package paravirtual

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/instances"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/loadbalancers"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/routes"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/supervisor"
)

// Name is the value of --cloud-provider. Provider IDs begin with that of the other mode.
const Name = "vsphere-paravirtual"

var _ cloud.Factory = New

// New implements cloud.Factory for a guest cluster of a vSphere Supervisor. Without a file everything has its default.
func New(ctx context.Context, configFile string, o cloud.Options) (*cloud.Provider, []string, error) {
	var data []byte
	if configFile != "" {
		var err error
		if data, err = os.ReadFile(configFile); err != nil { //nolint:gosec // the user's own
			return nil, nil, fmt.Errorf("read cloud config: %w", err)
		}
	}
	cfg, err := config.Parse(configFile, data, os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	c, err := supervisor.New(ctx, &cfg.Supervisor, o)
	if err != nil {
		return nil, nil, err
	}
	machines := instances.Resource(cfg.Supervisor.VMOperatorAPIVersion)
	balancers := loadbalancers.New(c, cfg)
	p := &cloud.Provider{
		Name:              Name,
		Settings:          cfg.Settings(),
		Instances:         instances.New(c, cfg),
		Owns:              instances.Owns,
		LoadBalancers:     balancers,
		Inventory:         balancers,
		CheckLoadBalancer: balancers.Check,
		LoadBalancing:     cloud.LoadBalancerTraits{NodePorts: true, Classes: cloud.OwnClasses(Name)},
		Identify: func(_ context.Context, cluster cloud.Cluster) (string, error) {
			return identify(cluster, c.Owner())
		},
		Ready: cloud.ReadyOnce(func(ctx context.Context) error { return c.Check(ctx, machines) }),
	}
	p.Diagnose = (&diagnosis{client: c, cfg: cfg, machines: machines, balancers: balancers.Resource()}).run
	if cfg.Cluster.Routes {
		p.Routes, p.Routing = routes.New(c, &cfg.Cluster), routes.Traits()
	}
	return p, nil, nil
}

// identify is the UID of the guest cluster's object. A cluster's name that was never set would make second load balancers beside
// those that there are.
func identify(cluster cloud.Cluster, owner metav1.OwnerReference) (string, error) {
	const unset = "kubernetes" // the flag's default
	if cluster.Name == unset && owner.Name != unset {
		return "", cloud.Errorf(cloud.KindInvalid, "--cluster-name is %s, which is its default, but the guest cluster's object in the Supervisor is %s %s: set the flag as the existing manager has it", unset, owner.Kind, owner.Name)
	}
	return string(owner.UID), nil
}
