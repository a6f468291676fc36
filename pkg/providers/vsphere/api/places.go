package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// containers are what machines are looked for in.
func (c *Client) containers(ctx context.Context) ([]container, error) {
	if len(c.datacenters) == 0 {
		return []container{root}, nil
	}
	hits, err := c.named(ctx, c.datacenters)
	if err != nil {
		return nil, err
	}
	out := make([]container, 0, len(hits))
	for _, hit := range hits {
		out = append(out, func(*vim25.Client) Ref { return hit })
	}
	return out, nil
}

// named are the datacenters that have the names, paths or IDs, each just one.
func (c *Client) named(ctx context.Context, wanted []string) ([]Ref, error) {
	names := types.PropertySpec{Type: "Datacenter", PathSet: []string{"name", "parent"}}
	folders := types.PropertySpec{Type: "Folder", PathSet: []string{"name", "parent"}}
	found, err := c.all(ctx, "the datacenters", []container{root}, names, folders)
	if err != nil {
		return nil, err
	}
	above := map[Ref]*types.ObjectContent{}
	for i := range found {
		above[found[i].Obj] = &found[i]
	}
	var out []Ref
	for _, want := range wanted {
		var hits []Ref
		for r, o := range above {
			if r.Type == "Datacenter" && (r.String() == want || nameOf(o) == want || strings.HasPrefix(want, "/") && pathOf(above, o) == want) {
				hits = append(hits, r)
			}
		}
		if len(hits) != 1 {
			return nil, &cloud.Error{Kind: cloud.KindInvalid, Op: "find datacenter " + want,
				Err: fmt.Errorf("%s shows %d of that name; correct datacenters in vsphere.conf, by path (/folder/name) or ID where a name is not enough", c.place, len(hits))}
		}
		out = append(out, hits[0])
	}
	return out, nil
}

func nameOf(o *types.ObjectContent) string {
	for _, p := range o.PropSet {
		if name, ok := p.Val.(string); ok && p.Name == "name" {
			return name
		}
	}
	return ""
}

func parentOf(o *types.ObjectContent) (Ref, bool) {
	for _, p := range o.PropSet {
		if r, ok := p.Val.(Ref); ok && p.Name == "parent" {
			return r, true
		}
	}
	return Ref{}, false
}

// maxDepth bounds how far up anything is followed.
const maxDepth = 100

// pathOf is /folder/name below the root folder, which is not in above.
func pathOf(above map[Ref]*types.ObjectContent, o *types.ObjectContent) string {
	path := ""
	for range maxDepth {
		path = "/" + nameOf(o) + path
		parent, ok := parentOf(o)
		if o = above[parent]; !ok || o == nil {
			break
		}
	}
	return path
}

// Parents are what is directly above what machines are in: hosts, clusters, pools, folders and datacenters.
func (c *Client) Parents(ctx context.Context) (map[Ref]Ref, error) {
	var specs []types.PropertySpec
	for _, kind := range []string{"HostSystem", "ComputeResource", "ResourcePool", "Folder", "Datacenter"} {
		specs = append(specs, types.PropertySpec{Type: kind, PathSet: []string{"parent"}})
	}
	found, err := c.all(ctx, "what machines are in", []container{root}, specs...)
	if err != nil {
		return nil, err
	}
	out := make(map[Ref]Ref, len(found))
	for i := range found {
		if parent, ok := parentOf(&found[i]); ok {
			out[found[i].Obj] = parent
		}
	}
	return out, nil
}

// Tags are the names of the tags of some categories, by category and by the objects that have one. Of several of one category that an
// object has the last one counts, in the order of their names.
func (c *Client) Tags(ctx context.Context, categories ...string) (map[string]map[Ref]string, error) {
	ids, err := c.categories(ctx, categories)
	if err != nil {
		return nil, err
	}
	var all []string
	tag := map[string]tags.Tag{}
	for _, name := range categories {
		var found []string
		if err := c.rest(ctx, "list tags of a category", func(r *rest.Client) (err error) {
			found, err = tags.NewManager(r).ListTagsForCategory(ctx, ids[name])
			return err
		}); err != nil {
			return nil, err
		}
		for _, id := range found {
			if err := c.rest(ctx, "get tag", func(r *rest.Client) error {
				t, err := tags.NewManager(r).GetTag(ctx, id)
				if rest.IsStatusError(err, http.StatusNotFound) {
					return nil // it was deleted meanwhile
				}
				if err == nil {
					tag[id], all = tags.Tag{ID: id, Name: t.Name, CategoryID: name}, append(all, id)
				}
				return err
			}); err != nil {
				return nil, err
			}
		}
	}
	out := map[string]map[Ref]string{}
	for _, name := range categories {
		out[name] = map[Ref]string{}
	}
	if len(all) == 0 {
		return out, nil
	}
	return out, c.rest(ctx, "list objects of tags", func(r *rest.Client) error {
		attached, err := tags.NewManager(r).ListAttachedObjectsOnTags(ctx, all)
		for _, a := range attached {
			of := out[tag[a.TagID].CategoryID]
			for _, o := range a.ObjectIDs {
				if ref := refOf(o); of != nil && tag[a.TagID].Name > of[ref] {
					of[ref] = tag[a.TagID].Name
				}
			}
		}
		return err
	})
}

// categories are the IDs of categories of tags by their names.
func (c *Client) categories(ctx context.Context, names []string) (map[string]string, error) {
	var all []string
	if err := c.rest(ctx, "list categories of tags", func(r *rest.Client) (err error) {
		all, err = tags.NewManager(r).ListCategories(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, id := range all {
		if err := c.rest(ctx, "get category of tags", func(r *rest.Client) error {
			found, err := tags.NewManager(r).GetCategory(ctx, id)
			if rest.IsStatusError(err, http.StatusNotFound) {
				return nil // it was deleted meanwhile
			}
			if err == nil && slices.Contains(names, found.Name) {
				out[found.Name] = id
			}
			return err
		}); err != nil {
			return nil, err
		}
		if len(out) == len(names) {
			break
		}
	}
	for _, name := range names {
		if out[name] == "" {
			return nil, &cloud.Error{Kind: cloud.KindInvalid, Op: "find category of tags " + name,
				Err: fmt.Errorf("%s has none of that name; correct labels in vsphere.conf, or make it", c.place)}
		}
	}
	return out, nil
}

func refOf(o mo.Reference) Ref {
	r := o.Reference()
	return Ref{Type: r.Type, Value: r.Value}
}
