package vsphere

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
)

// Inventory is what a vCenter has beside machines. The zero value has the datacenters DC0 and DC1, each with a cluster of three hosts
// (/DC0/host/DC0_C0/DC0_C0_H0) and a host of its own (/DC0/host/DC0_H0/DC0_H0), and no tags.
type Inventory struct {
	// Clusters is how many of them each datacenter has, one without.
	Clusters int `json:",omitempty"`
	// Folders, Pools and Datacenters are made in their order, by inventory paths: /DC0/vm/a, /DC0/host/DC0_C0/Resources/a. Into
	// a folder at the top, /a, the datacenter DC1 is moved.
	Folders, Pools []string `json:",omitempty"`
	Tags           []Tag    `json:",omitempty"`
}

// Tag is one that an object has.
type Tag struct{ Path, Category, Name string }

// NewWith starts a vCenter with an inventory. Close ends it. dir is for files.
func NewWith(ctx context.Context, dir string, i *Inventory) (*VCenter, error) {
	v := newVCenter(dir)
	v.model.Machine, v.model.Cluster = 1, max(i.Clusters, 1)
	if err := v.start(ctx); err != nil {
		return nil, err
	}
	finder := find.NewFinder(v.client.Client)
	for _, p := range i.Folders {
		if err := v.makeFolder(ctx, finder, p); err != nil {
			return nil, fmt.Errorf("folder %s: %w", p, err)
		}
	}
	for _, p := range i.Pools {
		parent, err := finder.ResourcePool(ctx, path.Dir(p))
		if err == nil {
			_, err = parent.Create(ctx, path.Base(p), types.DefaultResourceConfigSpec())
		}
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", p, err)
		}
	}
	for n := range i.Tags {
		if err := v.Attach(ctx, &i.Tags[n]); err != nil {
			return nil, fmt.Errorf("tag %+v: %w", i.Tags[n], err)
		}
	}
	v.forget()
	return v, nil
}

func (v *VCenter) makeFolder(ctx context.Context, finder *find.Finder, p string) error {
	parent, err := finder.Folder(ctx, path.Dir(p))
	if err != nil {
		return err
	}
	folder, err := parent.CreateFolder(ctx, path.Base(p))
	if err != nil || strings.Count(p, "/") > 1 {
		return err
	}
	dc, err := finder.Datacenter(ctx, "/DC1")
	if err != nil {
		return err
	}
	task, err := folder.MoveInto(ctx, []types.ManagedObjectReference{dc.Reference()})
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// Attach gives an object a tag.
func (v *VCenter) Attach(ctx context.Context, t *Tag) error {
	r := rest.NewClient(v.client.Client)
	if err := r.Login(ctx, v.server.URL.User); err != nil {
		return err
	}
	m := tags.NewManager(r)
	category, err := v.category(ctx, m, t.Category)
	if err != nil {
		return err
	}
	all, err := m.GetTagsForCategory(ctx, category)
	if err != nil {
		return err
	}
	id := ""
	if n := slices.IndexFunc(all, func(is tags.Tag) bool { return is.Name == t.Name }); n >= 0 {
		id = all[n].ID
	} else if id, err = m.CreateTag(ctx, &tags.Tag{Name: t.Name, CategoryID: category}); err != nil {
		return err
	}
	found, err := find.NewFinder(v.client.Client).ManagedObjectList(ctx, t.Path)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%d objects have this path", len(found))
	}
	return m.AttachTag(ctx, id, found[0].Object)
}

// category is the ID of a category, which is made where there is none.
func (v *VCenter) category(ctx context.Context, m *tags.Manager, name string) (string, error) {
	all, err := m.GetCategories(ctx)
	if err != nil {
		return "", err
	}
	for _, c := range all {
		if c.Name == name {
			return c.ID, nil
		}
	}
	return m.CreateCategory(ctx, &tags.Category{Name: name, Cardinality: "MULTIPLE"})
}
