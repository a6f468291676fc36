//go:build !no_vsphere

package providers

import (
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual"
)

func addVSphere(all map[string]cloud.Factory) {
	all[vsphere.Name] = vsphere.New
	all[paravirtual.Name] = paravirtual.New
}
