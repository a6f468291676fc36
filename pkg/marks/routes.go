package marks

import (
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strings"
)

// A record says that a route was made for a cluster: a tag of what holds the routes,
//
//	isthmus-<6 characters of the hash of the cluster's UID>-<destination and next hop>[p]
//
// where the end is base64url of the destination's address, its length and the next hop's
// address, and p is Beside. So written it never exceeds 60 characters, fits in a URL's path, and
// can be read back: what a crash left of a route that nobody asks for any more is known. The
// next hop is in it so that an operator who points the destination elsewhere owns that route.
const recordPrefix = "isthmus-"

// Beside ends the record of a route beside which something else was made for it, as leave for the
// Node to send from the destination.
const Beside = "p"

func clusterRecordPrefix(clusterUID string) string {
	sum := sha256.Sum256([]byte(clusterUID))
	return recordPrefix + base64.RawURLEncoding.EncodeToString(sum[:])[:6] + "-"
}

// Route is the record of a route of the cluster with that UID, beside which nothing was made.
func Route(clusterUID string, destination netip.Prefix, hop netip.Addr) string {
	dst := destination.Masked()
	raw := append(dst.Addr().AsSlice(), byte(dst.Bits()))
	raw = append(raw, hop.AsSlice()...)
	return clusterRecordPrefix(clusterUID) + base64.RawURLEncoding.EncodeToString(raw)
}

// ParseRoute reads a record of the cluster with that UID; ok is false for any other tag.
func ParseRoute(clusterUID, tag string) (destination netip.Prefix, hop netip.Addr, beside, ok bool) {
	text, ok := strings.CutPrefix(tag, clusterRecordPrefix(clusterUID))
	if !ok {
		return netip.Prefix{}, netip.Addr{}, false, false
	}
	if len(text)%4 == 1 { // both families make a multiple of 4
		text, beside = strings.CutSuffix(text, Beside)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || (len(raw) != 4+1+4 && len(raw) != 16+1+16) {
		return netip.Prefix{}, netip.Addr{}, false, false
	}
	half := len(raw) / 2
	dst, _ := netip.AddrFromSlice(raw[:half])
	hop, _ = netip.AddrFromSlice(raw[half+1:])
	destination = netip.PrefixFrom(dst, int(raw[half]))
	base := tag
	if beside {
		base = strings.TrimSuffix(tag, Beside)
	}
	// Only what is written exactly so is ours.
	return destination, hop, beside, destination.IsValid() && Route(clusterUID, destination, hop) == base
}
