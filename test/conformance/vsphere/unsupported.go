package vsphere

import (
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// unsupported is what vSphere lacks.
func unsupported() map[cloudtest.Feature]string {
	out := map[cloudtest.Feature]string{
		cloudtest.InstancesPodCIDRs: "vSphere gives machines no addresses for pods",
	}
	for _, f := range cloudtest.Features() {
		if strings.HasPrefix(string(f), "lb-") {
			out[f] = "load balancers of NSX-T are not served"
		}
		if strings.HasPrefix(string(f), "routes-") {
			out[f] = "routes of NSX-T are not served"
		}
	}
	return out
}
