package wire

import (
	"net/netip"
	"testing"
)

func TestIsNear(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "169.254.169.254": true, "fe80::1": true, "fd00:ec2::254": true,
		"": false, "localhost.evil.example": false, "LOCALHOST": false, "10.0.0.1": false, "fd00:ec3::1": false, "169.254.169.254.evil.example": false,
		"2852039166": false, "0xa9fea9fe": false, "169.254.43518": false, "::ffff:10.0.0.1": false, "example.com": false,
	} {
		if got := IsNear(host, netip.MustParsePrefix("fd00:ec2::/32")); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
	if IsNear("fd00:ec2::254") {
		t.Error("a cloud's network is near without being named")
	}
}
