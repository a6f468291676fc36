package openstack

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// checkFloatingSubnet refuses a floating subnet that there is not, or that is of another network,
// before a load balancer is made for which there would be no address.
func (o *lbOperation) checkFloatingSubnet(ctx context.Context, w *lbWishes) error {
	id, network := w.fip.subnetID, w.fip.networkID
	if id == "" || w.internal || w.isIPv6() {
		return nil
	}
	if network == "" {
		var err error
		if network, err = o.lb.subnets.External(ctx); err != nil || network == "" {
			return err
		}
	}
	is, err := o.lb.subnets.NetworkOf(ctx, id)
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
