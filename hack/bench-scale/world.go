package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/compute"
)

// edge is the label of the Nodes that are members of load balancers.
const edge = "edge"

// world is the simulated cloud.
type world struct {
	sim    *ossim.Sim
	joined int
	// labeled is how many of the machines so far have the label edge.
	labeled int
}

func newWorld(s settings) (*world, error) {
	sim, err := ossim.Start(ossim.Options{Jobboard: true, OctaviaDelay: s.pending})
	if err != nil {
		return nil, err
	}
	sim.AddFault(ossim.Fault{Latency: s.delay})
	return &world{sim: sim}, nil
}

func (w *world) config() string {
	return strings.Replace(w.sim.CloudConf(), "[LoadBalancer]\n", "[LoadBalancer]\nnode-selector = "+edge+"\n", 1)
}

// join makes n more machines; members is how many of all are to be members.
func (w *world) join(n, members int) ([]rig.Machine, error) {
	w.joined++
	servers := w.sim.SeedServers(compute.Seed{Count: n, NamePrefix: fmt.Sprintf("node-%d-", w.joined), Zones: []string{"az1", "az2", "az3"}})
	if len(servers) < n {
		return nil, fmt.Errorf("the simulated network has addresses for %d of %d servers only: ask for fewer Nodes", len(servers), n)
	}
	var out []rig.Machine
	for _, s := range servers {
		m := rig.Machine{Name: s.Name, UUID: s.ID}
		if w.labeled < members {
			w.labeled++
			m.Labels = map[string]string{edge: ""}
		}
		out = append(out, m)
	}
	return out, nil
}

// calls are the calls that a cloud has had, by kind: method, service and path, with * for what names an object.
type calls map[string]int

func (c calls) sum() int {
	n := 0
	for _, k := range c {
		n += k
	}
	return n
}

// minus is what came after before.
func (c calls) minus(before calls) calls {
	out := calls{}
	for kind, n := range c {
		if n -= before[kind]; n > 0 {
			out[kind] = n
		}
	}
	return out
}

var objectID = regexp.MustCompile(`[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}`)

// calls returns all calls so far, and how many of them are not answered yet.
func (w *world) calls() (all calls, open int) {
	all = calls{}
	for _, r := range w.sim.Requests() {
		all[r.Method+" "+r.Service+objectID.ReplaceAllString(r.Path, "*")]++
		if r.Duration == 0 {
			open++
		}
	}
	return all, open
}

// behind is in how many of the pools of load balancers there are as many members as there are to be.
func (w *world) behind(members int) (full, pools int) {
	for _, lb := range w.sim.LoadBalancers() {
		for _, l := range lb.Listeners {
			if l.Pool == nil {
				continue
			}
			pools++
			if len(l.Pool.Members) == members {
				full++
			}
		}
	}
	return full, pools
}

// busy reports whether a load balancer is still changing.
func (w *world) busy() bool {
	for _, lb := range w.sim.LoadBalancers() {
		if lb.Provisioning != "ACTIVE" && lb.Provisioning != "ERROR" {
			return true
		}
	}
	return false
}

// settings are what a run is like.
type settings struct {
	nodes, services []int
	// members is how many Nodes are members of each load balancer.
	members        int
	delay, pending time.Duration
	timeout        time.Duration
	// idle is how long the manager is looked at while it has nothing to do, and quiet how long nothing must
	// happen until it has nothing to do.
	idle, quiet time.Duration
	// cycle is --node-status-update-frequency while one cycle is measured.
	cycle time.Duration
}
