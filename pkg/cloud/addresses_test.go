package cloud

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAddressList(t *testing.T) {
	texts := func(l AddressList) (out []string) {
		for _, a := range l.List {
			out = append(out, string(a.Type)+" "+a.Address)
		}
		return out
	}
	l, v4 := AddressList{}, AddressList{IPv4Only: true}
	for _, a := range []string{"10.0.0.9", "10.0.0.10", "fd00::1", "10.0.0.9", "172.16.0.1", "::ffff:10.0.0.3", "no address", ""} {
		l.Add(corev1.NodeInternalIP, a)
		v4.Add(corev1.NodeInternalIP, a)
	}
	l.List = append(l.List, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "n"})
	l.Add(corev1.NodeExternalIP, "10.0.0.9")
	l.Add(corev1.NodeExternalIP, "192.0.2.1")
	l.Add(corev1.NodeInternalIP, "192.0.2.1")
	l.Remove("192.0.2.1")
	want := []string{"InternalIP 10.0.0.9", "InternalIP 10.0.0.10", "InternalIP 172.16.0.1", "InternalIP ::ffff:10.0.0.3"}
	if got := texts(v4); !slices.Equal(got, want) {
		t.Errorf("of IPv4: %q, want %q", got, want)
	}
	before := texts(l)
	if l.Sort(nil); !slices.Equal(texts(l), before) {
		t.Errorf("sorted by no prefix: %q, was %q", texts(l), before)
	}
	l.Sort([]netip.Prefix{netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("10.0.0.0/8")})
	want = []string{"InternalIP fd00::1", "InternalIP ::ffff:10.0.0.3", "InternalIP 10.0.0.9", "ExternalIP 10.0.0.9", "InternalIP 10.0.0.10",
		"InternalIP 172.16.0.1", "Hostname n"}
	if got := texts(l); !slices.Equal(got, want) {
		t.Errorf("sorted: %q, want %q", got, want)
	}
}
