package openstack

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/cinder"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/nova"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/router"
)

// Name is the value of --cloud-provider.
const Name = providerid.Name

// regionalEnv, set to "true", makes provider IDs name their region.
const regionalEnv = "OS_CCM_REGIONAL"

var _ cloud.Factory = New

// Annotations is the vocabulary of Service annotations, as the reference documents it.
func Annotations() []cloud.Annotation { return plan.Annotations(&config.LoadBalancer{}) }

// New implements cloud.Factory for OpenStack. Without a configuration file the credentials
// come from clouds.yaml or the environment, and everything else has its default.
func New(ctx context.Context, configFile string, o cloud.Options) (*cloud.Provider, []string, error) {
	var data []byte
	if configFile != "" {
		var err error
		if data, err = os.ReadFile(configFile); err != nil {
			return nil, nil, fmt.Errorf("read cloud config: %w", err)
		}
	}
	cfg, warnings, err := config.Parse(configFile, data)
	if err != nil {
		return nil, warnings, err
	}
	ao := auth.Options{ConfigFile: configFile, UserAgent: o.UserAgent, RequestTimeout: o.RequestTimeout, Expires: o.Expires,
		Begin: api.Begin(o.Traffic)} //nolint:bodyclose // it makes no request
	if t := time.Duration(cfg.Metadata.RequestTimeout); t > 0 && ao.RequestTimeout <= 0 {
		ao.RequestTimeout = t
	}
	if o.DryRun {
		ao.Intercept = api.NewDryRun(klog.FromContext(ctx)).Intercept
	}
	k := &keeper{file: configFile, cfg: cfg, loginExpires: o.LoginExpires, reloaded: make(chan struct{}, 1)}
	ao.Reloaded = k.afterReload(o.Reloaded)
	s, err := auth.New(cfg.Global, ao)
	if err != nil {
		return nil, warnings, err
	}
	c, regional := api.New(s), os.Getenv(regionalEnv) == "true"
	c.Kept = o.Kept
	p := compose(c, cfg, regional)
	k.session = s
	p.Ready, p.Run = k.ready, k.run
	p.Diagnose = (&diagnosis{client: c, cfg: cfg, loginExpiry: s.LoginExpiry}).run
	if len(cfg.Region) > 0 {
		if err := checkRegions(configFile, s.Region(), cfg); err != nil {
			return nil, warnings, err
		}
		joinRegions(p, cfg, s)
	}
	return p, warnings, nil
}

// compose makes the provider of what the configuration turns on.
func compose(c *api.Client, cfg *config.Config, regional bool) *cloud.Provider {
	instances := nova.New(c, cfg, regional)
	p := &cloud.Provider{
		Name:      Name,
		Settings:  cfg.Settings(),
		Instances: instances,
		Owns:      providerid.Owns,
		Volumes:   cinder.New(c, cfg.BlockStorage.IgnoreVolumeAZ),
	}
	if lb := &cfg.LoadBalancer; lb.Enabled {
		balancers := octavia.New(c, cfg, instances.Exists)
		p.LoadBalancers, p.Inventory, p.Annotations = balancers, balancers, plan.Annotations(lb)
		p.CheckLoadBalancer = func(spec *cloud.LoadBalancerSpec) (field.ErrorList, []string) { return plan.Check(cfg, spec) }
		p.LoadBalancing = cloud.LoadBalancerTraits{
			Reach: cloud.ByAnyIP, NodePorts: true, Classes: cloud.OwnClasses(Name, plan.ClassNames(cfg.LoadBalancerClass)...),
		}
	}
	if len(cfg.Route.RouterID) > 0 {
		p.Routes = router.New(c, cfg.Route.RouterID)
	}
	return p
}
