package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// Object is a part of a state.
type Object = map[string]any

// State is what the cloud and the API hold of one scenario, by kind and then by name: "classic" and "network" load balancers,
// "group" (target groups of no load balancer), "sg" (security groups), "rule" (in other groups, for the scenario), "route",
// "instance", "node", "service".
type State map[string]Object

// put puts an object into a state.
func (s State) put(kind, name string, o any) {
	if s[kind] == nil {
		s[kind] = Object{}
	}
	key := name
	for i := 2; s[kind][key] != nil; i++ {
		key = fmt.Sprintf("%s#%d", name, i)
	}
	s[kind][key] = o
}

// Failed says that not all of the scenario's Services are served.
func (s State) Failed() bool {
	for _, o := range s["service"] {
		if x, is := o.(Object); is && x["failed"] == true {
			return true
		}
	}
	return false
}

// None says that nothing is known of it.
func (s State) None() bool { return s == nil }

// Served says that each of the scenario's Services has an address.
func (s State) Served() bool {
	for _, o := range s["service"] {
		if x, is := o.(Object); is && x["ingress"] == nil {
			return false
		}
	}
	return true
}

// plain is a value as it is read from JSON.
func plain(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(data, &out)
}

// Plain is the state as it is read from JSON.
func (s State) Plain() (State, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	out := State{}
	return out, json.Unmarshal(data, &out)
}

// InAPI is what of the state the API has.
func (s State) InAPI() State { return State{"node": s["node"], "service": s["service"]} }

// Digest tells one state from another, but for what events tell of Services.
func (s State) Digest() (string, error) {
	out, err := s.Plain()
	if err != nil {
		return "", err
	}
	for _, o := range out["service"] {
		if service, is := o.(Object); is {
			delete(service, "events")
			delete(service, "failed")
		}
	}
	sum := sha256.Sum256([]byte(Compact(out)))
	return hex.EncodeToString(sum[:6]), nil
}

// Compact is a value as JSON in one line.
func Compact(v any) string { return compare.Compact(v) }

// OwnerOf is the scenario that a text names, the longest where one has another in it.
func OwnerOf(text string, scenarios []string) string {
	found := ""
	for _, s := range scenarios {
		if len(s) > len(found) && (strings.Contains(text, ":"+s+"/") || strings.Contains(text, "("+s+"/") || text == s) {
			found = s
		}
	}
	return found
}

// set is a list without an order.
func set(list []string) Object {
	out := Object{}
	for _, v := range list {
		out[v] = true
	}
	return out
}

// filled leaves out of an object what is empty.
func filled(o Object) Object {
	for k, v := range o {
		switch x := v.(type) {
		case string:
			if x != "" {
				continue
			}
		case int:
			if x != 0 {
				continue
			}
		case bool:
			if x {
				continue
			}
		case Object:
			if len(x) > 0 {
				continue
			}
		case []string:
			if len(x) > 0 {
				continue
			}
		default:
			continue
		}
		delete(o, k)
	}
	return o
}

// texts makes an object of texts, but for what usual has the same.
func texts(m, usual map[string]string) Object {
	out := Object{}
	for k, v := range m {
		if u, is := usual[k]; !is || u != v {
			out[k] = v
		}
	}
	return out
}

// tags are an object's but those with which Isthmus marks all that it makes: its cluster's UID, and a security group's Service. Nothing that
// was there before gets them.
func tags(m map[string]string) Object {
	return texts(m, map[string]string{clusterUID: m[clusterUID], service: m[service]})
}

const (
	clusterUID = "isthmus-cloud.github.io/cluster-uid"
	service    = "isthmus-cloud.github.io/service"
)
