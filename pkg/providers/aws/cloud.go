package aws

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/instances"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/routes"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/volumes"
)

// Name is the value of --cloud-provider.
const Name = providerid.Name

// newborn is how long EC2 may not know of an instance that it has made: its reads lag behind.
const newborn = 5 * time.Minute

var _ cloud.Factory = New

// New implements cloud.Factory for AWS. Without a configuration file everything has its default: credentials are those of the
// environment, the AWS config files or the machine, and so is the region.
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
	c, err := api.New(ctx, cfg, o)
	if err != nil {
		return nil, warnings, err
	}
	id := newIdentity(c, &cfg.Global)
	balancers := newLoadBalancers(c, &cfg.Global, id.cluster, timing{pace: await.DefaultPace()})
	found := instances.New(c, &cfg.Global, id.cluster, balancers.network.ID)
	return &cloud.Provider{
		Name:      Name,
		Settings:  cfg.Settings(),
		Instances: found,
		Owns:      providerid.Owns,
		Newborn:   newborn,

		LoadBalancers:     balancers,
		Annotations:       annotations.Table(),
		CheckLoadBalancer: checker(&cfg.Global),
		LoadBalancing:     loadBalancingTraits(),
		Inventory:         balancers,

		Routes:       routes.New(c, &cfg.Global, id.cluster),
		Routing:      routes.Traits(),
		Volumes:      volumes.New(c),
		InstanceTags: found,
		TagsLabel:    instances.TagsLabel,
		Identify:     id.identify,
		Ready:        cloud.ReadyOnce(c.Check),
		Diagnose:     diagnose(c, &cfg.Global, id, balancers.network),
		Run:          conf(configFile, cfg).Watch,
	}, warnings, nil
}
