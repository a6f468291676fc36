package aws

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// Unsupported is what AWS lacks.
func Unsupported() map[cloudtest.Feature]string {
	return map[cloudtest.Feature]string{
		cloudtest.InstancesPodCIDRs: "EC2 gives instances no addresses for pods that Nodes have",
		cloudtest.RoutesForeign: "routes have no tags at AWS: as for the existing manager, one from a pod CIDR to an instance of the cluster, " +
			"or to one that is gone, is the cluster's; others stay",
	}
}

// Untried are the features of load balancers: the World does not observe them yet.
func Untried() []cloudtest.Feature {
	return slices.DeleteFunc(cloudtest.Features(), func(f cloudtest.Feature) bool { return !strings.HasPrefix(string(f), "lb-") })
}

var errUntried = errors.New("load balancers of AWS are not observed yet")

// Settings implements cloudtest.World.
func (w *World) Settings(context.Context, cloudtest.Feature) (cloud.Settings, error) {
	return nil, errUntried
}

// UseLoadBalancer implements cloudtest.World.
func (w *World) UseLoadBalancer(string) cloud.Settings { return nil }

// MakeLoadBalancer implements cloudtest.World.
func (w *World) MakeLoadBalancer(context.Context, string) (string, error) { return "", errUntried }

// LoadBalancer implements cloudtest.World.
func (w *World) LoadBalancer(context.Context, string) (*cloudtest.LoadBalancer, error) {
	return nil, errUntried
}

// LoadBalancerID implements cloudtest.World.
func (w *World) LoadBalancerID(*cloud.LoadBalancerStatus) string { return "" }

// DeleteLoadBalancer implements cloudtest.World.
func (w *World) DeleteLoadBalancer(context.Context, string) error { return errUntried }

// ReserveAddress implements cloudtest.World.
func (w *World) ReserveAddress(context.Context) (netip.Addr, func(context.Context) error, error) {
	return netip.Addr{}, nil, errUntried
}

// MakeForeign implements cloudtest.World.
func (w *World) MakeForeign(context.Context, cloud.LoadBalancerRef, string) (intact, remove func(context.Context) error, err error) {
	return nil, nil, errUntried
}
