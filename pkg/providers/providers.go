// Package providers lists the clouds that are built in. A cloud is one folder here and one
// line in All.
package providers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
)

// All returns the clouds by the value of --cloud-provider.
func All() map[string]cloud.Factory {
	return map[string]cloud.Factory{
		openstack.Name: openstack.New,
	}
}

// Named returns the factory of a cloud, or an error that lists the clouds there are.
func Named(name string) (cloud.Factory, error) {
	all := All()
	if f, ok := all[name]; ok {
		return f, nil
	}
	return nil, fmt.Errorf("unknown cloud provider %.50q; there are: %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}
