//go:build no_openstack

package providers

import "github.com/isthmus-cloud/isthmus/pkg/cloud"

func addOpenStack(map[string]cloud.Factory) {}
