// Package providers lists the clouds that are built in. A cloud is one folder here, one line in All,
// and a pair of files that add it, or with the build tag no_<cloud> leave it out.
package providers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// All returns the clouds that are built in, by the value of --cloud-provider.
func All() map[string]cloud.Factory {
	all := map[string]cloud.Factory{}
	addAWS(all)
	addOpenStack(all)
	addVSphere(all)
	return all
}

// Named returns the factory of a cloud, or an error that lists the clouds there are.
func Named(name string) (cloud.Factory, error) {
	all := All()
	if f, ok := all[name]; ok {
		return f, nil
	}
	return nil, fmt.Errorf("unknown cloud provider %.50q; there are: %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}
