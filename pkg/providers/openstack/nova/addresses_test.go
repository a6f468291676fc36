package nova

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// sorted is the section with an order of addresses.
func sorted(order string) config.Networking {
	cfg, _, err := config.Parse("cloud.conf", []byte("[Networking]\naddress-sort-order = "+order+"\n"))
	if err != nil {
		panic(err)
	}
	return cfg.Networking
}

func internal(a string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a}
}
func external(a string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: a}
}
func hostName(a string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeHostName, Address: a}
}

func fixed(a string) serverAddress    { return serverAddress{Addr: a, Type: "fixed"} }
func floating(a string) serverAddress { return serverAddress{Addr: a, Type: "floating"} }

func portOf(status string, ips ...string) neutron.Port {
	p := neutron.Port{Status: status}
	for _, ip := range ips {
		p.FixedIPs = append(p.FixedIPs, neutron.FixedIP{IPAddress: ip})
	}
	return p
}

func TestNodeAddresses(t *testing.T) {
	tests := []struct {
		name     string
		server   server
		ports    []neutron.Port
		subports byNetwork
		cfg      config.Networking
		want     []corev1.NodeAddress
	}{
		{name: "none"},
		{
			name:   "one port, listed by Nova as well",
			server: server{Addresses: byNetwork{"net": {fixed("10.0.0.5")}}},
			ports:  []neutron.Port{portOf("ACTIVE", "10.0.0.5")},
			want:   []corev1.NodeAddress{internal("10.0.0.5")},
		},
		{
			name:   "ports come first, in their order; what Nova adds follows by network name",
			server: server{Addresses: byNetwork{"b": {fixed("10.2.0.9"), fixed("10.2.0.5")}, "a": {fixed("10.1.0.9"), fixed("10.1.0.5")}}},
			ports:  []neutron.Port{portOf("ACTIVE", "10.2.0.5"), portOf("ACTIVE", "10.1.0.5")},
			want:   []corev1.NodeAddress{internal("10.2.0.5"), internal("10.1.0.5"), internal("10.1.0.9"), internal("10.2.0.9")},
		},
		{
			name:   "a port that is down does not count, but Nova's address does",
			server: server{Addresses: byNetwork{"a": {fixed("10.1.0.5")}, "b": {fixed("10.2.0.5")}}},
			ports:  []neutron.Port{portOf("DOWN", "10.1.0.5"), portOf("ACTIVE", "10.2.0.5")},
			want:   []corev1.NodeAddress{internal("10.2.0.5"), internal("10.1.0.5")},
		},
		{
			name: "access addresses, host name and floating IP",
			server: server{AccessIPv4: "192.0.2.1", AccessIPv6: "2001:db8::1", Metadata: map[string]string{"hostname": "n1.example.org"},
				Addresses: byNetwork{"net": {fixed("10.0.0.5"), floating("203.0.113.7")}}},
			ports: []neutron.Port{portOf("ACTIVE", "10.0.0.5")},
			want:  []corev1.NodeAddress{internal("10.0.0.5"), external("192.0.2.1"), external("2001:db8::1"), hostName("n1.example.org"), external("203.0.113.7")},
		},
		{
			name:   "the floating IP that is the access address comes once",
			server: server{AccessIPv4: "203.0.113.7", Addresses: byNetwork{"net": {floating("203.0.113.7")}}},
			want:   []corev1.NodeAddress{external("203.0.113.7")},
		},
		{
			name:   "dual stack",
			server: server{Addresses: byNetwork{"net": {fixed("10.0.0.5"), fixed("fd00::5")}}},
			ports:  []neutron.Port{portOf("ACTIVE", "fd00::5", "10.0.0.5")},
			want:   []corev1.NodeAddress{internal("fd00::5"), internal("10.0.0.5")},
		},
		{
			name:     "IPv6 disabled",
			server:   server{AccessIPv6: "2001:db8::1", Addresses: byNetwork{"net": {fixed("10.0.0.5"), fixed("fd00::5"), floating("2001:db8::2")}}},
			ports:    []neutron.Port{portOf("ACTIVE", "fd00::5", "10.0.0.5")},
			subports: byNetwork{"vlan": {fixed("fd01::5")}},
			cfg:      config.Networking{IPv6SupportDisabled: true},
			want:     []corev1.NodeAddress{internal("10.0.0.5")},
		},
		{
			name:   "public network: its port's address is external only",
			server: server{Addresses: byNetwork{"ext": {fixed("192.0.2.5")}, "net": {fixed("10.0.0.5")}}},
			ports:  []neutron.Port{portOf("ACTIVE", "192.0.2.5"), portOf("ACTIVE", "10.0.0.5")},
			cfg:    config.Networking{PublicNetworkName: []string{"ext", "ext2"}},
			want:   []corev1.NodeAddress{internal("10.0.0.5"), external("192.0.2.5")},
		},
		{
			name:   "internal networks: others are left out, floating IPs and public networks stay",
			server: server{Addresses: byNetwork{"net": {fixed("10.0.0.5"), floating("203.0.113.7")}, "storage": {fixed("10.9.0.5")}, "ext": {fixed("192.0.2.5")}}},
			ports:  []neutron.Port{portOf("ACTIVE", "10.9.0.5"), portOf("ACTIVE", "10.0.0.5"), portOf("ACTIVE", "192.0.2.5")},
			cfg:    config.Networking{InternalNetworkName: []string{"net"}, PublicNetworkName: []string{"ext"}},
			want:   []corev1.NodeAddress{internal("10.0.0.5"), external("192.0.2.5"), external("203.0.113.7")},
		},
		{
			name:     "trunk subports join their networks",
			server:   server{Addresses: byNetwork{"net": {fixed("10.0.0.5")}, "zz": {fixed("10.8.0.5")}}},
			ports:    []neutron.Port{portOf("ACTIVE", "10.0.0.5")},
			subports: byNetwork{"vlan": {fixed("10.7.0.5")}, "net": {fixed("10.0.0.6")}},
			want:     []corev1.NodeAddress{internal("10.0.0.5"), internal("10.0.0.6"), internal("10.7.0.5"), internal("10.8.0.5")},
		},
		{
			name:   "sort order: by prefix, ascending inside, the rest behind as it was",
			server: server{AccessIPv4: "192.0.2.1", Metadata: map[string]string{"hostname": "n"}, Addresses: byNetwork{"net": {floating("203.0.113.7")}}},
			ports:  []neutron.Port{portOf("ACTIVE", "10.0.0.9", "10.0.0.10", "10.0.0.2", "172.16.0.1", "fd00::9", "fd00::1")},
			cfg:    sorted("fd00::/8, 10.0.0.0/8"),
			want: []corev1.NodeAddress{internal("fd00::1"), internal("fd00::9"), internal("10.0.0.2"), internal("10.0.0.9"), internal("10.0.0.10"),
				internal("172.16.0.1"), external("192.0.2.1"), hostName("n"), external("203.0.113.7")},
		},
		{
			name:   "what is no address is left out",
			server: server{AccessIPv4: "x", Addresses: byNetwork{"net": {fixed(""), fixed("10.0.0.256")}}},
			ports:  []neutron.Port{portOf("ACTIVE", "nonsense")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := nodeAddresses(&tt.server, tt.ports, tt.subports, &tt.cfg)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeAddressesDoesNotChangeItsInput(t *testing.T) {
	list := make([]serverAddress, 1, 4)
	list[0] = fixed("10.0.0.5")
	s := server{Addresses: map[string][]serverAddress{"net": list}}
	nodeAddresses(&s, nil, byNetwork{"net": {fixed("10.0.0.6")}}, &config.Networking{})
	if len(s.Addresses["net"]) != 1 || list[:2][1].Addr != "" {
		t.Errorf("the server was changed: %v", list[:2])
	}
}

func TestNodeLabels(t *testing.T) {
	metadata := map[string]string{
		"hostname": "n", "label:pool": "gpu", "label:team.name": "", "label:": "x", "label:bad value": "x", "label:value": "not valid",
		"label:node-role.kubernetes.io/control-plane": "", "label:kubernetes.io/os": "x", "pool": "other",
	}
	for _, tt := range []struct {
		name, host, prefix string
		want               map[string]string
	}{
		{name: "nothing"},
		{name: "host", host: "abc", want: map[string]string{labelHostID: "abc"}},
		{name: "prefix", host: "abc", prefix: "label:", want: map[string]string{labelHostID: "abc", "pool": "gpu", "team.name": ""}},
		{name: "nothing with it", prefix: "other:"},
	} {
		if diff := cmp.Diff(tt.want, nodeLabels(&server{HostID: tt.host, Metadata: metadata}, tt.prefix)); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", tt.name, diff)
		}
	}
}
