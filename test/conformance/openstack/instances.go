package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/extraroutes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"

	sdk "github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

func lastPart(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

func (w *World) findImage(ctx context.Context) error {
	glance, err := sdk.NewImageV2(w.neutron.ProviderClient, gophercloud.EndpointOpts{Region: w.access.Region})
	if err != nil {
		return err
	}
	pages, err := images.List(glance, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := images.ExtractImages(pages)
	if err != nil || len(all) == 0 {
		return fmt.Errorf("the cloud has no image: %w", err)
	}
	w.image = all[0].ID
	return nil
}

// MakeInstance implements cloudtest.World.
func (w *World) MakeInstance(ctx context.Context, name string) (cloudtest.Instance, error) {
	out := cloudtest.Instance{Ref: cloud.InstanceRef{NodeName: name}}
	v, err := servers.Create(ctx, w.compute, servers.CreateOpts{
		Name: name, FlavorRef: w.flavor, ImageRef: w.image, Networks: []servers.Network{{UUID: w.network}},
	}, nil).Extract()
	if err != nil {
		return out, fmt.Errorf("make server %s: %w", name, err)
	}
	out.Ref.ProviderID, out.MachineID = "openstack:///"+v.ID, v.ID
	err = w.untilServer(ctx, v.ID, func(s *servers.Server) bool {
		out.Zone = s.AvailabilityZone
		return s.Status == "ACTIVE"
	})
	if err != nil {
		return out, err
	}
	ps, err := w.ports(ctx, ports.ListOpts{DeviceID: v.ID})
	for _, p := range ps {
		for _, ip := range p.FixedIPs {
			a, err := netip.ParseAddr(ip.IPAddress)
			if err != nil {
				return out, err
			}
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out, err
}

func (w *World) untilServer(ctx context.Context, id string, is func(*servers.Server) bool) error {
	return until(ctx, "server "+id, func() (bool, error) {
		s, err := servers.Get(ctx, w.compute, id).Extract()
		if err != nil {
			return false, err
		}
		if s.Status == "ERROR" {
			return false, fmt.Errorf("it is in state ERROR: %+v", s.Fault)
		}
		return is(s), nil
	})
}

func (w *World) ports(ctx context.Context, o ports.ListOpts) ([]ports.Port, error) {
	pages, err := ports.List(w.neutron, o).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return ports.ExtractPorts(pages)
}

// StopInstance implements cloudtest.World.
func (w *World) StopInstance(ctx context.Context, i cloudtest.Instance) error {
	id := lastPart(i.Ref.ProviderID)
	if err := servers.Stop(ctx, w.compute, id).ExtractErr(); err != nil {
		return err
	}
	return w.untilServer(ctx, id, func(s *servers.Server) bool { return s.Status == "SHUTOFF" })
}

// DeleteInstance implements cloudtest.World.
func (w *World) DeleteInstance(ctx context.Context, i cloudtest.Instance) error {
	return w.deleteServer(ctx, lastPart(i.Ref.ProviderID))
}

func (w *World) deleteServer(ctx context.Context, id string) error {
	if err := gone(servers.Delete(ctx, w.compute, id).ExtractErr()); err != nil {
		return err
	}
	return until(ctx, "deletion of server "+id, func() (bool, error) {
		_, err := servers.Get(ctx, w.compute, id).Extract()
		return err != nil, gone(err)
	})
}

func (w *World) servers(ctx context.Context) ([]servers.Server, error) {
	pages, err := servers.List(w.compute, nil).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return servers.ExtractServers(pages)
}

func (w *World) removeServers(ctx context.Context) error {
	all, err := w.servers(ctx)
	errs := []error{err}
	for _, s := range all {
		errs = append(errs, w.deleteServer(ctx, s.ID))
	}
	return errors.Join(errs...)
}

// UnknownID implements cloudtest.World.
func (w *World) UnknownID() string { return "openstack:///" + uuid.NewString() }

// ForeignID implements cloudtest.World.
func (w *World) ForeignID() string { return "aws:///eu-central-1a/i-0123456789abcdef0" }

// AddRoute implements cloudtest.World.
func (w *World) AddRoute(ctx context.Context, r cloud.Route) error {
	return extraroutes.Add(ctx, w.neutron, w.router, extraroutes.Opts{Routes: entry(r)}).Err
}

// RemoveRoute implements cloudtest.World.
func (w *World) RemoveRoute(ctx context.Context, r cloud.Route) error {
	return extraroutes.Remove(ctx, w.neutron, w.router, extraroutes.Opts{Routes: entry(r)}).Err
}

func entry(r cloud.Route) *[]routers.Route {
	return &[]routers.Route{{DestinationCIDR: r.Destination.String(), NextHop: r.NextHop.String()}}
}

// Routes implements cloudtest.World.
func (w *World) Routes(ctx context.Context) ([]cloud.Route, error) {
	r, err := routers.Get(ctx, w.neutron, w.router).Extract()
	if err != nil {
		return nil, err
	}
	var out []cloud.Route
	for _, e := range r.Routes {
		dst, err := netip.ParsePrefix(e.DestinationCIDR)
		if err != nil {
			return nil, err
		}
		hop, err := netip.ParseAddr(e.NextHop)
		if err != nil {
			return nil, err
		}
		out = append(out, cloud.Route{Destination: dst, NextHop: hop})
	}
	return out, nil
}

// MakeVolume implements cloudtest.World.
func (w *World) MakeVolume(ctx context.Context) (*corev1.PersistentVolume, string, error) {
	v, err := volumes.Create(ctx, w.cinder, volumes.CreateOpts{Name: w.named("volume"), Size: 1}, nil).Extract()
	if err != nil {
		return nil, "", err
	}
	err = until(ctx, "volume "+v.ID, func() (bool, error) {
		if v, err = volumes.Get(ctx, w.cinder, v.ID).Extract(); err != nil {
			return false, err
		}
		return v.Status == "available" || v.Status == "error", nil
	})
	if err == nil && v.Status != "available" {
		err = fmt.Errorf("volume %s is in state %s", v.ID, v.Status)
	}
	pv := &corev1.PersistentVolume{}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: v.ID}
	return pv, v.AvailabilityZone, err
}

// DeleteVolume implements cloudtest.World.
func (w *World) DeleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	id := pv.Spec.CSI.VolumeHandle
	if err := gone(volumes.Delete(ctx, w.cinder, id, nil).ExtractErr()); err != nil {
		return err
	}
	return until(ctx, "deletion of volume "+id, func() (bool, error) {
		_, err := volumes.Get(ctx, w.cinder, id).Extract()
		return err != nil, gone(err)
	})
}
