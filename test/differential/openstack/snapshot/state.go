package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// Object is an object of the cloud in its normal form: as the body of the request that would
// make it, whole, with symbols for identifiers and addresses, and without what is empty or
// the cloud's default.
type Object = map[string]any

// State is what the cloud and the API hold of one scenario.
type State struct {
	// LoadBalancers have their trees in them: "listeners", each with its "default_pool", that with
	// "members" and "healthmonitor"; pools of no listener are "pools".
	LoadBalancers []Object `json:"loadbalancers,omitempty"`
	FloatingIPs   []Object `json:"floatingips,omitempty"`
	// SecurityGroups have "rules", and the symbols of the ports that carry them ("ports") or their
	// identifier as a tag ("tagged").
	SecurityGroups []Object `json:"security_groups,omitempty"`
	// Ports are those of users, of no server and no load balancer.
	Ports []Object `json:"ports,omitempty"`
	// Services are the scenario's, by name.
	Services map[string]Published `json:"services,omitempty"`
}

// Published is what a manager has written about a Service.
type Published = differential.Published

// Clone is a deep copy.
func (s *State) Clone() (*State, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	out := &State{}
	return out, json.Unmarshal(data, out)
}

// Digest tells one state from another, but for what events tell of Services.
func (s *State) Digest() (string, error) {
	c, err := s.Clone()
	if err != nil {
		return "", err
	}
	for name, p := range c.Services {
		p.Failed = false
		c.Services[name] = p
	}
	tree, err := c.Tree()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(Compact(tree)))
	return hex.EncodeToString(sum[:6]), nil
}

// Served says that every Service has an address and none has just failed.
func (s *State) Served() bool {
	for _, p := range s.Services {
		if p.Failed || len(p.Ingress) == 0 {
			return false
		}
	}
	return true
}

// None says that nothing is known of it.
func (s *State) None() bool { return s == nil }

// Failed says that not all of the scenario's Services are served.
func (s *State) Failed() bool {
	if s == nil {
		return false
	}
	for _, p := range s.Services {
		if p.Failed {
			return true
		}
	}
	return false
}

// Compact is an object as JSON in one line.
func Compact(v any) string { return compare.Compact(v) }
