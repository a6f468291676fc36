package vsphere

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/places"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/vsphere"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/instances"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/volumes"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/zones"
)

// Name is the value of --cloud-provider.
const Name = instances.Name

var _ cloud.Factory = New

// New implements cloud.Factory for vSphere.
func New(_ context.Context, configFile string, o cloud.Options) (*cloud.Provider, []string, error) {
	var data []byte
	if configFile != "" {
		var err error
		if data, err = os.ReadFile(configFile); err != nil {
			return nil, nil, fmt.Errorf("read cloud config: %w", err)
		}
	}
	cfg, warnings, err := config.Parse(configFile, data, os.Getenv)
	if err != nil {
		return nil, warnings, err
	}
	var all []places.Place
	var objects []cloud.KubeObject
	for _, name := range slices.Sorted(maps.Keys(cfg.VCenter)) {
		p, err := newVCenter(cfg, cfg.VCenter[name], o)
		if err != nil {
			return nil, warnings, err
		}
		all = append(all, places.Place{Name: name, Provider: p})
		for _, object := range p.KubeObjects {
			if !slices.Contains(objects, object) {
				objects = append(objects, object)
			}
		}
	}
	p := all[0].Provider
	if len(all) > 1 {
		p = &cloud.Provider{Name: Name, Owns: instances.Owns}
		places.Join(p, all, places.Words{Place: "vCenter", Moves: true}, func(cloud.InstanceRef) string { return "" })
	}
	p.KubeObjects, p.Settings = objects, cfg.Settings()
	p.Inventory = cloud.MakesNothing{}
	if cfg.Global.KeepNodes {
		p.Instances = keeping{p.Instances}
	}
	return p, warnings, nil
}

// newVCenter is the provider of one vCenter.
func newVCenter(cfg *config.Config, v *config.VCenter, o cloud.Options) (*cloud.Provider, error) {
	by := newCredentials(cfg, v, o.Kube)
	s, err := auth.New(auth.Options{Server: v.Server, Port: v.Port, Insecure: v.Insecure, CAFile: v.CAFile, Thumbprint: v.Thumbprint,
		Credentials: by.get, UserAgent: o.UserAgent, RequestTimeout: o.RequestTimeout})
	if err != nil {
		return nil, cloud.Errorf(cloud.KindInvalid, "%w", err)
	}
	c := api.New(s, o, "vCenter "+v.Server, v.Datacenters)
	z := zones.New(c, cfg.Labels)
	p := &cloud.Provider{
		Name:      Name,
		Owns:      instances.Owns,
		Instances: instances.New(c, cfg, v.Families, z),
		Volumes:   volumes.New(c, z),
		Ready:     cloud.ReadyOnce(c.Check),
		Diagnose:  (&diagnosis{c, cfg.Labels}).run,
		Run: func(ctx context.Context) error {
			defer s.Close()
			if err := by.watch(ctx, s, o.Reloaded); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		},
	}
	if by.secret.Name != "" {
		p.KubeObjects = []cloud.KubeObject{by.secret}
	}
	return p, nil
}
