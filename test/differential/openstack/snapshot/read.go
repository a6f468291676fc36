package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// contents is what a project holds, as the cloud shows it.
type contents struct {
	lbs, listeners, pools, monitors, fips, groups, ports []Object
	members                                              map[string][]Object // by pool
}

func (c *Cloud) contents(ctx context.Context) (*contents, error) {
	out := &contents{members: map[string][]Object{}}
	var err error
	for _, l := range []struct {
		into *[]Object
		key  string
		path []string
	}{
		{&out.lbs, "loadbalancers", []string{"lbaas", "loadbalancers"}}, {&out.listeners, "listeners", []string{"lbaas", "listeners"}},
		{&out.pools, "pools", []string{"lbaas", "pools"}}, {&out.monitors, "healthmonitors", []string{"lbaas", "healthmonitors"}},
	} {
		if *l.into, err = c.list(ctx, c.LoadBalancer, l.key, l.path...); err != nil {
			return nil, err
		}
	}
	for _, p := range out.pools {
		id := Text(p, "id")
		out.members[id], err = c.list(ctx, c.LoadBalancer, "members", "lbaas", "pools", id, "members")
		switch {
		case gophercloud.ResponseCodeIs(err, http.StatusNotFound) && ctx.Err() == nil:
			return c.contents(ctx) // it was replaced meanwhile: read all again
		case err != nil:
			return nil, err
		}
	}
	for key, into := range map[string]*[]Object{"floatingips": &out.fips, "security_groups": &out.groups, "ports": &out.ports} {
		if *into, err = c.list(ctx, c.Network, key, strings.ReplaceAll(key, "_", "-")); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Read returns what the cloud holds, by scenario; what belongs to none is under "". New objects get
// symbols: symbols must be the same at each look of a run.
func (c *Cloud) Read(ctx context.Context, symbols *symbol.Symbols, scenarios []string) (map[string]*State, error) {
	all, err := c.contents(ctx)
	if err != nil {
		return nil, err
	}
	all.name(symbols)
	out := map[string]*State{}
	for _, name := range append([]string{""}, scenarios...) {
		out[name] = &State{}
	}
	of := func(o Object) *State { return out[OwnerOf(o, scenarios)] }
	for _, lb := range all.lbs {
		s := of(lb)
		s.LoadBalancers = append(s.LoadBalancers, all.tree(lb, symbols))
	}
	for _, f := range all.fips {
		s := of(f)
		s.FloatingIPs = append(s.FloatingIPs, normal(f, symbols, "description", "floating_ip_address", "floating_network_id", "port_id", "tags"))
	}
	for _, g := range all.groups {
		if Text(g, "name") == "default" {
			continue
		}
		s := of(g)
		s.SecurityGroups = append(s.SecurityGroups, all.group(g, symbols))
	}
	for _, p := range all.ports {
		if Text(p, "device_owner") == "" && Text(p, "name") != "" {
			s := of(p)
			s.Ports = append(s.Ports, normal(p, symbols, "name", "network_id", "security_groups", "tags"))
		}
	}
	for _, s := range out {
		s.sort()
	}
	return out, nil
}

// name gives all objects symbols.
func (all *contents) name(symbols *symbol.Symbols) {
	byAge := func(list []Object) {
		slices.SortStableFunc(list, func(a, b Object) int { return cmp.Compare(Text(a, "created_at"), Text(b, "created_at")) })
	}
	vips := map[string]string{}
	byAge(all.lbs)
	for _, lb := range all.lbs {
		name := Text(lb, "name")
		symbols.Add("lb:"+name, Text(lb, "id"))
		vips[Text(lb, "vip_port_id")] = symbols.Add("vip:"+name, Text(lb, "vip_address"))
		symbols.Add("vipport:"+name, Text(lb, "vip_port_id"))
		for _, v := range objects(lb, "additional_vips") {
			symbols.Add("vip6:"+name, Text(v, "ip_address"))
		}
	}
	for kind, list := range map[string][]Object{"listener": all.listeners, "pool": all.pools, "monitor": all.monitors} {
		for _, o := range list {
			symbols.Add(kind+":"+Text(o, "name"), Text(o, "id"))
		}
	}
	byAge(all.fips)
	for _, f := range all.fips {
		key := strings.TrimPrefix(vips[Text(f, "port_id")], "vip:")
		if key == "" {
			key = symbols.Fold(Text(f, "description"))
		}
		symbols.Add("fip:"+key, Text(f, "floating_ip_address"))
		symbols.Add("fip-id:"+key, Text(f, "id"))
	}
	for _, g := range all.groups {
		symbols.Add("sg:"+inSymbol(symbols.Fold(Text(g, "name"))), Text(g, "id"))
	}
	for _, p := range all.ports {
		if Text(p, "device_owner") == "" && Text(p, "name") != "" {
			symbols.Add("port:"+Text(p, "name"), Text(p, "id"))
		}
	}
}

// inSymbol is a folded text without braces.
func inSymbol(folded string) string {
	return strings.NewReplacer("{", "", "}", "").Replace(folded)
}

// tree is the normal form of a load balancer.
func (all *contents) tree(lb Object, symbols *symbol.Symbols) Object {
	out := normal(lb, symbols, "name", "description", "provider", "tags", "vip_subnet_id", "vip_address", "flavor_id", "availability_zone", "additional_vips", "admin_state_up")
	if p := symbols.Fold(Text(lb, "vip_port_id")); strings.HasPrefix(p, "{port:") {
		out["vip_port_id"] = p
	}
	note(out, lb)
	used := map[string]bool{}
	var listeners, pools []Object
	for _, l := range all.listeners {
		if !below(l, lb) {
			continue
		}
		x := normal(l, symbols, "name", "description", "protocol", "protocol_port", "connection_limit", "timeout_client_data", "timeout_member_connect",
			"timeout_member_data", "timeout_tcp_inspect", "default_tls_container_ref", "sni_container_refs", "insert_headers", "allowed_cidrs", "tags", "admin_state_up")
		for _, p := range all.pools {
			if id := Text(p, "id"); id == Text(l, "default_pool_id") {
				used[id] = true
				x["default_pool"] = all.pool(p, symbols)
			}
		}
		note(x, l)
		listeners = append(listeners, x)
	}
	for _, p := range all.pools {
		if below(p, lb) && !used[Text(p, "id")] {
			pools = append(pools, all.pool(p, symbols))
		}
	}
	byKey(listeners, "protocol_port", "protocol", "name")
	byKey(pools, "name")
	put(out, "listeners", listeners)
	put(out, "pools", pools)
	return out
}

func (all *contents) pool(p Object, symbols *symbol.Symbols) Object {
	out := normal(p, symbols, "name", "description", "protocol", "lb_algorithm", "session_persistence", "tags", "admin_state_up")
	var members []Object
	for _, m := range all.members[Text(p, "id")] {
		members = append(members, normal(m, symbols, "name", "address", "protocol_port", "weight", "backup", "subnet_id", "monitor_port", "monitor_address", "tags", "admin_state_up"))
	}
	byKey(members, "name", "address", "protocol_port")
	put(out, "members", members)
	for _, h := range all.monitors {
		if Text(h, "id") == Text(p, "healthmonitor_id") {
			keys := []string{"name", "type", "delay", "timeout", "max_retries", "max_retries_down", "tags", "admin_state_up"}
			if strings.HasPrefix(Text(h, "type"), "HTTP") {
				keys = append(keys, "http_method", "url_path", "expected_codes")
			}
			out["healthmonitor"] = normal(h, symbols, keys...)
		}
	}
	note(out, p)
	return out
}

// group is the normal form of a security group.
func (all *contents) group(g Object, symbols *symbol.Symbols) Object {
	out := normal(g, symbols, "name", "description", "tags")
	var rules []Object
	for _, r := range objects(g, "security_group_rules") {
		rules = append(rules, normal(r, symbols, "direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id", "description"))
	}
	slices.SortFunc(rules, func(a, b Object) int { return cmp.Compare(Compact(a), Compact(b)) })
	put(out, "rules", rules)
	var carry, tagged []any
	for _, p := range all.ports {
		if slices.Contains(texts(p, "security_groups"), Text(g, "id")) {
			carry = append(carry, symbols.Fold(Text(p, "id")))
		}
		if slices.Contains(texts(p, "tags"), Text(g, "id")) {
			tagged = append(tagged, symbols.Fold(Text(p, "id")))
		}
	}
	for key, list := range map[string][]any{"ports": carry, "tagged": tagged} {
		slices.SortFunc(list, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		if len(list) > 0 {
			out[key] = list
		}
	}
	return out
}

// below reports whether an object belongs to a load balancer.
func below(o, lb Object) bool {
	return slices.ContainsFunc(objects(o, "loadbalancers"), func(x Object) bool { return Text(x, "id") == Text(lb, "id") })
}

// note notes that an object is in error: that is not to be made again.
func note(out, shown Object) {
	if Text(shown, "provisioning_status") == "ERROR" {
		out["error"] = true
	}
}

func put(o Object, key string, list []Object) {
	if len(list) == 0 {
		return
	}
	all := make([]any, len(list))
	for i := range list {
		all[i] = list[i]
	}
	o[key] = all
}

// usual are the cloud's defaults, which a normal form leaves out.
func usual() Object {
	return Object{
		"admin_state_up": true, "connection_limit": -1.0, "timeout_client_data": 50000.0, "timeout_member_connect": 5000.0, "timeout_member_data": 50000.0,
		"timeout_tcp_inspect": 0.0, "weight": 1.0, "backup": false,
	}
}

// normal picks keys of an object.
func normal(o Object, symbols *symbol.Symbols, keys ...string) Object {
	out, def := Object{}, usual()
	for _, k := range keys {
		v := o[k]
		if v == nil || v == "" || reflect.DeepEqual(v, def[k]) {
			continue
		}
		switch x := v.(type) {
		case []any:
			if len(x) == 0 {
				continue
			}
		case map[string]any:
			for key := range x {
				if x[key] == nil {
					delete(x, key)
				}
			}
			if len(x) == 0 {
				continue
			}
		}
		v = symbols.FoldAll(v)
		if list, is := v.([]any); is && k != "additional_vips" {
			slices.SortFunc(list, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		out[k] = v
	}
	return out
}

func byKey(list []Object, keys ...string) {
	slices.SortStableFunc(list, func(a, b Object) int {
		for _, k := range keys {
			if x, is := a[k].(float64); is {
				y, _ := b[k].(float64)
				if c := cmp.Compare(x, y); c != 0 {
					return c
				}
				continue
			}
			if c := cmp.Compare(fmt.Sprint(a[k]), fmt.Sprint(b[k])); c != 0 {
				return c
			}
		}
		return 0
	})
}

func (s *State) sort() {
	byKey(s.LoadBalancers, "name", "vip_address")
	byKey(s.FloatingIPs, "floating_ip_address", "description")
	byKey(s.SecurityGroups, "name")
	byKey(s.Ports, "name")
}

// OwnerOf is the scenario whose name an object bears, the longest where one has another in it.
func OwnerOf(o Object, scenarios []string) string {
	found := ""
	for _, where := range []string{Text(o, "name"), Text(o, "description")} {
		for _, s := range scenarios {
			if len(s) > len(found) && strings.Contains(where, s) {
				found = s
			}
		}
	}
	return found
}
