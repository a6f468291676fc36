package openstack

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// externalNetwork is the network that floating IPs come from when nothing names one, "" for none:
// the first external one, in the order of the API, that has an IPv4 subnet, or one that is not
// shown to the project. It is the existing manager's choice.
func (o *lbOperation) externalNetwork(ctx context.Context) (string, error) {
	if id, _ := o.lb.external.Load().(string); id != "" {
		return id, nil
	}
	type network struct {
		ID      string   `json:"id"`
		Subnets []string `json:"subnets"`
	}
	networks, err := api.ListAll[network](ctx, o.neutron, "networks", url.Values{"router:external": {"true"}}, "networks")
	if err != nil {
		return "", api.WrapError("find the external network", err)
	}
	for _, n := range networks {
		if len(n.Subnets) == 0 {
			continue
		}
		ok, err := o.hasFloatingSubnet(ctx, n.ID, n.Subnets)
		if err != nil {
			return "", err
		}
		if ok {
			o.lb.external.Store(n.ID)
			return n.ID, nil
		}
	}
	return "", nil
}

// hasFloatingSubnet reports whether one of a network's subnets is of IPv4, or not visible.
func (o *lbOperation) hasFloatingSubnet(ctx context.Context, network string, ids []string) (bool, error) {
	type subnet struct {
		ID      string `json:"id"`
		Version int    `json:"ip_version"`
	}
	visible, err := api.ListAll[subnet](ctx, o.neutron, "subnets", url.Values{"network_id": {network}}, "subnets")
	if err != nil {
		return false, api.WrapError("list subnets of network "+network, err)
	}
	version := map[string]int{}
	for _, s := range visible {
		version[s.ID] = s.Version
	}
	for _, id := range ids {
		if v, ok := version[id]; !ok || v == 4 {
			return true, nil
		}
	}
	return false, nil
}

// checkFloatingSubnet refuses a floating subnet that there is not, or that is of another network,
// before a load balancer is made for which there would be no address.
func (o *lbOperation) checkFloatingSubnet(ctx context.Context, w *lbWishes) error {
	id, network := w.fip.subnetID, w.fip.networkID
	if id == "" || w.internal || w.isIPv6() {
		return nil
	}
	if network == "" {
		var err error
		if network, err = o.externalNetwork(ctx); err != nil || network == "" {
			return err
		}
	}
	is, err := o.networkOf(ctx, id)
	switch {
	case cloud.IsNotFound(err):
		return &cloud.Error{Kind: cloud.KindInvalid, Err: fmt.Errorf("floating IPs: %w; correct floating-subnet-id", err)}
	case err == nil && is != network:
		return cloud.Errorf(cloud.KindInvalid, "the subnet of floating IPs %s is of network %s, not of %s; correct floating-subnet-id or floating-network-id", id, is, network)
	}
	return err
}

// tagFilter reads tags, separated by commas or blanks, as Neutron's filter and its value: one of
// them, after & all of them, after ! not all of them, and after !& none of them.
func tagFilter(text string) (name, tags string) {
	rest, not := strings.CutPrefix(text, "!")
	rest, all := strings.CutPrefix(rest, "&")
	name = map[[2]bool]string{{false, false}: "tags-any", {false, true}: "tags", {true, false}: "not-tags", {true, true}: "not-tags-any"}[[2]bool{not, all}]
	items := strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	return name, strings.Join(items, ",")
}
