package entries

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// entries makes the entry for all kinds, or one for each, with what they match or without.
func (o Options) entries(match bool) ([]kubelet.Entry, error) {
	c, err := o.Source.Read()
	if err != nil {
		return nil, err
	}
	kinds := c.Kinds()
	if !o.PerRegistry {
		e, err := o.entry(o.Name, o.args(""), kinds, match)
		return []kubelet.Entry{e}, err
	}
	var entries []kubelet.Entry
	for _, kind := range kinds {
		e, err := o.entry(o.Name+"-"+kind.Name, o.args(kind.Name), []config.Kind{kind}, match)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// args are the provider's, for one kind or, with "", for all.
func (o Options) args(kind string) []string {
	var args []string
	add := func(flag, value string) {
		if value != "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	if o.Source.File != "" {
		add("config", cmp.Or(o.NodePath, o.Source.File))
		return args
	}
	if kind == "" {
		kind = o.Source.Registries
	}
	add("registries", kind)
	add("identity", o.Source.Identity)
	if o.Source.CloudConfig != "" && (o.Source.Registries == "" || slices.Contains(strings.Split(kind, ","), "openstack")) {
		add("cloud-config", cmp.Or(o.NodePath, o.Source.CloudConfig))
	}
	return args
}

// entry makes an entry for these kinds, with what it matches or without.
func (o Options) entry(program string, args []string, kinds []config.Kind, match bool) (kubelet.Entry, error) {
	e := kubelet.Entry{
		Name: program, APIVersion: kubelet.ProviderGroup + "/v1", Args: args, Env: o.Env,
		CacheDuration: o.CacheDuration.String(),
	}
	var err error
	switch {
	case !match:
	case o.MatchImages != "":
		e.MatchImages = strings.Split(o.MatchImages, ",")
	default:
		if e.MatchImages, err = o.images(kinds); err != nil {
			return e, err
		}
	}
	e.TokenAttributes, err = o.tokenAttributes(kinds)
	return e, err
}

// images are the patterns of these kinds.
func (o Options) images(kinds []config.Kind) ([]string, error) {
	var all []string
	for _, kind := range kinds {
		p, _, err := kind.Open(credentialprovider.Options{})
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; where it is on the nodes alone, name the registries with --match-images", err)
		}
		if err != nil {
			return nil, err
		}
		images := p.MatchImages()
		if o.Partitions != "" {
			if images, err = kind.InPartitions(images, strings.Split(o.Partitions, ",")); err != nil {
				return nil, fmt.Errorf("--partition: %w", err)
			}
		}
		if len(images) == 0 {
			return nil, fmt.Errorf("%s serves no registry: %s", kind.Name, p.Describe())
		}
		for _, image := range images {
			if !slices.Contains(all, image) {
				all = append(all, image)
			}
		}
	}
	return all, nil
}

// tokenAttributes are those of these kinds, nil if they use the node's identity.
func (o Options) tokenAttributes(kinds []config.Kind) (*kubelet.TokenAttributes, error) {
	required := true
	t := &kubelet.TokenAttributes{Audience: o.Audience, CacheType: o.CacheType, Require: &required}
	node, from := "", ""
	for _, kind := range kinds {
		if kind.Identity() != credentialprovider.ServiceAccountIdentity {
			node = kind.Name
			continue
		}
		audience := kind.Audience()
		switch {
		case o.Audience != "":
		case audience == "":
			return nil, fmt.Errorf("%s: nothing says for whom the service accounts' tokens are to be; give --audience, as the cloud's administrator set it up", kind.Name)
		case t.Audience != "" && t.Audience != audience:
			return nil, fmt.Errorf("%s wants tokens for %s and %s for %s, but an entry has one audience; give --entry-per-registry", from, t.Audience, kind.Name, audience)
		default:
			t.Audience = audience
		}
		from = kind.Name
		t.OptionalAnnotations = append(t.OptionalAnnotations, kind.Annotations()...)
	}
	switch {
	case from == "" && o.Audience != "":
		return nil, errors.New("--audience is for --identity=serviceAccount")
	case from == "":
		return nil, nil
	case node != "":
		return nil, fmt.Errorf("%s has the node's identity and %s that of service accounts, but the kubelet sends tokens to all of an entry or to none; give --entry-per-registry", node, from)
	}
	return t, nil
}
