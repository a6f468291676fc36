package openstack

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is one thing that differs between what two managers left of a scenario.
type Difference struct {
	Scenario, Phase string
	// Path is where, for example lb[kube_service_…].listener[TCP:80].timeout_client_data.
	Path string
	// OCCM and Ours are the values as JSON, "" for none.
	OCCM, Ours string
	// Reached says how far the two have come with the scenario by then.
	Reached Reached
}

// Reached is how far OCCM and ours have come with a scenario.
type Reached int

const (
	// BothServe is also where neither has anything to serve.
	BothServe Reached = iota
	// OnlyOurs is where OCCM has failed at it once at least, ours has not, and every Service has an address.
	OnlyOurs
	// Neither is where OCCM has failed at it, and so does ours, or a Service has no address.
	Neither
)

// reached is how far they have come after a phase, at whose end ours left a state.
func (r *Recording) reached(scenario string, phase int, ours *State) Reached {
	switch {
	case !r.Failed(scenario, phase):
		return BothServe
	case ours.served():
		return OnlyOurs
	default:
		return Neither
	}
}

// served says that every Service has an address and none has just failed.
func (s *State) served() bool {
	for _, p := range s.Services {
		if p.Failed || len(p.Ingress) == 0 {
			return false
		}
	}
	return true
}

func (d Difference) String() string {
	return fmt.Sprintf("%s, %s: %s: OCCM has %s, ours has %s", d.Scenario, d.Phase, d.Path, orNone(d.OCCM), orNone(d.Ours))
}

func orNone(v string) string {
	if v == "" {
		return "nothing"
	}
	return v
}

// Compare returns how two states of a scenario differ, the events of Services aside.
func Compare(scenario, phase string, occm, ours *State) ([]Difference, error) {
	a, err := occm.tree()
	if err != nil {
		return nil, err
	}
	b, err := ours.tree()
	if err != nil {
		return nil, err
	}
	var out []Difference
	differ(a, b, "", func(path, x, y string) {
		out = append(out, Difference{Scenario: scenario, Phase: phase, Path: strings.TrimPrefix(path, "."), OCCM: x, Ours: y})
	})
	return out, nil
}

// differ walks two trees side by side.
func differ(a, b any, path string, report func(path, a, b string)) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX || !isY {
		if t, u := shown(a), shown(b); t != u {
			report(path, t, u)
		}
		return
	}
	keys := slices.Collect(maps.Keys(x))
	for k := range y {
		if _, is := x[k]; !is {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		at := path + "." + k
		if strings.HasPrefix(k, "[") {
			at = path + k
		}
		differ(x[k], y[k], at, report)
	}
}

func shown(v any) string {
	if v == nil {
		return ""
	}
	return compact(v)
}

// tree is the state with every list as a map, so that its items are compared by what they are,
// not where they stand.
func (s *State) tree() (map[string]any, error) {
	c, err := s.Clone()
	if err != nil {
		return nil, err
	}
	out := map[string]any{
		"lb":   keyed(c.LoadBalancers, func(o Object) string { return text(o, "name") }),
		"fip":  keyed(c.FloatingIPs, func(o Object) string { return text(o, "floating_ip_address") }),
		"sg":   keyed(c.SecurityGroups, func(o Object) string { return text(o, "name") }),
		"port": keyed(c.Ports, func(o Object) string { return text(o, "name") }),
	}
	services := map[string]any{}
	for name, p := range c.Services {
		ingress := map[string]any{}
		for i, v := range p.Ingress {
			ingress[fmt.Sprintf("[%d]", i)] = compact(v)
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
			out["listener"] = keyed(objects(o, k), func(l Object) string { return fmt.Sprintf("%s:%v", transport(text(l, "protocol")), l["protocol_port"]) })
		case "pools":
			out["pool"] = keyed(objects(o, k), func(p Object) string { return text(p, "name") })
		case "members":
			out["member"] = keyed(objects(o, k), func(m Object) string { return text(m, "name") })
		case "rules":
			out["rule"] = keyed(objects(o, k), func(r Object) string { return compact(r) })
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
