package api

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/cns"
	"github.com/vmware/govmomi/cns/methods"
	cnstypes "github.com/vmware/govmomi/cns/types"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/vsphere"
)

// Datastore is what a vCenter says of a datastore.
type Datastore struct {
	Name string
	// URL is the same on all hosts: ds:///vmfs/volumes/….
	URL string
	// Hosts are those that can read and write it now.
	Hosts []Ref
}

// Datastores are all that there are in the datacenters.
func (c *Client) Datastores(ctx context.Context) ([]Datastore, error) {
	below, err := c.containers(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.all(ctx, "all datastores", below, types.PropertySpec{Type: "Datastore", PathSet: []string{"name", "summary.url", "host"}})
	if err != nil {
		return nil, err
	}
	out := make([]Datastore, 0, len(found))
	for i := range found {
		out = append(out, datastoreOf(&found[i]))
	}
	return out, nil
}

func datastoreOf(o *types.ObjectContent) Datastore {
	d := Datastore{Name: nameOf(o)}
	for _, p := range o.PropSet {
		switch v := p.Val.(type) {
		case string:
			if p.Name == "summary.url" {
				d.URL = v
			}
		case types.ArrayOfDatastoreHostMount:
			for _, m := range v.DatastoreHostMount {
				if usable(&m.MountInfo) {
					d.Hosts = append(d.Hosts, m.Key)
				}
			}
		}
	}
	return d
}

// usable reports whether a host can read and write by a mount; what is not said is so.
func usable(m *types.HostMountInfo) bool {
	said := func(b *bool) bool { return b == nil || *b }
	return said(m.Mounted) && said(m.Accessible) && m.AccessMode != string(types.HostMountModeReadOnly)
}

// MaxVolumes is how many volumes are asked for with a call.
const MaxVolumes = 100

// CNSVolumes are the URLs of the datastores of volumes, by their IDs in Cloud Native Storage; of at most 100. Those that it does not
// know are left out.
func (c *Client) CNSVolumes(ctx context.Context, ids ...string) (map[string]string, error) {
	filter := cnstypes.CnsQueryFilter{Cursor: &cnstypes.CnsCursor{Limit: MaxVolumes}}
	for _, id := range ids {
		filter.VolumeIds = append(filter.VolumeIds, cnstypes.CnsVolumeId{Id: id})
	}
	found, err := c.volumes(ctx, filter)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(found))
	for i := range found {
		out[found[i].VolumeId.Id] = found[i].DatastoreUrl
	}
	return out, nil
}

// ShowsVolumes reports an error where Cloud Native Storage shows no volume at all, as to somebody whose rights were taken.
func (c *Client) ShowsVolumes(ctx context.Context) error {
	found, err := c.volumes(ctx, cnstypes.CnsQueryFilter{Cursor: &cnstypes.CnsCursor{Limit: 1}})
	if err == nil && len(found) == 0 {
		return &cloud.Error{Kind: cloud.KindUnavailable, Op: "CnsQueryVolume",
			Err: fmt.Errorf("%s shows no volume at all, which proves nothing about one; has the user the right Cns.Searchable?", c.place)}
	}
	return err
}

func (c *Client) volumes(ctx context.Context, filter cnstypes.CnsQueryFilter) (found []cnstypes.CnsVolume, err error) {
	err = c.soap(ctx, "CnsQueryVolume", "", func(v *vim25.Client) error {
		by := auth.Service(v, cns.Path, cns.Namespace)
		if known := c.vsan.Load(); known != nil {
			by.Version = *known
		} else if err := by.UseServiceVersion(cns.Namespace); err != nil {
			return err
		}
		c.vsan.Store(&by.Version)
		answer, err := methods.CnsQueryVolume(ctx, auth.Answered(by), &cnstypes.CnsQueryVolume{This: cns.CnsVolumeManagerInstance, Filter: &filter})
		if err == nil {
			found = answer.Returnval.Volumes
		}
		return err
	})
	return found, err
}
