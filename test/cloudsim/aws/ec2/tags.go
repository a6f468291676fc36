package ec2

import (
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// maxTags is how many tags an object has at most, those with "aws:" not counted.
const maxTags = 50

// checkTags says whether tags may be added to those that are there.
func checkTags(tags, there map[string]string) error {
	all := maps.Clone(there)
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range tags {
		switch {
		case k == "":
			return query.Errorf("InvalidParameterValue", "Tag key cannot be empty.") // unverified message
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			return query.Errorf("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		case utf8.RuneCountInString(k) > 127:
			return query.Errorf("InvalidParameterValue", "Tag key exceeds the maximum length of 127 characters")
		case utf8.RuneCountInString(v) > 256:
			return query.Errorf("InvalidParameterValue", "Tag value exceeds the maximum length of 256 characters")
		}
		all[k] = v
	}
	n := 0
	for k := range all {
		if !strings.HasPrefix(k, "aws:") {
			n++
		}
	}
	if n > maxTags {
		return query.Errorf("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
	}
	return nil
}

// tagged is how the tags of one object are read and written. Locked.
func (r *Region) tagged(id string) (tags map[string]string, set func(map[string]string), err error) {
	prefix, _, _ := strings.Cut(id, "-")
	switch prefix {
	case "i":
		return tagsOf(&r.instances, prefix, id, r.hiddenInstance,
			func(v Instance, t map[string]string) *Instance { v.Tags = t; return &v })
	case "sg":
		return tagsOf(&r.groups, prefix, id, r.hiddenGroup,
			func(v SecurityGroup, t map[string]string) *SecurityGroup { v.Tags = t; return &v })
	case "vpc":
		return tagsOf(&r.vpcs, prefix, id, nil, func(v VPC, t map[string]string) *VPC { v.Tags = t; return &v })
	case "subnet":
		return tagsOf(&r.subnets, prefix, id, nil, func(v Subnet, t map[string]string) *Subnet { v.Tags = t; return &v })
	case "rtb":
		return tagsOf(&r.tables, prefix, id, nil, func(v RouteTable, t map[string]string) *RouteTable { v.Tags = t; return &v })
	case "vol":
		return tagsOf(&r.volumes, prefix, id, nil, func(v Volume, t map[string]string) *Volume { v.Tags = t; return &v })
	case "eipalloc":
		return tagsOf(&r.addresses, prefix, id, nil, func(v Address, t map[string]string) *Address { v.Tags = t; return &v })
	case "eni":
		n, err := get(&r.interfaces, prefix, id, nil)
		if err != nil {
			return nil, nil, err
		}
		return n.Tags, func(t map[string]string) { next := n.clone(); next.Tags = t; r.putInterface(next) }, nil
	}
	return nil, nil, query.Errorf("InvalidID", "The ID '%s' is not valid", id)
}

// pointed is a pointer to an object.
type pointed[V any] interface {
	*V
	store.Object
	tagMap() map[string]string
}

func tagsOf[V any, P pointed[V]](t *store.Table[P], prefix, id string, hidden func(P) bool,
	with func(V, map[string]string) *V) (
	tags map[string]string, set func(map[string]string), err error,
) {
	v, err := get(t, prefix, id, hidden)
	if err != nil {
		return nil, nil, err
	}
	return v.tagMap(), func(tags map[string]string) { t.Put(with(*t.Get(id), tags)) }, nil
}

func (i *Instance) tagMap() map[string]string      { return i.Tags }
func (g *SecurityGroup) tagMap() map[string]string { return g.Tags }
func (v *VPC) tagMap() map[string]string           { return v.Tags }
func (s *Subnet) tagMap() map[string]string        { return s.Tags }
func (t *RouteTable) tagMap() map[string]string    { return t.Tags }
func (v *Volume) tagMap() map[string]string        { return v.Tags }
func (a *Address) tagMap() map[string]string       { return a.Tags }

// change changes the tags of objects, all or none.
func (r *Region) change(ids []string, edit func(map[string]string) error) error {
	r.lock()
	defer r.mu.Unlock()
	var sets []func()
	for _, id := range ids {
		tags, set, err := r.tagged(id)
		if err != nil {
			return err
		}
		next := maps.Clone(tags)
		if next == nil {
			next = map[string]string{}
		}
		if err := edit(next); err != nil {
			return err
		}
		sets = append(sets, func() { set(next) })
	}
	for _, set := range sets {
		set()
	}
	return nil
}

// CreateTags adds tags to objects, or overwrites them.
func (r *Region) CreateTags(ids []string, tags map[string]string) error {
	return r.change(ids, func(all map[string]string) error {
		if err := checkTags(tags, all); err != nil {
			return err
		}
		maps.Copy(all, tags)
		return nil
	})
}

// DeleteTags removes tags from objects: by key, and only those with this value where one is given.
func (r *Region) DeleteTags(ids []string, tags map[string]*string) error {
	return r.change(ids, func(all map[string]string) error {
		for k, v := range tags {
			if have, ok := all[k]; ok && (v == nil || *v == have) {
				delete(all, k)
			}
		}
		return nil
	})
}
