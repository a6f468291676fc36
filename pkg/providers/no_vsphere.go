//go:build no_vsphere

package providers

import "github.com/isthmus-cloud/isthmus/pkg/cloud"

func addVSphere(map[string]cloud.Factory) {}
