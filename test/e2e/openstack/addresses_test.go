//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
)

// cleanUp undoes something when the test ends.
func (c *realCloud) cleanUp(t *testing.T, what string, f func(context.Context) error) {
	t.Cleanup(func() {
		if err := c.cleanup(f); err != nil {
			t.Errorf("remove %s: %v", what, err)
		}
	})
}

// dualStackPort makes a port on a dual-stack network of its own.
func (c *realCloud) dualStackPort(t *testing.T, network string) *ports.Port {
	t.Helper()
	ctx, neutron := t.Context(), c.member.network
	n, err := networks.Create(ctx, neutron, networks.CreateOpts{Name: network}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	c.cleanUp(t, "network "+network, func(ctx context.Context) error { return networks.Delete(ctx, neutron, n.ID).ExtractErr() })
	for cidr, version := range map[string]gophercloud.IPVersion{"10.8.0.0/24": gophercloud.IPv4, "fd08::/64": gophercloud.IPv6} {
		o := subnets.CreateOpts{NetworkID: n.ID, CIDR: cidr, IPVersion: version}
		if version == gophercloud.IPv6 {
			o.IPv6AddressMode, o.IPv6RAMode = "slaac", "slaac"
		}
		if _, err := subnets.Create(ctx, neutron, o).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	p, err := ports.Create(ctx, neutron, ports.CreateOpts{NetworkID: n.ID}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	c.cleanUp(t, "port on "+network, func(ctx context.Context) error { return ports.Delete(ctx, neutron, p.ID).ExtractErr() })
	return p
}

// instances is the provider's answers with a configuration.
func (c *realCloud) instances(t *testing.T, more string) cloud.Instances {
	t.Helper()
	p, _, err := openstack.New(t.Context(), writeConf(t, c.conf(more)), cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Instances
}

// A server with two networks, one of them dual-stack, a floating IP, access addresses and a
// host name: what its Node gets by each of the address rules.
func TestNodeAddresses(t *testing.T) {
	c := theCloud(t)
	dual := c.dualStackPort(t, "e2e-dual")
	s := c.boot(t, "e2e-addresses")[0]
	attachTo(t, c, s.id, dual.ID)
	fip, err := floatingips.Create(t.Context(), c.member.network, floatingips.CreateOpts{FloatingNetworkID: c.externalID, PortID: s.portID}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	c.cleanUp(t, "floating IP", func(ctx context.Context) error { return floatingips.Delete(ctx, c.member.network, fip.ID).ExtractErr() })
	if _, err := servers.UpdateMetadata(t.Context(), c.member.compute, s.id, servers.MetadataOpts{"hostname": "n1.example.org"}).Extract(); err != nil {
		t.Fatal(err)
	}
	if _, err := servers.Update(t.Context(), c.member.compute, s.id, servers.UpdateOpts{AccessIPv4: "192.0.2.9", AccessIPv6: "2001:db8::9"}).Extract(); err != nil {
		t.Fatal(err)
	}
	awaitPorts(t, c, s.portID, dual.ID)
	awaitFloating(t, c, s.id, fip.FloatingIP)

	in := func(a string) string { return "InternalIP=" + a }
	ex := func(a string) string { return "ExternalIP=" + a }
	var first, v4, v6 string // of the ports, which come in the order of their IDs
	first = s.address.String()
	for _, ip := range dual.FixedIPs {
		if strings.Contains(ip.IPAddress, ":") {
			v6 = ip.IPAddress
		} else {
			v4 = ip.IPAddress
		}
	}
	dualIPs := []string{in(dual.FixedIPs[0].IPAddress), in(dual.FixedIPs[1].IPAddress)}
	both := append([]string{in(first)}, dualIPs...)
	if dual.ID < s.portID {
		both = append(append([]string{}, dualIPs...), in(first))
	}
	access := []string{ex("192.0.2.9"), ex("2001:db8::9"), "Hostname=n1.example.org"}
	join := func(lists ...[]string) (out []string) {
		for _, l := range lists {
			out = append(out, l...)
		}
		return out
	}
	float := []string{ex(fip.FloatingIP)}
	tests := map[string][]string{
		"": join(both, access, float),
		"[Networking]\nipv6-support-disabled = true":                                         join(without(both, in(v6)), without(access, ex("2001:db8::9")), float),
		"[Networking]\ninternal-network-name = nodes":                                        join([]string{in(first)}, access, float),
		"[Networking]\ninternal-network-name = e2e-dual":                                     join(dualIPs, access, float),
		"[Networking]\naddress-sort-order = fd08::/64,10.8.0.0/24":                           join([]string{in(v6), in(v4), in(first)}, access, float),
		"[Networking]\naddress-sort-order = 10.7.0.0/16":                                     join([]string{in(first)}, dualIPs, access, float),
		"[Networking]\npublic-network-name = nodes":                                          join(dualIPs, access, []string{ex(first)}, float),
		"[Networking]\npublic-network-name = nodes\ninternal-network-name = e2e-dual":        join(dualIPs, access, []string{ex(first)}, float),
		"[Networking]\npublic-network-name = nothing\ninternal-network-name = nothing":       join(access, float),
		"[Networking]\naddress-sort-order = 192.0.2.0/24,fd08::/64\nipv6-support-disabled=1": join([]string{ex("192.0.2.9")}, without(both, in(v6)), []string{"Hostname=n1.example.org"}, float),
	}
	for conf, want := range tests {
		got, err := c.instances(t, conf).Get(t.Context(), cloud.InstanceRef{NodeName: s.name, ProviderID: "openstack:///" + s.id})
		if err != nil {
			t.Fatal(err)
		}
		var addresses []string
		for _, a := range got.Addresses {
			addresses = append(addresses, fmt.Sprintf("%s=%s", a.Type, a.Address))
		}
		if diff := cmp.Diff(want, addresses); diff != "" {
			t.Errorf("%q: addresses (-want +got):\n%s", conf, diff)
		}
	}
}

func without(list []string, item string) (out []string) {
	for _, s := range list {
		if s != item {
			out = append(out, s)
		}
	}
	return out
}

// attachTo plugs a port into a server.
func attachTo(t *testing.T, c *realCloud, server, port string) {
	t.Helper()
	body := map[string]any{"interfaceAttachment": map[string]any{"port_id": port}}
	resp, err := c.member.compute.Post(t.Context(), c.member.compute.ServiceURL("servers", server, "os-interface"), body, nil,
		&gophercloud.RequestOpts{OkCodes: []int{200}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// awaitPorts waits until Neutron has the ports ACTIVE.
func awaitPorts(t *testing.T, c *realCloud, ids ...string) {
	t.Helper()
	for _, id := range ids {
		err := poll(t.Context(), patience, func(ctx context.Context) error {
			p, err := ports.Get(ctx, c.member.network, id).Extract()
			if err == nil && p.Status != "ACTIVE" {
				err = fmt.Errorf("port %s is %s", id, p.Status)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// awaitFloating waits until Nova lists a floating IP of a server: Neutron tells Nova of it in
// batches, every 2 s. Nodes have it from Nova, as openstack-cloud-controller-manager's do, and
// get it at the next look.
func awaitFloating(t *testing.T, c *realCloud, server, ip string) {
	t.Helper()
	err := poll(t.Context(), patience, func(ctx context.Context) error {
		s, err := servers.Get(ctx, c.member.compute, server).Extract()
		if err == nil && !strings.Contains(fmt.Sprint(s.Addresses), ip+" ") && !strings.Contains(fmt.Sprint(s.Addresses), ip+"]") {
			err = fmt.Errorf("server %s has %v, not yet %s", server, s.Addresses, ip)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Servers of one name, a renamed server and a deleted one, for Nodes without a provider ID.
func TestLookupWithoutProviderID(t *testing.T) {
	c := theCloud(t)
	twins := c.boot(t, "e2e-twin", "e2e-other")
	if _, err := servers.Update(t.Context(), c.member.compute, twins[1].id, servers.UpdateOpts{Name: "e2e-twin"}).Extract(); err != nil {
		t.Fatal(err)
	}
	i := c.instances(t, "")
	check := func(what string, ref cloud.InstanceRef, wantID string, wantKind cloud.Kind) {
		t.Helper()
		got, err := i.Get(t.Context(), ref)
		found := i.Find(t.Context(), []cloud.InstanceRef{ref, {NodeName: "x", ProviderID: "openstack:///" + twins[0].id}, {NodeName: "y", ProviderID: "openstack:///" + twins[1].id}})[0]
		for how, r := range map[string]cloud.Result[*cloud.Instance]{"Get": {Value: got, Err: err}, "Find": found} {
			switch {
			case wantID != "" && (r.Err != nil || r.Value.ProviderID != "openstack:///"+wantID):
				t.Errorf("%s, %s: %v, %v", what, how, r.Value, r.Err)
			case wantID == "" && (r.Err == nil || cloud.KindOf(r.Err) != wantKind):
				t.Errorf("%s, %s: %v, %v of kind %v, want %v", what, how, r.Value, r.Err, cloud.KindOf(r.Err), wantKind)
			}
		}
	}
	check("two of one name", cloud.InstanceRef{NodeName: "e2e-twin"}, "", cloud.KindConflict)
	check("two of one name, UUID of the second", cloud.InstanceRef{NodeName: "e2e-twin", SystemUUID: strings.ToUpper(twins[1].id)}, twins[1].id, 0)
	check("UUID of hardware", cloud.InstanceRef{NodeName: "e2e-twin", SystemUUID: "4c4c4544-0000-4000-8000-b3c04f4d3132"}, "", cloud.KindConflict)
	check("renamed", cloud.InstanceRef{NodeName: "e2e-other", SystemUUID: twins[1].id}, "", cloud.KindConflict)
	if err := c.deleteServer(twins[1].id); err != nil {
		t.Fatal(err)
	}
	check("the only one left", cloud.InstanceRef{NodeName: "e2e-twin"}, twins[0].id, 0)
	check("deleted", cloud.InstanceRef{NodeName: "e2e-other", SystemUUID: twins[1].id}, "", cloud.KindNotFound)
	if _, err := i.Get(t.Context(), cloud.InstanceRef{NodeName: "e2e-other", SystemUUID: twins[1].id}); cloud.ScopeOf(err) == "" {
		t.Errorf("%v says not where", err)
	}
}

// The credentials of another project: Nova says of every server that it does not exist, and
// none counts as gone. With the cluster's own credentials one that is gone does.
func TestOtherProjectIsNoEvidence(t *testing.T) {
	c := theCloud(t)
	s := c.boot(t, "e2e-kept", "e2e-gone")
	refs := []cloud.InstanceRef{{NodeName: s[0].name, ProviderID: "openstack:///" + s[0].id}, {NodeName: s[1].name, ProviderID: "openstack:///" + s[1].id}}
	data, err := os.ReadFile(filepath.Join(c.run, "appcred.json"))
	if err != nil {
		t.Fatal(err)
	}
	var other appCred
	if err := json.Unmarshal(data, &other); err != nil {
		t.Fatal(err)
	}
	nodes := func(cred appCred) *instancecache.Cache {
		p, _, err := openstack.New(t.Context(), writeConf(t, confFor(cred, c.region)), cloud.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := decorate.New(p, caller.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		d.Nodes.Guard(&instancecache.Peers{List: func() []cloud.InstanceRef { return refs }},
			deletionguard.Limits{Count: 3, Percent: 45}, nil)
		return d.Nodes
	}
	wrong, right := nodes(other), nodes(c.cred)
	for _, ref := range refs {
		if _, err := wrong.Lookup(t.Context(), ref, time.Second, nil); !deletionguard.IsHeld(err) {
			t.Errorf("with the credentials of another project: %v, want that it is held", err)
		}
	}
	if hold := wrong.Held(); hold == nil || len(hold.Nodes) != len(refs) || !strings.Contains(hold.Verdict.Message, "no instance of this cluster was seen in project ") {
		t.Errorf("held: %+v", hold)
	}
	if err := c.deleteServer(s[1].id); err != nil {
		t.Fatal(err)
	}
	if _, err := right.Lookup(t.Context(), refs[0], time.Second, nil); err != nil {
		t.Errorf("with the right ones: %v", err)
	}
	if _, err := right.Lookup(t.Context(), refs[1], time.Second, nil); !cloud.IsNotFound(err) {
		t.Errorf("gone: %v, want NotFound", err)
	}
}
