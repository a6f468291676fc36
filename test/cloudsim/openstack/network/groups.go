package network

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/network/resource"
)

func (s *Neutron) securityGroupKind() *resource.Kind {
	return &resource.Kind{
		One: "security_group", Many: "security_groups", Path: "security-groups",
		Attrs: []resource.Attr{
			{"name", resource.Text, "cu"}, {"description", resource.Text, "cu"}, {"stateful", resource.Boolean, "cu"}, {"tenant_id", resource.Text, "c"}, {"project_id", resource.Text, "c"}, {"id", resource.Any, ""},
		},
		Missing: resource.NotFound("SecurityGroupNotFound", "Security group %s does not exist"),
		All:     func() []resource.Item { return resource.ByID(s.groups) },
		Get:     func(id string) (resource.Item, bool) { x, is := s.groups[id]; return x, is },
		View:    securityGroupView,
		Create: func(c *core.Call, in dialect.Fields) (resource.Item, error) {
			if in.Text("name") == "default" && s.defaultGroups[owner(c, in)] != nil {
				return nil, core.Errorf(http.StatusConflict, "SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
			}
			g := s.newGroup(owner(c, in), "")
			g.Describe(in)
			return g, nil
		},
		Update: func(_ *core.Call, x resource.Item, in dialect.Fields) error {
			g := x.(*securityGroup)
			if s.defaultGroups[g.Project] == g && in.Has("name") {
				return core.Errorf(http.StatusConflict, "SecurityGroupCannotUpdateDefault", "Updating default security group not allowed.")
			}
			g.Describe(in)
			return nil
		},
		Remove: func(c *core.Call, x resource.Item) error { return s.deleteGroup(c, x.(*securityGroup)) },
	}
}

// newGroup makes a group with the egress rules that every group starts with; lock held.
func (s *Neutron) newGroup(project, name string) *securityGroup {
	g := &securityGroup{Entity: s.newEntity(project, name)}
	g.Revision = 1
	s.groups[g.ID] = g
	for _, ethertype := range []string{"IPv4", "IPv6"} {
		s.addRule(&securityRule{Entity: s.newEntity(project, ""), group: g, automatic: true, direction: "egress", ethertype: ethertype})
	}
	return g
}

func (s *Neutron) addRule(r *securityRule) {
	s.rules[r.ID] = r
	r.group.rules = append(r.group.rules, r)
}

func (s *Neutron) deleteGroup(c *core.Call, g *securityGroup) error {
	for _, p := range s.ports {
		if slices.Contains(p.groups, g.ID) {
			return core.Errorf(http.StatusConflict, "SecurityGroupInUse", "Security Group %s in use.", g.ID)
		}
	}
	if s.defaultGroups[g.Project] == g {
		if !c.Admin() {
			return core.Errorf(http.StatusConflict, "SecurityGroupCannotRemoveDefault", "Insufficient rights for removing default security group.")
		}
		delete(s.defaultGroups, g.Project)
	}
	s.dropGroup(g)
	return nil
}

func (s *Neutron) dropGroup(g *securityGroup) {
	for _, r := range g.rules {
		delete(s.rules, r.ID)
	}
	delete(s.groups, g.ID)
}

func securityGroupView(_ *core.Call, x resource.Item) core.Object {
	g := x.(*securityGroup)
	rules := []core.Object{}
	for _, r := range g.rules {
		// Of the rules in a group Neutron tells more than of rules alone.
		v := r.view()
		v["standard_attr_id"], v["tags"] = r.Seq, []string{}
		rules = append(rules, v)
	}
	return g.View(core.Object{"stateful": true, "shared": false, "security_group_rules": rules})
}

func (s *Neutron) securityRuleKind() *resource.Kind {
	return &resource.Kind{
		One: "security_group_rule", Many: "security_group_rules", Path: "security-group-rules",
		Attrs: []resource.Attr{
			{"security_group_id", resource.Any, "c!"}, {"direction", resource.Any, "c!"}, {"ethertype", resource.Any, "c"}, {"protocol", resource.Any, "c"},
			{"port_range_min", resource.Any, "c"}, {"port_range_max", resource.Any, "c"}, {"remote_ip_prefix", resource.Any, "c"},
			{"remote_group_id", resource.Any, "c"}, {"remote_address_group_id", resource.Any, "c"}, {"description", resource.Text, "cu"},
			{"tenant_id", resource.Text, "c"}, {"project_id", resource.Text, "c"}, {"id", resource.Any, ""},
		},
		Missing: resource.NotFound("SecurityGroupRuleNotFound", "Security group rule %s does not exist"),
		All:     func() []resource.Item { return resource.ByID(s.rules) },
		Get:     func(id string) (resource.Item, bool) { x, is := s.rules[id]; return x, is },
		View:    func(_ *core.Call, x resource.Item) core.Object { return x.(*securityRule).view() },
		Create:  s.createRule,
		// Zed breaks when a rule is updated.
		Update: func(*core.Call, resource.Item, dialect.Fields) error { return internalError() },
		Remove: func(_ *core.Call, x resource.Item) error {
			r := x.(*securityRule)
			r.group.rules = slices.DeleteFunc(r.group.rules, func(y *securityRule) bool { return y == r })
			r.group.Changed()
			delete(s.rules, r.ID)
			return nil
		},
		Bulk: func(in []dialect.Fields) error {
			seen := map[string]bool{}
			for _, f := range in {
				raw, err := json.Marshal(f)
				if err != nil {
					return err
				}
				if seen[string(raw)] {
					return core.Errorf(http.StatusConflict, "DuplicateSecurityGroupRuleInPost", "Duplicate Security Group Rule in POST.")
				}
				seen[string(raw)] = true
			}
			return nil
		},
	}
}

func (r *securityRule) view() core.Object {
	o := r.View(core.Object{
		"security_group_id": r.group.ID, "ethertype": r.ethertype, "direction": r.direction, "protocol": r.protocol,
		"port_range_min": r.min, "port_range_max": r.max, "remote_ip_prefix": r.prefix, "remote_address_group_id": nil,
		"remote_group_id": r.remoteGroup, "normalized_cidr": nil,
	})
	delete(o, "name")
	delete(o, "tags")
	if r.automatic {
		o["description"] = nil
	}
	if r.prefix != nil {
		if p, err := netip.ParsePrefix(*r.prefix); err == nil {
			o["normalized_cidr"] = p.Masked().String()
		}
	}
	return o
}

// text is the rule in one line, for snapshots.
func (r *securityRule) text() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s-%s %s%s", r.direction, r.ethertype, dialect.Scalar(r.protocol), dialect.Scalar(r.min), dialect.Scalar(r.max), dialect.Scalar(r.prefix), dialect.Scalar(r.remoteGroup)))
}

func (s *Neutron) createRule(c *core.Call, in dialect.Fields) (resource.Item, error) {
	x, err := s.securityGroupKind().Own(c, in.Text("security_group_id"))
	if err != nil {
		return nil, err
	}
	r := &securityRule{Entity: s.newEntity(owner(c, in), ""), group: x.(*securityGroup), direction: in.Text("direction"), ethertype: "IPv4"}
	if err := r.set(in); err != nil {
		return nil, err
	}
	if r.remoteGroup != nil {
		if _, err := s.securityGroupKind().Find(c, *r.remoteGroup); err != nil {
			return nil, err
		}
	}
	for _, other := range r.group.rules {
		if r.same(other) {
			return nil, core.Errorf(http.StatusConflict, "SecurityGroupRuleExists", "Security group rule already exists. Rule id is %s.", other.ID)
		}
	}
	r.Describe(in)
	r.group.Changed()
	s.addRule(r)
	return r, nil
}

func (r *securityRule) set(in dialect.Fields) error {
	if r.direction != "ingress" && r.direction != "egress" {
		return dialect.BadRequest("Invalid input for direction. Reason: %s is not in valid_values.", dialect.Plain(in["direction"]))
	}
	if v := in.Text("ethertype"); v != "" {
		if r.ethertype = v; v != "IPv4" && v != "IPv6" {
			return core.Errorf(http.StatusBadRequest, "SecurityGroupRuleInvalidEtherType", "Security group rule for ethertype '%s' not supported. Allowed values are ['IPv4', 'IPv6'].", v)
		}
	}
	if in.Has("protocol") && !in.Null("protocol") {
		v := strings.ToLower(dialect.Plain(in["protocol"]))
		r.protocol = &v
	}
	if err := in.Into("port_range_min", &r.min); err != nil {
		return err
	}
	if err := in.Into("port_range_max", &r.max); err != nil {
		return err
	}
	if err := r.checkPorts(); err != nil {
		return err
	}
	for name, to := range map[string]**string{"remote_ip_prefix": &r.prefix, "remote_group_id": &r.remoteGroup} {
		if v := in.Text(name); v != "" {
			*to = &v
		}
	}
	return r.checkRemote()
}

// protocols are the names that Neutron knows for IP protocols, with their numbers.
func protocols() map[string]int {
	return map[string]int{
		"ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "hopopt": 0, "icmp": 1, "igmp": 2, "ip": 0, "ipip": 4,
		"ipv6-encap": 41, "ipv6-frag": 44, "ipv6-icmp": 58, "icmpv6": 58, "ipv6-nonxt": 59, "ipv6-opts": 60, "ipv6-route": 43,
		"ospf": 89, "pgm": 113, "rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136, "vrrp": 112,
	}
}

const protocolNames = "'ah', 'dccp', 'egp', 'esp', 'gre', 'hopopt', 'icmp', 'igmp', 'ip', 'ipip', 'ipv6-encap', 'ipv6-frag', 'ipv6-icmp', 'icmpv6', 'ipv6-nonxt', 'ipv6-opts', 'ipv6-route', 'ospf', 'pgm', 'rsvp', 'sctp', 'tcp', 'udp', 'udplite', 'vrrp'"

// number is the rule's protocol as a number, -1 for any.
func (r *securityRule) number() (int, bool) {
	if r.protocol == nil {
		return -1, true
	}
	if n, is := protocols()[*r.protocol]; is {
		return n, true
	}
	n, err := strconv.Atoi(*r.protocol)
	return n, err == nil && n >= 0 && n <= 255
}

func (r *securityRule) checkPorts() error {
	bad := func(kind, format string, args ...any) error {
		return core.Errorf(http.StatusBadRequest, kind, format, args...)
	}
	number, known := r.number()
	if !known {
		return bad("SecurityGroupRuleInvalidProtocol", "Security group rule protocol %s not supported. Only protocol values [None, %s] and integer representations [0 to 255] are supported.", *r.protocol, protocolNames)
	}
	if r.min == nil && r.max == nil {
		return nil
	}
	if number <= 0 {
		return bad("SecurityGroupProtocolRequiredWithPorts", "Must also specify protocol if port range is given.")
	}
	if number == 1 || number == 58 {
		for _, v := range []struct {
			field, name string
			value       *int
		}{{"port_range_min", "type", r.min}, {"port_range_max", "code", r.max}} {
			if v.value != nil && (*v.value < 0 || *v.value > 255) {
				return bad("SecurityGroupInvalidIcmpValue", "Invalid value for ICMP %s (%s) %d. It must be 0 to 255.", v.name, v.field, *v.value)
			}
		}
		return nil
	}
	for _, v := range []*int{r.min, r.max} {
		if v != nil && (*v < 1 || *v > 65535) {
			return bad("SecurityGroupInvalidPortValue", "Invalid value for port %d", *v)
		}
	}
	if r.min == nil || r.max == nil || *r.min > *r.max {
		return bad("SecurityGroupInvalidPortRange", "For TCP/UDP protocols, port_range_min must be <= port_range_max")
	}
	return nil
}

func (r *securityRule) checkRemote() error {
	if r.prefix != nil && r.remoteGroup != nil {
		return core.Errorf(http.StatusBadRequest, "SecurityGroupMultipleRemoteEntites", "Only one of remote_ip_prefix or remote_group_id or remote_address_group_id may be provided.")
	}
	if r.prefix == nil {
		return nil
	}
	text := *r.prefix
	if ip, err := netip.ParseAddr(text); err == nil {
		text = netip.PrefixFrom(ip, ip.BitLen()).String()
		r.prefix = &text
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return core.Errorf(http.StatusBadRequest, "InvalidCIDR", "Invalid CIDR %s given as IP prefix.", text)
	}
	if p.Addr().Is4() != (r.ethertype == "IPv4") {
		return core.Errorf(http.StatusBadRequest, "SecurityGroupRuleParameterConflict", "Conflicting value ethertype %s for CIDR %s", r.ethertype, text)
	}
	return nil
}

// same reports whether Neutron takes two rules for one; any address and no prefix are the same to it.
func (r *securityRule) same(o *securityRule) bool {
	rn, _ := r.number()
	on, _ := o.number()
	return rn == on && r.direction == o.direction && r.ethertype == o.ethertype && dialect.Scalar(r.min) == dialect.Scalar(o.min) && dialect.Scalar(r.max) == dialect.Scalar(o.max) &&
		dialect.Scalar(r.remoteGroup) == dialect.Scalar(o.remoteGroup) && anyPrefix(r.prefix) == anyPrefix(o.prefix)
}

func anyPrefix(p *string) string {
	if v := dialect.Scalar(p); v != "0.0.0.0/0" && v != "::/0" {
		return v
	}
	return ""
}
