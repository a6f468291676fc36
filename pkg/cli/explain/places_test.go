package explain

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cli/clitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/conformance/vsphere/paravirtual"
)

// place is a simulated cloud.
type place struct {
	*clitest.Cloud
	// clusterName is the flag's value, "" for its default.
	clusterName string
	// changes are the calls that have changed it, masked.
	changes func() []string
	// wrong is an annotation that it does not take, "" where it takes none.
	wrong string
	// selects is true where the cloud itself finds the members of load balancers.
	selects bool
	// part is how the plan of a load balancer that is not there ends: it is the beginning of what is done then, and not all of it.
	part bool
	// fail has the service of load balancers answer with a status until undone.
	fail func(status int) (undo func())
	// newborn is true where it may not know an instance yet of a Node that is as new.
	newborn bool
}

var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// masked is a call without what differs each time, and without the parts of a path that a simulator leaves out.
func masked(call string) string {
	for _, endpoint := range []string{"/load-balancer/v2.0", "/network/v2.0", "/apis/"} {
		call = strings.Replace(call, endpoint, "", 1)
	}
	call, _, _ = strings.Cut(call, "?")
	return ids.ReplaceAllString(call, "ID")
}

func openStack(t *testing.T) *place {
	c := clitest.NewOpenStack(t, ossim.Options{StateDelay: 3 * time.Millisecond})
	sim := c.OpenStack
	return &place{Cloud: c, wrong: "loadbalancer.openstack.org/default-tls-container-ref", part: true, fail: func(status int) func() {
		return sim.AddFault(core.Fault{Service: "load-balancer", Status: status})
	}, changes: func() (out []string) {
		for _, r := range sim.Requests() {
			if r.Method != http.MethodGet && r.Service != "identity" {
				out = append(out, masked(r.Method+" "+r.Path))
			}
		}
		return out
	}}
}

func amazon(t *testing.T) *place {
	c := clitest.NewAWS(t, awssim.Options{})
	return &place{Cloud: c, newborn: true, wrong: "service.beta.kubernetes.io/aws-load-balancer-target-group-attributes",
		changes: func() (out []string) {
			for _, a := range c.AWS.Actions() {
				if !strings.HasPrefix(a, "Describe") {
					out = append(out, a)
				}
			}
			return out
		}}
}

// superVisor is one that is the cluster's own API server.
func superVisor(t *testing.T) *place {
	c := clitest.NewSupervisor(t, shared.Plane(t), t.TempDir())
	w := c.Supervisor
	var all []string
	return &place{Cloud: c, clusterName: w.Owner.Name, selects: true, changes: func() []string {
		for _, r := range paravirtual.Writes(w.Requests()) {
			all = append(all, masked(r))
		}
		return all
	}}
}

func vCenter(t *testing.T) *place {
	c := clitest.NewVSphere(t)
	return &place{Cloud: c, changes: c.VSphere.Changes}
}
