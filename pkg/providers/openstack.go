//go:build !no_openstack

package providers

import (
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
)

func addOpenStack(all map[string]cloud.Factory) { all[openstack.Name] = openstack.New }
