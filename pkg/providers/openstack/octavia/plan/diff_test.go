package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

func diffNames() Names {
	return NamesOf(cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: "c", UID: "u1"}, Namespace: "ns", Name: "s"})
}

// ownership is how the Service stands to the load balancer.
type ownership struct {
	names      Names
	owner, ovn bool
}

// diffTree plans what leads from one tree to the other.
func diffTree(have, want *Tree, o ownership) ([]Change, *Tree, error) {
	desired, lb, role := Nothing(o.names), &LoadBalancer{}, Tenant
	desired.Tree = want
	if o.ovn {
		lb.Provider = config.ProviderOVN
	}
	if o.owner {
		role = Owner
	}
	return Plan(Observed{LoadBalancer: lb, Tree: have}, desired, role)
}

// haveTree is a load balancer with one port for each transport, as Isthmus makes it.
func haveTree(change func(*Tree)) *Tree {
	n := diffNames()
	weight := 1
	t := &Tree{}
	for i, proto := range []string{ProtoTCP, ProtoUDP} {
		p := &Pool{
			ID: "pool-" + proto, Name: n.pool(i), Protocol: proto, Method: config.MethodRoundRobin, Status: StateActive, Used: true,
			Members: []Member{
				{Name: "n1", Address: "10.0.0.1", Port: 30000 + i, Weight: &weight, SubnetID: "sub"},
				{Name: "n2", Address: "10.0.0.2", Port: 30000 + i, Weight: &weight, SubnetID: "sub"},
			},
			Monitor: &Monitor{ID: "monitor-" + proto, Name: n.monitor(i), Type: MonitorTCP, Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3, Status: StateActive},
		}
		t.Pools = append(t.Pools, p)
		t.Listeners = append(t.Listeners, &Listener{
			ID: "listener-" + proto, Name: n.listener(i), Protocol: proto, Port: 80 + i, Connections: -1,
			Timeouts: &Timeouts{50000, 5000, 50000, 0}, Tags: []string{n.LB, n.OwnerTag}, Pool: p,
		})
	}
	if change != nil {
		change(t)
	}
	return t
}

// wantTree is the same as it is wanted: without what only the cloud knows.
func wantTree(change func(*Tree)) *Tree {
	t := haveTree(nil)
	for _, l := range t.Listeners {
		l.ID = ""
		l.Pool.ID, l.Pool.Monitor.ID, l.Pool.Monitor.Status = "", "", ""
		for i := range l.Pool.Members {
			l.Pool.Members[i].Weight, l.Pool.Members[i].SubnetID = nil, ""
		}
	}
	if change != nil {
		change(t)
	}
	return t
}

func TestDiffTree(t *testing.T) {
	n := diffNames()
	l0, l1, p0, p1 := n.listener(0), n.listener(1), n.pool(0), n.pool(1)
	foreign := &Listener{ID: "f", Name: "theirs", Protocol: ProtoTCP, Port: 443, Tags: []string{"kube_service_c_ns_other"}}
	tests := []struct {
		name       string
		have, want func(*Tree)
		shared     bool
		ovn        bool
		changes    []string
	}{
		{name: "nothing to do"},
		{name: "nothing to do on a shared load balancer", shared: true, have: func(h *Tree) { h.Listeners = append(h.Listeners, foreign) }},
		{name: "as other controllers write it: no owner's tag", have: func(h *Tree) {
			h.Listeners[0].Tags, h.Listeners[1].Tags = []string{n.LB}, nil
		}},
		{
			name: "source ranges", want: func(w *Tree) { w.Listeners[0].AllowedCIDRs = []string{"10.0.0.0/8"} },
			changes: []string{"update listener " + l0 + " TCP/80"},
		},
		{
			name: "port of one protocol changes", want: func(w *Tree) { w.Listeners[0].Port = 8080 },
			changes: []string{"delete listener " + l0 + " TCP/80", "delete pool " + p0, "create listener " + l0 + " TCP/8080",
				"create pool " + p0, "set members of " + p0 + ": 2", "create monitor " + p0},
		},
		{
			name: "one port less", want: func(w *Tree) { w.Listeners, w.Pools = w.Listeners[:1], w.Pools[:1] },
			changes: []string{"delete listener " + l1 + " UDP/81", "delete pool " + p1},
		},
		{
			name: "listener protocol", want: func(w *Tree) {
				w.Listeners[0].Protocol, w.Listeners[0].ForwardedFor, w.Pools[0].Protocol = ProtoHTTP, true, ProtoHTTP
			},
			changes: []string{"create pool " + p0, "set members of " + p0 + ": 2", "create monitor " + p0,
				"delete listener " + l0 + " TCP/80", "create listener " + l0 + " HTTP/80", "delete pool " + p0},
		},
		{
			name: "listener protocol, crash before the new pool was used", want: func(w *Tree) {
				w.Listeners[0].Protocol, w.Listeners[0].ForwardedFor, w.Pools[0].Protocol = ProtoHTTP, true, ProtoHTTP
			}, have: func(h *Tree) {
				h.Pools = append(h.Pools, &Pool{ID: "new", Name: p0, Protocol: ProtoHTTP, Method: config.MethodRoundRobin, Status: StateActive})
			},
			changes: []string{"set members of " + p0 + ": 2", "create monitor " + p0, "delete listener " + l0 + " TCP/80", "create listener " + l0 + " HTTP/80", "delete pool " + p0},
		},
		{
			name: "pool protocol: no outage", want: func(w *Tree) { w.Pools[0].Protocol = ProtoProxy },
			changes: []string{"create pool " + p0, "set members of " + p0 + ": 2", "create monitor " + p0, "update listener " + l0 + " TCP/80", "delete pool " + p0},
		},
		{
			name: "members of another subnet, where one is wanted", want: func(w *Tree) {
				w.Pools[0].Members[1].SubnetID, w.Pools[1].Members[0].SubnetID = "other", "sub"
			},
		},
		{
			name: "algorithm and affinity", want: func(w *Tree) { w.Pools[0].Method, w.Pools[1].ByClientIP = config.MethodSourceIP, true },
			changes: []string{"update pool " + p0, "update pool " + p1},
		},
		{
			name: "a node more, one renamed", want: func(w *Tree) {
				w.Pools[0].Members = append(w.Pools[0].Members, Member{Name: "n3", Address: "10.0.0.3", Port: 30000})
				w.Pools[1].Members[0].Name = "new"
			},
			changes: []string{"set members of " + p0 + ": 3", "set members of " + p1 + ": 2"},
		},
		{
			name: "members in another order and with an operator's weight are the same", have: func(h *Tree) {
				m := h.Pools[0].Members
				m[0], m[1] = m[1], m[0]
				zero := 0
				m[0].Weight = &zero
			},
		},
		{
			name: "monitor's values, type, absence", want: func(w *Tree) { w.Pools[0].Monitor.Delay, w.Pools[1].Monitor = 9, nil },
			changes: []string{"update monitor " + p0, "delete monitor " + p1},
		},
		{
			name: "monitor's type", want: func(w *Tree) { w.Pools[0].Monitor.Type, w.Pools[0].Monitor.Path = MonitorHTTP, "/healthz" },
			changes: []string{"delete monitor " + p0, "create monitor " + p0},
		},
		{
			name: "what an HTTP monitor asks for", have: func(h *Tree) {
				m := h.Pools[0].Monitor
				m.Type, m.Path, m.Method, m.Codes = MonitorHTTP, "/healthz", "GET", "200-499"
			}, want: func(w *Tree) {
				m := w.Pools[0].Monitor
				m.Type, m.Path, m.Method, m.Codes = MonitorHTTP, "/healthz", "GET", "200"
			},
			changes: []string{"update monitor " + p0},
		},
		{
			name: "the port of the health check", want: func(w *Tree) {
				for i := range w.Pools[0].Members {
					w.Pools[0].Members[i].MonitorPort = 31000
				}
			},
			changes: []string{"set members of " + p0 + ": 2"},
		},
		{
			name: "pool stuck in PENDING_CREATE, nothing to change", have: func(h *Tree) { h.Pools[0].Status = "PENDING_CREATE" },
		},
		{
			name: "pool stuck in PENDING_CREATE", have: func(h *Tree) {
				h.Pools[0].Status = "PENDING_CREATE"
				h.Pools[0].Members = h.Pools[0].Members[:1]
			},
			changes: []string{"touch pool " + p0, "set members of " + p0 + ": 2"},
		},
		{
			name: "crash before the pool was made", have: func(h *Tree) { h.Listeners[1].Pool, h.Pools = nil, h.Pools[:1] },
			changes: []string{"create pool " + p1, "set members of " + p1 + ": 2", "create monitor " + p1},
		},
		{
			name: "crash after a listener was deleted: its pool is taken", have: func(h *Tree) {
				h.Pools[1].Used = false
				h.Listeners = h.Listeners[:1]
			},
			changes: []string{"create listener " + l1 + " UDP/81"},
		},
		{
			name: "crash after a listener was deleted: its pool is of no use", have: func(h *Tree) {
				h.Pools = append(h.Pools, &Pool{ID: "o", Name: n.pool(7), Protocol: ProtoTCP, Status: StateActive})
			},
			changes: []string{"delete pool " + n.pool(7)},
		},
		{
			name: "pools of others stay", have: func(h *Tree) {
				h.Pools = append(h.Pools, &Pool{ID: "o", Name: "pool_0_kube_service_c_ns_other", Protocol: ProtoTCP},
					&Pool{ID: "o2", Name: "mine", Protocol: ProtoTCP}, &Pool{ID: "o3", Name: "pool_07_" + n.LB, Protocol: ProtoTCP})
			},
		},
		{
			name: "untagged listeners of a shared load balancer stay", shared: true, want: func(w *Tree) { w.Listeners, w.Pools = nil, nil },
			have: func(h *Tree) { h.Listeners[0].Tags, h.Listeners[1].Tags = nil, []string{n.LB, "isthmus-cluster=u2"} },
		},
		{
			name: "everything goes", want: func(w *Tree) { w.Listeners, w.Pools = nil, nil },
			have:    func(h *Tree) { h.Listeners = append(h.Listeners, foreign) },
			changes: []string{"delete listener " + l0 + " TCP/80", "delete pool " + p0, "delete listener " + l1 + " UDP/81", "delete pool " + p1},
		},
		{
			name: "ovn: monitors go before a listener is made, and come last", ovn: true, want: func(w *Tree) { w.Listeners[0].Port = 8080 },
			changes: []string{"delete monitor " + p0, "delete monitor " + p1, "delete listener " + l0 + " TCP/80", "delete pool " + p0,
				"create listener " + l0 + " TCP/8080", "create pool " + p0, "set members of " + p0 + ": 2",
				"create monitor " + p1, "create monitor " + p0},
		},
		{
			name: "ovn: a monitor goes before its pool", ovn: true, want: func(w *Tree) { w.Listeners, w.Pools = w.Listeners[:1], w.Pools[:1] },
			changes: []string{"delete monitor " + p1, "delete listener " + l1 + " UDP/81", "delete pool " + p1},
		},
		{
			name: "ovn: a monitor that exists in Octavia's database only is left alone", ovn: true,
			have: func(h *Tree) { h.Pools[0].Monitor.Status = "PENDING_CREATE" },
			want: func(w *Tree) { w.Pools[0].Monitor, w.Pools[1].Monitor.Delay = nil, 9 }, changes: []string{"update monitor " + p1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			have, want := haveTree(tt.have), wantTree(tt.want)
			before := dump(t, have)
			o := ownership{names: n, owner: !tt.shared, ovn: tt.ovn}
			changes, next, err := diffTree(have, want, o)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(tt.changes, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if after := dump(t, have); after != before {
				t.Errorf("diffTree changed what is:\n%s", cmp.Diff(before, after))
			}
			// What results is what is wanted, so that nothing is left to do.
			if again, _, err := diffTree(next, want, o); err != nil || len(again) > 0 {
				t.Errorf("a second diff finds %v, %v", again, err)
			}
		})
	}
}

func TestDiffTreeConflicts(t *testing.T) {
	tests := []struct {
		name string
		have func(*Tree)
		err  string
	}{
		{name: "port taken", have: func(h *Tree) { h.Listeners[0].Tags = []string{"kube_service_c_ns_other"} },
			err: `port 80/TCP is taken by listener listener-TCP`},
		{name: "port taken by a Service of the same name in a cluster of the same name",
			have: func(h *Tree) { h.Listeners[1].Tags = []string{diffNames().LB, "isthmus-cluster=u2"} },
			err:  `port 81/UDP is taken by listener listener-UDP`},
		{name: "foreign pool of another protocol", have: func(h *Tree) { h.Pools[0].Name, h.Pools[0].Protocol = "mine", ProtoHTTP },
			err: `listener listener-TCP sends to pool pool-TCP ("mine") of protocol HTTP, which is not this Service's`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := diffTree(haveTree(tt.have), wantTree(nil), ownership{names: diffNames(), owner: true})
			if cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("err = %v, want KindConflict with %q", err, tt.err)
			}
		})
	}
}

// TestMergeMembersKeeps: what operators set on members survives an update.
func TestMergeMembersKeeps(t *testing.T) {
	zero := 0
	have := []Member{{Name: "old", Address: "10.0.0.1", Port: 1, MonitorPort: 9, Weight: &zero, Disabled: true, Backup: true, SubnetID: "sub", Tags: []string{"t"}}}
	want := []Member{{Name: "new", Address: "10.0.0.1", Port: 1}, {Name: "b", Address: "10.0.0.0", Port: 1}}
	moved := []Member{{Name: "old", Address: "10.0.0.1", Port: 1, MonitorPort: 9, SubnetID: "other"}}
	merge := func(want []Member, ovn bool) ([]Member, bool) {
		d := treeDiff{ovn: ovn}
		return d.mergeMembers(&Pool{Members: have, Monitor: &Monitor{}}, &Pool{Members: want})
	}
	if got, same := merge(moved, true); !same || got[0].SubnetID != "sub" {
		t.Errorf("on ovn a member moves to subnet %s, where Octavia would lose it", got[0].SubnetID)
	}
	if got, same := merge(moved, false); !same || got[0].SubnetID != "other" {
		t.Errorf("another subnet alone: same is %v; with the next change the member is in subnet %s", same, got[0].SubnetID)
	}
	got, same := merge(want, false)
	if same {
		t.Error("same = true")
	}
	if diff := cmp.Diff([]Member{
		{Name: "b", Address: "10.0.0.0", Port: 1},
		{Name: "new", Address: "10.0.0.1", Port: 1, ClearMonitorPort: true, Weight: &zero, Disabled: true, Backup: true, SubnetID: "sub", Tags: []string{"t"}},
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMonitorPortsCountWhenThereIsAMonitor: those that members have left of one that is gone, as OCCM
// leaves them, change nothing.
func TestMonitorPortsCountWhenThereIsAMonitor(t *testing.T) {
	have := func(h *Tree) {
		h.Pools[0].Monitor = nil
		for i := range h.Pools[0].Members {
			h.Pools[0].Members[i].MonitorPort = 32000
		}
	}
	owner := ownership{names: diffNames(), owner: true}
	changes, next, err := diffTree(haveTree(have), wantTree(func(w *Tree) { w.Listeners[0].Pool.Monitor = nil }), owner)
	if err != nil || len(changes) > 0 || next.Pools[0].Members[0].MonitorPort != 32000 {
		t.Errorf("%v, %v; want no change", changes, err)
	}
	changes, _, err = diffTree(haveTree(have), wantTree(func(w *Tree) { w.Listeners[0].Pool.Monitor = &Monitor{Type: MonitorTCP, Delay: 5} }), owner)
	if err != nil || len(changes) != 2 || changes[0].Action != SetMembers || changes[1].Action != CreateMonitor {
		t.Errorf("%v, %v; want the members and a monitor", changes, err)
	}
}

func dump(t *testing.T, tree *Tree) string {
	t.Helper()
	b, err := json.MarshalIndent(tree, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
