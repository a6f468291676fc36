package main

import (
	"fmt"
	"net/http"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// openStack is the simulated OpenStack. Its Octavia has a jobboard: without one, amphora's load balancers
// keep children that refuse changes, which is a matter of that cloud and not of who asks.
func openStack() cloudKind {
	return cloudKind{name: "openstack", provider: "openstack", other: "OCCM", open: func(d delays) (world, error) {
		sim, err := ossim.Start(ossim.Options{Jobboard: true, OctaviaDelay: d.pending})
		if err != nil {
			return nil, err
		}
		sim.AddFault(ossim.Fault{Latency: d.call})
		w := &osWorld{sim: sim}
		w.empty = w.things()
		return w, nil
	}}
}

type osWorld struct {
	sim *ossim.Sim
	// empty is how many things there are before anybody makes one, joined how often machines were made.
	empty, joined int
}

func (w *osWorld) config() string { return w.sim.CloudConf() }

func (w *osWorld) environ() []string { return nil }

func (w *osWorld) about() string { return "simulated OpenStack Zed (Keystone, Nova, Neutron, Octavia)" }

func (w *osWorld) join(n int) ([]machine, error) {
	w.joined++
	var out []machine
	for _, s := range w.sim.SeedServers(ossim.Seed{Count: n, NamePrefix: fmt.Sprintf("node-%d-", w.joined), Zones: []string{"az1", "az2", "az3"}}) {
		out = append(out, machine{id: s.ID, name: s.Name, uuid: s.ID})
	}
	if len(out) < n {
		return nil, fmt.Errorf("the simulated network has addresses for %d of %d servers only: ask for fewer Nodes", len(out), n)
	}
	return out, nil
}

func (w *osWorld) leave(m machine) error {
	if !w.sim.DeleteServer(m.id) {
		return fmt.Errorf("the simulated cloud has no server %s", m.name)
	}
	return nil
}

func (w *osWorld) calls() calls {
	var out calls
	for _, r := range w.sim.Requests() {
		switch {
		case r.Method == http.MethodGet || r.Method == http.MethodHead || r.Path == "/auth/tokens":
			out.reads++
		default:
			out.writes++
		}
		if r.Duration == 0 {
			out.open++
		}
	}
	return out
}

func (w *osWorld) behind(m machine) (in, pools int) {
	s, there := w.sim.Server(m.id)
	for _, lb := range w.sim.LoadBalancers() {
		for _, l := range lb.Listeners {
			if l.Pool == nil {
				continue
			}
			pools++
			for _, member := range l.Pool.Members {
				if member.Name == m.name || there && member.At.Addr() == s.Addresses[0] {
					in++
					break
				}
			}
		}
	}
	return in, pools
}

func (w *osWorld) left() int { return w.things() - w.empty }

func (w *osWorld) things() int {
	s := w.sim.Snapshot()
	return len(s.LoadBalancers) + len(s.Listeners) + len(s.Pools) + len(s.Members) + len(s.FloatingIPs) + len(s.SecurityGroups)
}

func (w *osWorld) busy() bool {
	for _, lb := range w.sim.LoadBalancers() {
		if lb.Provisioning != "ACTIVE" && lb.Provisioning != "ERROR" {
			return true
		}
	}
	return false
}

func (w *osWorld) close() { w.sim.Close() }
