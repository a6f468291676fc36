package vsphere

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// searchIndex has searches keep to the datacenter that they name, as those of a vCenter do: vcsim's are of all.
type searchIndex struct{ *simulator.SearchIndex }

// FindByUuid is the vSphere API's.
func (s *searchIndex) FindByUuid(ctx *simulator.Context, r *types.FindByUuid) soap.HasFault { //nolint:revive,staticcheck // vcsim finds it by its name
	if r.Datacenter == nil {
		return s.SearchIndex.FindByUuid(ctx, r)
	}
	all, ok := s.FindAllByUuid(ctx, (*types.FindAllByUuid)(r)).(*methods.FindAllByUuidBody)
	out := &methods.FindByUuidBody{Res: new(types.FindByUuidResponse)}
	if ok {
		out.Res.Returnval = first(ctx, r.Datacenter, all.Res.Returnval)
	}
	return out
}

// FindByIp is the vSphere API's.
func (s *searchIndex) FindByIp(ctx *simulator.Context, r *types.FindByIp) soap.HasFault { //nolint:revive,staticcheck // vcsim finds it by its name
	all, ok := s.FindAllByIp(ctx, (*types.FindAllByIp)(r)).(*methods.FindAllByIpBody)
	out := &methods.FindByIpBody{Res: new(types.FindByIpResponse)}
	if ok {
		out.Res.Returnval = first(ctx, r.Datacenter, all.Res.Returnval)
	}
	return out
}

// FindAllByIp is the vSphere API's.
func (s *searchIndex) FindAllByIp(ctx *simulator.Context, r *types.FindAllByIp) soap.HasFault { //nolint:revive,staticcheck // vcsim finds it by its name
	found := s.SearchIndex.FindAllByIp(ctx, r)
	if all, ok := found.(*methods.FindAllByIpBody); ok {
		all.Res.Returnval = in(ctx, r.Datacenter, all.Res.Returnval)
	}
	return found
}

// FindAllByDnsName is the vSphere API's.
func (s *searchIndex) FindAllByDnsName(ctx *simulator.Context, r *types.FindAllByDnsName) soap.HasFault { //nolint:revive,staticcheck // vcsim finds it by its name
	found := s.SearchIndex.FindAllByDnsName(ctx, r)
	if all, ok := found.(*methods.FindAllByDnsNameBody); ok {
		all.Res.Returnval = in(ctx, r.Datacenter, all.Res.Returnval)
	}
	return found
}

func first(ctx *simulator.Context, datacenter *types.ManagedObjectReference, all []types.ManagedObjectReference) *types.ManagedObjectReference {
	if all = in(ctx, datacenter, all); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// in are those of all that are in a datacenter, nil for any.
func in(ctx *simulator.Context, datacenter *types.ManagedObjectReference, all []types.ManagedObjectReference) []types.ManagedObjectReference {
	return slices.DeleteFunc(all, func(r types.ManagedObjectReference) bool {
		if datacenter == nil {
			return false
		}
		for {
			object, ok := ctx.Map.Get(r).(mo.Entity)
			if !ok {
				return true
			}
			if r == *datacenter {
				return false
			}
			if object.Entity().Parent == nil {
				return true
			}
			r = *object.Entity().Parent
		}
	})
}
