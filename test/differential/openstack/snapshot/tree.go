package snapshot

import "fmt"

// Tree is the state with every list as a map, so that its items are compared by what they are,
// not where they stand.
func (s *State) Tree() (map[string]any, error) {
	c, err := s.Clone()
	if err != nil {
		return nil, err
	}
	out := map[string]any{
		"lb":   keyed(c.LoadBalancers, func(o Object) string { return Text(o, "name") }),
		"fip":  keyed(c.FloatingIPs, func(o Object) string { return Text(o, "floating_ip_address") }),
		"sg":   keyed(c.SecurityGroups, func(o Object) string { return Text(o, "name") }),
		"port": keyed(c.Ports, func(o Object) string { return Text(o, "name") }),
	}
	services := map[string]any{}
	for name, p := range c.Services {
		ingress := map[string]any{}
		for i, v := range p.Ingress {
			ingress[fmt.Sprintf("[%d]", i)] = Compact(v)
		}
		annotations := map[string]any{}
		for k, v := range p.Annotations {
			annotations["["+k+"]"] = v
		}
		one := map[string]any{"annotation": annotations, "ingress": ingress, "finalizer": set(p.Finalizers)}
		if p.Failed {
			one["failed"] = true
		}
		services["["+name+"]"] = one
	}
	out["service"] = services
	return out, nil
}

func set(list []string) map[string]any {
	out := map[string]any{}
	for _, v := range list {
		out["["+v+"]"] = true
	}
	return out
}

// keyed makes a map of a list of objects, and below them, too.
func keyed(list []Object, key func(Object) string) map[string]any {
	out := map[string]any{}
	for _, o := range list {
		k := "[" + key(o) + "]"
		for i := 2; out[k] != nil; i++ {
			k = fmt.Sprintf("[%s#%d]", key(o), i)
		}
		out[k] = mapped(o)
	}
	return out
}

// mapped makes maps of the lists in an object.
func mapped(o Object) map[string]any {
	out := map[string]any{}
	for k, v := range o {
		switch k {
		case "listeners":
			out["listener"] = keyed(objects(o, k), func(l Object) string { return fmt.Sprintf("%s:%v", transport(Text(l, "protocol")), l["protocol_port"]) })
		case "pools":
			out["pool"] = keyed(objects(o, k), func(p Object) string { return Text(p, "name") })
		case "members":
			out["member"] = keyed(objects(o, k), func(m Object) string { return Text(m, "name") })
		case "rules":
			out["rule"] = keyed(objects(o, k), func(r Object) string { return Compact(r) })
		case "tags", "ports", "tagged", "allowed_cidrs", "security_groups":
			out[k] = set(texts(o, k))
		default:
			if x, is := v.(map[string]any); is {
				out[k] = mapped(x)
				continue
			}
			out[k] = v
		}
	}
	return out
}

// transport is the protocol below a listener's.
func transport(protocol string) string {
	if protocol == "UDP" || protocol == "SCTP" {
		return protocol
	}
	return "TCP"
}
