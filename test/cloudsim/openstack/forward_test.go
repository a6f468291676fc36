package openstack_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward/forwardtest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

const nodePort = 30080

// twoServers seeds two servers and gives the members of a pool for them.
func twoServers(sim *ossim.Sim) (a, b string, members []pools.CreateMemberOpts) {
	for _, s := range sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-"}) {
		members = append(members, pools.CreateMemberOpts{Address: s.Addresses[0].String(), ProtocolPort: nodePort, Name: s.Name})
	}
	at := func(i int) string { return fmt.Sprintf("%s:%d", members[i].Address, nodePort) }
	return at(0), at(1), members
}

func TestForwardTCP(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	a, b, members := twoServers(sim)
	stopA := forwardtest.Backend(t, "a", a)
	forwardtest.Backend(t, "b", b)
	lb := createLB(t, c, full(sim, 8080, members...))
	vip := lb.VipAddress + ":8080"
	got := map[string]int{}
	for range 4 {
		got[must[string](t)(forwardtest.Ask(vip, ""))]++
	}
	if got["a hello"] != 2 || got["b hello"] != 2 {
		t.Errorf("round robin: %v", got)
	}
	stopA()
	for range 3 {
		if out, err := forwardtest.Ask(vip, ""); out != "b hello" {
			t.Errorf("with a dead member: %q, %v", out, err)
		}
	}
	f := must[*floatingips.FloatingIP](t)(floatingips.Create(t.Context(), neutron(t, sim), floatingips.CreateOpts{FloatingNetworkID: sim.Defaults().ExternalNetworkID, PortID: lb.VipPortID}).Extract())
	if out, err := forwardtest.Ask(f.FloatingIP+":8080", ""); out != "b hello" {
		t.Errorf("through the floating IP: %q, %v", out, err)
	}
	if err := floatingips.Delete(t.Context(), neutron(t, sim), f.ID).Err; err != nil {
		t.Fatal(err)
	}
	if out, err := forwardtest.Ask(f.FloatingIP+":8080", ""); err == nil {
		t.Errorf("through the deleted floating IP: %q", out)
	}
	deleteLB(t, c, lb.ID)
	if out, err := forwardtest.Ask(vip, ""); err == nil {
		t.Errorf("through the deleted load balancer: %q", out)
	}
}

func TestAllowedCIDRs(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	a, _, members := twoServers(sim)
	forwardtest.Backend(t, "a", a)
	opts := full(sim, 8080, members[0])
	opts.Listeners[0].AllowedCIDRs = []string{"127.0.0.7/32"}
	lb := createLB(t, c, opts)
	vip := lb.VipAddress + ":8080"
	if out, err := forwardtest.Ask(vip, "127.0.0.7"); out != "a hello" {
		t.Errorf("allowed client: %q, %v", out, err)
	}
	if out, err := forwardtest.Ask(vip, "127.0.0.8"); err == nil {
		t.Errorf("other client: %q", out)
	}
	if _, err := listeners.Update(t.Context(), c, lb.Listeners[0].ID, listeners.UpdateOpts{AllowedCIDRs: &[]string{}}).Extract(); err != nil {
		t.Fatal(err)
	}
	settled(t, c, lb.ID)
	if out, err := forwardtest.Ask(vip, "127.0.0.8"); out != "a hello" {
		t.Errorf("other client without allowed_cidrs: %q, %v", out, err)
	}
}

func TestSourceIPPersistence(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	a, b, members := twoServers(sim)
	forwardtest.Backend(t, "a", a)
	forwardtest.Backend(t, "b", b)
	opts := full(sim, 8080, members...)
	opts.Listeners[0].DefaultPool.Persistence = &pools.SessionPersistence{Type: "SOURCE_IP"}
	vip := createLB(t, c, opts).VipAddress + ":8080"
	both := map[string]bool{}
	for i := range 16 {
		from := fmt.Sprintf("127.0.1.%d", i+1)
		first := must[string](t)(forwardtest.Ask(vip, from))
		both[first] = true
		for range 2 {
			if out, err := forwardtest.Ask(vip, from); out != first {
				t.Errorf("%s went to %q, then to %q, %v", from, first, out, err)
			}
		}
	}
	if len(both) != 2 {
		t.Errorf("all clients on one member: %v", both)
	}
}

func TestMembersComeAndGo(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	a, b, members := twoServers(sim)
	forwardtest.Backend(t, "a", a)
	forwardtest.Backend(t, "b", b)
	lb := createLB(t, c, full(sim, 8080, members[0]))
	if err := pools.BatchUpdateMembers(t.Context(), c, lb.Pools[0].ID, []pools.BatchUpdateMemberOpts{{Address: members[1].Address, ProtocolPort: nodePort}}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	settled(t, c, lb.ID)
	for range 3 {
		if out, err := forwardtest.Ask(lb.VipAddress+":8080", ""); out != "b hello" {
			t.Errorf("after the change: %q, %v", out, err)
		}
	}
}

func TestForwardUDP(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	_, b, members := twoServers(sim) // nothing answers on the first
	pc := must[net.PacketConn](t)(net.ListenPacket("udp", b))
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo(append([]byte("b "), buf[:n]...), from)
		}
	}()
	t.Cleanup(func() {
		_ = pc.Close()
		<-done
	})
	opts := full(sim, 8053, members...)
	opts.Listeners[0].Protocol, opts.Listeners[0].DefaultPool.Protocol = "UDP", "UDP"
	lb := createLB(t, c, opts)
	for range 4 {
		conn := must[net.Conn](t)(net.Dial("udp", lb.VipAddress+":8053"))
		for _, word := range []string{"one", "two"} {
			if _, err := conn.Write([]byte(word)); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			buf := make([]byte, 64)
			n, err := conn.Read(buf)
			if got := string(buf[:n]); got != "b "+word {
				t.Errorf("answer %q, %v", got, err)
			}
		}
		_ = conn.Close()
	}
}

func TestForwardHTTPWithHeaders(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	a, _, members := twoServers(sim)
	ln := must[net.Listener](t)(net.Listen("tcp", a))
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Host, r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Port"))
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	opts := full(sim, 8080, members...) // the second is dead
	opts.Listeners[0].Protocol, opts.Listeners[0].DefaultPool.Protocol = "HTTP", "HTTP"
	opts.Listeners[0].InsertHeaders = map[string]string{"X-Forwarded-For": "true"}
	vip := createLB(t, c, opts).VipAddress + ":8080"
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for range 3 {
		req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+vip+"/", nil))
		req.Host = "shop.example"
		resp := must[*http.Response](t)(client.Do(req))
		body := must[[]byte](t)(io.ReadAll(resp.Body))
		_ = resp.Body.Close()
		if got := string(body); got != "shop.example 127.0.0.1 " {
			t.Errorf("backend saw %q", got)
		}
	}
}

func TestProxyProtocol(t *testing.T) {
	for protocol, want := range map[pools.Protocol]string{
		"PROXY":   "PROXY TCP4 127.0.0.9 ",
		"PROXYV2": "",
	} {
		sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
		c := octavia(t, sim)
		a, _, members := twoServers(sim)
		ln := must[net.Listener](t)(net.Listen("tcp", a))
		head := make(chan string, 1)
		go func() {
			defer close(head)
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			buf := make([]byte, 256)
			n, _ := conn.Read(buf)
			head <- string(buf[:n])
		}()
		opts := full(sim, 8080, members[0])
		opts.Listeners[0].DefaultPool.Protocol = protocol
		_, _ = forwardtest.Ask(createLB(t, c, opts).VipAddress+":8080", "127.0.0.9")
		got := <-head
		_ = ln.Close()
		if want == "" {
			want = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x09"
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: member got %q", protocol, got)
		}
	}
}

func TestHealthMonitor(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	a, _, members := twoServers(sim)
	stopA := forwardtest.Backend(t, "a", a)
	opts := full(sim, 8080, members...)
	opts.Listeners[0].DefaultPool.Monitor = &monitors.CreateOpts{Type: "TCP", Delay: 1, Timeout: 1, MaxRetries: 1, MaxRetriesDown: 1}
	lb := createLB(t, c, opts)
	statuses := func(want string) func() bool {
		return func() bool {
			tree := must[*loadbalancers.StatusTree](t)(loadbalancers.GetStatuses(t.Context(), c, lb.ID).Extract())
			p := tree.Loadbalancer.Listeners[0].Pools[0]
			got := []string{p.OperatingStatus}
			for _, m := range p.Members {
				got = append(got, m.OperatingStatus)
			}
			return strings.Join(got, " ") == want
		}
	}
	eventually.True(t, "the dead member is found", statuses("DEGRADED ONLINE ERROR"))
	stopA()
	eventually.True(t, "both are found dead", statuses("ERROR ERROR ERROR"))
	forwardtest.Backend(t, "a", a)
	eventually.True(t, "the first is back", statuses("DEGRADED ONLINE ERROR"))
}

func TestPortTakenOnTheHost(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	lb := createLB(t, c, full(sim, 8080))
	var lc net.ListenConfig
	ln := must[net.Listener](t)(lc.Listen(context.Background(), "tcp", lb.VipAddress+":8081"))
	defer func() { _ = ln.Close() }()
	if _, err := listeners.Create(t.Context(), c, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: "TCP", ProtocolPort: 8081}).Extract(); err != nil {
		t.Fatal(err)
	}
	if got := settled(t, c, lb.ID); got.ProvisioningStatus != "ERROR" {
		t.Errorf("load balancer is %s", got.ProvisioningStatus)
	}
	deleteLB(t, c, lb.ID)
}
