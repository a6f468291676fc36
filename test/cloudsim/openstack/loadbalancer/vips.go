package loadbalancer

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer/schema"
)

// additionalVIP is one of a load balancer's VIPs besides the first. The ovn driver (up to 3.0) takes
// them and gives them no address.
type additionalVIP struct {
	subnet string
	asked  string // the address asked for, "" for any
	ip     netip.Addr
}

func (v additionalVIP) wish() core.FixedIPWish {
	return core.FixedIPWish{SubnetID: v.subnet, IP: v.asked}
}

func (x *loadBalancer) additionalViews() []core.Object {
	out := []core.Object{}
	for _, v := range x.additional {
		o := core.Object{"subnet_id": v.subnet, "ip_address": nil}
		if v.ip.IsValid() {
			o["ip_address"] = v.ip.String()
		} else if v.asked != "" {
			o["ip_address"] = v.asked
		}
		out = append(out, o)
	}
	return out
}

// wishedVIPs reads additional_vips of a new load balancer.
func wishedVIPs(in dialect.Fields) ([]additionalVIP, error) {
	if !in.Has("additional_vips") {
		return nil, nil
	}
	if in.Null("additional_vips") {
		return nil, core.Errorf(http.StatusInternalServerError, "Server", "'NoneType' object is not iterable")
	}
	var list []dialect.Fields
	if json.Unmarshal(in["additional_vips"], &list) != nil {
		return nil, schema.ClientFault(http.StatusBadRequest, "Invalid input for field/attribute load_balancer. Value: '%s'. Value not a valid list: %s",
			schema.PythonText(in["additional_vips"]), dialect.Plain(in["additional_vips"]))
	}
	attrs := []schema.Attr{{Name: "subnet_id", Type: schema.UUID, Modes: "c!"}, {Name: "ip_address", Type: schema.IP, Modes: "c"}}
	var out []additionalVIP
	for _, v := range list {
		if err := schema.Check(attrs, "load_balancer.loadbalancer.additional_vips", v, true); err != nil {
			return nil, err
		}
		out = append(out, additionalVIP{subnet: v.Text("subnet_id"), asked: v.Text("ip_address")})
	}
	return out, nil
}

// checkVIPs checks that all VIPs are of different subnets of one network.
func (s *Octavia) checkVIPs(x *loadBalancer) error {
	ids := []string{x.vipSubnet}
	for _, v := range x.additional {
		if slices.Contains(ids, v.subnet) {
			return schema.ValidationFault("Duplicate VIP subnet(s) specified. Only one IP can be bound per subnet.")
		}
		ids = append(ids, v.subnet)
	}
	first, _ := s.network.Subnet(x.vipSubnet)
	for _, id := range ids {
		sub, is := s.network.Subnet(id)
		if !is {
			return core.Errorf(http.StatusInternalServerError, "Server", "subnet not found (subnet id: %s).", id)
		}
		if sub.NetworkID != first.NetworkID {
			return schema.ValidationFault("All VIP subnets must belong to the same network.")
		}
	}
	return nil
}

// nameVIPs takes the additional VIPs' addresses from the port, as the amphora driver does.
func (x *loadBalancer) nameVIPs(p core.Port) {
	if x.provider == ovn {
		return
	}
	for i := range x.additional {
		for _, ip := range p.FixedIPs {
			if ip.SubnetID == x.additional[i].subnet {
				x.additional[i].ip = ip.IP
			}
		}
	}
}

// hasFamily reports whether one of the VIPs is of the address's IP version.
func (x *loadBalancer) hasFamily(ip netip.Addr) bool {
	return sameFamily(ip, x.vip) || slices.ContainsFunc(x.additional, func(v additionalVIP) bool { return v.ip.IsValid() && sameFamily(ip, v.ip) })
}
