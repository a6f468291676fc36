package openstack_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func TestSimulatorsHaveTheirOwnNets(t *testing.T) {
	a, b := ossim.ForTest(t), ossim.ForTest(t)
	if a.Net() == b.Net() || a.URL() == b.URL() {
		t.Errorf("nets %d and %d, URLs %s and %s", a.Net(), b.Net(), a.URL(), b.URL())
	}
	if sim, err := ossim.Start(ossim.Options{Net: a.Net()}); err == nil {
		sim.Close()
		t.Errorf("net %d was given away twice", a.Net())
	} else if !strings.Contains(err.Error(), "127."+strconv.Itoa(a.Net())+".0.0/16 is taken") {
		t.Errorf("error: %v", err)
	}
	a.Close()
	again := ossim.ForTest(t, ossim.Options{Net: a.Net()})
	server := again.SeedServers(ossim.Seed{Count: 1})[0]
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(server.Addresses[0].String(), "0"))
	if err != nil {
		t.Fatalf("nothing can listen on a server's address: %v", err)
	}
	_ = ln.Close()
}

func TestBadOptions(t *testing.T) {
	for _, opts := range []ossim.Options{
		{Listen: "192.0.2.1:0"}, {Listen: "0.0.0.0:0"}, {Listen: "nonsense"}, {Net: 255}, {Net: -1}, {Net: 256},
	} {
		if sim, err := ossim.Start(opts); err == nil {
			sim.Close()
			t.Errorf("%+v was taken", opts)
		}
	}
}

func TestTLS(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{TLS: true})
	if !strings.HasPrefix(sim.AuthURL(), "https://") || !strings.Contains(sim.CloudConf(), "ca-file = "+sim.CAFile()) || !strings.Contains(sim.CloudsYAML(), sim.CAFile()) {
		t.Errorf("%s, %s", sim.AuthURL(), sim.CloudConf())
	}
	if _, err := listServers(t, compute(t, sim, ""), servers.ListOpts{}); err != nil {
		t.Error(err)
	}
	other := ossim.ForTest(t, ossim.Options{TLS: true})
	stranger := newClient(t, other) // trusts another CA
	opts := password(sim)
	stranger.IdentityBase, stranger.IdentityEndpoint = strings.TrimSuffix(opts.IdentityEndpoint, "v3"), ""
	if err := openstack.Authenticate(t.Context(), stranger, opts); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with the wrong CA: %v", err)
	}
	sim.Close()
	if _, err := os.Stat(sim.CAFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("CA file after Close: %v", err)
	}
}

func TestCloseEndsWhatHangs(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{StateDelay: time.Hour})
	c := compute(t, sim, "")
	id := sim.SeedServers(ossim.Seed{Count: 1})[0].ID
	if err := servers.Stop(t.Context(), c, id).ExtractErr(); err != nil { // pending for an hour
		t.Fatal(err)
	}
	sim.AddFault(ossim.Fault{Hang: true})
	failed := make(chan error, 1)
	go func() {
		_, err := servers.Get(context.WithoutCancel(t.Context()), c, id).Extract()
		failed <- err
	}()
	eventually.True(t, "the request has arrived", func() bool {
		list := sim.Requests()
		return list[len(list)-1].Path == "/servers/"+id
	})
	sim.Close()
	sim.Close()
	if err := <-failed; err == nil {
		t.Error("the hanging request succeeded")
	}
	if _, err := servers.Get(t.Context(), c, id).Extract(); err == nil {
		t.Error("a closed simulator answers")
	}
}

func TestConfigurations(t *testing.T) {
	sim := ossim.ForTest(t)
	conf, d := sim.CloudConf(), sim.Defaults()
	for _, want := range []string{"[Global]", "auth-url = " + sim.AuthURL(), "region = RegionOne", "subnet-id = " + d.SubnetID,
		"floating-network-id = " + d.ExternalNetworkID, "router-id = " + d.RouterID} {
		if !strings.Contains(conf, want) || d.RouterID == "" {
			t.Errorf("cloud.conf lacks %q:\n%s", want, conf)
		}
	}
	if strings.Contains(conf, "ca-file") {
		t.Errorf("cloud.conf names a CA without TLS:\n%s", conf)
	}
}

// Where a network namespace is the cloud's, its addresses are those of Options.Addresses, and no others.
func TestAddressesOfANetwork(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Addresses: netip.MustParsePrefix("10.77.0.0/16")})
	if got := sim.SeedServers(ossim.Seed{Count: 1})[0].Addresses; len(got) != 1 || got[0] != netip.MustParseAddr("10.77.0.10") {
		t.Errorf("a server has the addresses %v", got)
	}
	for _, o := range []ossim.Options{
		{Addresses: netip.MustParsePrefix("10.77.0.0/24")},
		{Addresses: netip.MustParsePrefix("fd00::/16")},
		{Addresses: netip.MustParsePrefix("10.77.0.0/16"), Net: 70},
		{Addresses: netip.MustParsePrefix("10.77.0.0/16"), Listen: "10.78.0.1:5000"},
		{Listen: "10.77.0.1:5000"},
	} {
		if sim, err := ossim.Start(o); err == nil {
			sim.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}
