package openstack

import (
	"net/http"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// mutates reports whether a request would change the cloud.
func mutates(r *ossim.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Service != "identity"
}

// calls is how many requests are in the simulator's log, but for the looks of Cloud.Busy, and how many of all are not answered.
func calls(log []ossim.Request) (all, open int) {
	for i := range log {
		if log[i].Status == 0 {
			open++
		}
		if log[i].Path != "/lbaas/loadbalancers" || log[i].Query.Get("name") != "" || mutates(&log[i]) {
			all++
		}
	}
	return all, open
}
