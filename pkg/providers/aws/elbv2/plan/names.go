package plan

import (
	"crypto/sha1" //nolint:gosec // names of the existing manager
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// GroupDescription is that of a load balancer's own security group.
const GroupDescription = "[k8s] Managed SecurityGroup for LoadBalancer"

// nameLength is how long the name of a load balancer may be.
const nameLength = 32

// Name is the load balancer's, of either type: "a" and the Service's UID without dashes, which loses its last digit.
func Name(ref cloud.LoadBalancerRef) string {
	name := "a" + strings.ReplaceAll(ref.UID, "-", "")
	return name[:min(len(name), nameLength)]
}

// UIDs are those of the Services whose load balancer has a name, "" of none: of a UID that was cut there are as many as a digit may be.
func UIDs(name string) (out []string) {
	digits := strings.TrimPrefix(name, "a")
	if len(name) < nameLength {
		return []string{digits}
	}
	for last := range 16 {
		d := digits + strconv.FormatInt(int64(last), 16)
		out = append(out, strings.Join([]string{d[:8], d[8:12], d[12:16], d[16:20], d[20:]}, "-"))
	}
	return out
}

// GroupName is the name of the load balancer's own security group. It is made of the cluster's name, not of its ID.
func GroupName(ref cloud.LoadBalancerRef) string {
	sum := sha256.Sum256([]byte(ref.Cluster.Name + ref.Name + ref.Namespace + ref.UID))
	return short(ref, sum[:])
}

// targetGroupName is made of what cannot be changed of a target group, as far as that was so when the name was chosen. port is
// the Service's.
func targetGroupName(ref cloud.LoadBalancerRef, port int32, g *TargetGroup) string {
	family := ""
	if g.IPv6 { // the existing manager makes none
		family = "ipv6"
	}
	sum := sha1.Sum([]byte(ref.Cluster.ID + ref.Namespace + ref.Name + strconv.Itoa(int(port)) + strconv.Itoa(int(g.Port)) + //nolint:gosec // see above
		g.Protocol + "instance" + g.Check.Protocol + strconv.Itoa(int(g.Check.Interval)) + family))
	return short(ref, sum[:])
}

// IsTargetGroupName reports whether a name may be that of one of the Service's target groups: the end is not known.
func IsTargetGroupName(name string, ref cloud.LoadBalancerRef) bool {
	return strings.HasPrefix(name, short(ref, nil)) && len(name) == len(short(ref, make([]byte, sha1.Size)))
}

func short(ref cloud.LoadBalancerRef, sum []byte) string {
	return fmt.Sprintf("k8s-%.8s-%.8s-%.10s", alphanumeric(ref.Namespace), alphanumeric(ref.Name), hex.EncodeToString(sum))
}

func alphanumeric(s string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, s)
}
