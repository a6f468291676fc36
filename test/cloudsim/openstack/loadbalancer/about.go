package loadbalancer

import "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"

// lbVersions are the versions of Octavia's API and when they were made.
func lbVersions() [][2]string {
	return [][2]string{
		{"v2.0", "2016-12-11T00:00:00Z"},
		{"v2.1", "2018-04-20T00:00:00Z"},
		{"v2.2", "2018-07-31T00:00:00Z"},
		{"v2.3", "2018-12-18T00:00:00Z"},
		{"v2.4", "2018-12-19T00:00:00Z"},
		{"v2.5", "2019-01-21T00:00:00Z"},
		{"v2.6", "2019-01-25T00:00:00Z"},
		{"v2.7", "2018-01-25T12:00:00Z"},
		{"v2.8", "2019-02-12T00:00:00Z"},
		{"v2.9", "2019-03-04T00:00:00Z"},
		{"v2.10", "2019-03-05T00:00:00Z"},
		{"v2.11", "2019-06-24T00:00:00Z"},
		{"v2.12", "2019-09-11T00:00:00Z"},
		{"v2.13", "2019-09-13T00:00:00Z"},
		{"v2.14", "2019-11-10T00:00:00Z"},
		{"v2.15", "2020-03-10T00:00:00Z"},
		{"v2.16", "2020-03-15T00:00:00Z"},
		{"v2.17", "2020-04-29T00:00:00Z"},
		{"v2.18", "2020-04-29T01:00:00Z"},
		{"v2.19", "2020-05-12T00:00:00Z"},
		{"v2.20", "2020-08-02T00:00:00Z"},
		{"v2.21", "2020-09-03T00:00:00Z"},
		{"v2.22", "2020-09-04T00:00:00Z"},
		{"v2.23", "2020-09-07T00:00:00Z"},
		{"v2.24", "2020-10-15T00:00:00Z"},
		{"v2.25", "2021-10-02T00:00:00Z"},
		{"v2.26", "2022-08-29T00:00:00Z"},
	}
}

// octaviaAbout registers what Octavia tells about itself.
func (s *Octavia) octaviaAbout(r *core.Router) {
	r.Open("GET /{$}", func(c *core.Call) (*core.Reply, error) {
		all := lbVersions()
		out := make([]core.Object, len(all))
		for i, v := range all {
			status := "SUPPORTED"
			if i == len(all)-1 {
				status = "CURRENT"
			}
			out[i] = core.Object{"id": v[0], "status": status, "updated": v[1], "links": []core.Object{{"rel": "self", "href": c.URL("/v2")}}}
		}
		return core.OK(core.Object{"versions": out})
	})
	for _, v := range []string{"/v2", "/v2.0"} {
		r.Handle("GET "+v, func(*core.Call) (*core.Reply, error) { return core.OK("v2") })
		r.Handle("GET "+v+"/lbaas", func(*core.Call) (*core.Reply, error) { return core.OK("v2") })
		r.Handle("GET "+v+"/lbaas/providers", func(*core.Call) (*core.Reply, error) {
			return core.OK(core.Object{"providers": []core.Object{
				{"name": amphora, "description": "The amphora driver (noop amphorae)"}, {"name": "octavia", "description": "alias of amphora"},
				{"name": ovn, "description": "OVN provider"},
			}})
		})
		for path, key := range map[string]string{"flavors": "flavors", "availabilityzones": "availability_zones", "l7policies": "l7policies"} {
			r.Handle("GET "+v+"/lbaas/"+path, func(*core.Call) (*core.Reply, error) {
				return core.OK(core.Object{key: []any{}, key + "_links": []any{}})
			})
		}
		r.Handle("GET "+v+"/lbaas/quotas/{project}", func(c *core.Call) (*core.Reply, error) {
			if !c.Sees(c.Param("project")) {
				return nil, forbidden()
			}
			return core.OK(core.Object{"quota": core.Object{"load_balancer": -1, "listener": -1, "member": -1, "pool": -1, "health_monitor": -1, "l7policy": -1, "l7rule": -1}})
		})
	}
}
