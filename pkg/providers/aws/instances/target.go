package instances

import (
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
)

// target is what a ref is looked up by: an instance's ID, or where that is empty its private DNS name, and then its address.
type target struct {
	id, name string
	ip       netip.Addr
}

func (t target) String() string {
	switch {
	case t.id != "":
		return t.id
	case t.ip.IsValid():
		return "with the private DNS name " + t.name + " or the private address " + t.ip.String()
	}
	return "with the private DNS name " + t.name
}

func targetOf(ref cloud.InstanceRef) (target, error) {
	if ref.ProviderID != "" {
		id, err := providerid.Parse(ref.ProviderID)
		return target{id: id}, err
	}
	first, _, _ := strings.Cut(ref.NodeName, ".")
	if providerid.IsInstanceID(first) {
		return target{id: first}, nil
	}
	if len(validation.IsDNS1123Subdomain(ref.NodeName)) > 0 { // a filter has wildcards
		return target{}, cloud.Errorf(cloud.KindInvalid, "node %.100q has no provider ID, and its name is no DNS name", ref.NodeName)
	}
	t := target{name: ref.NodeName, ip: ref.NodeIP.Unmap()}
	if !t.ip.Is4() {
		t.ip = addressIn(first)
	}
	return t, nil
}

// addressIn is the IPv4 address of which a name is made, as of ip-10-0-0-1: DHCP options may give it any domain, or none.
func addressIn(name string) netip.Addr {
	rest, ok := strings.CutPrefix(name, "ip-")
	if !ok {
		return netip.Addr{}
	}
	ip, err := netip.ParseAddr(strings.ReplaceAll(rest, "-", "."))
	if err != nil || !ip.Is4() {
		return netip.Addr{}
	}
	return ip
}

// form is one way to look targets up.
type form struct {
	// filter is that of EC2, what its name in messages.
	filter, what string
	// value is what it is of a target, "" for not so, and of that of an instance.
	value func(target) string
	of    func(*api.Instance) string
}

var (
	byID   = form{"instance-id", "the ID", func(t target) string { return t.id }, func(f *api.Instance) string { return aws.ToString(f.InstanceId) }}
	byName = form{"private-dns-name", "the private DNS name", func(t target) string { return t.name },
		func(f *api.Instance) string { return aws.ToString(f.PrivateDnsName) }}
	byIP = form{"private-ip-address", "the private address", func(t target) string {
		if !t.ip.IsValid() {
			return ""
		}
		return t.ip.String()
	}, func(f *api.Instance) string { return aws.ToString(f.PrivateIpAddress) }}
)

// wanted are distinct targets.
type wanted map[target]bool

// without are those that have no answer yet.
func (w wanted) without(answers map[target]cloud.Result[*api.Instance]) wanted {
	out := wanted{}
	for t := range w {
		if _, answered := answers[t]; !answered {
			out[t] = true
		}
	}
	return out
}

// values are the targets that have the form, by what they are in it.
func (w wanted) values(by form) map[string][]target {
	out := map[string][]target{}
	for t := range w {
		if v := by.value(t); v != "" {
			out[v] = append(out[v], t)
		}
	}
	return out
}
