package difference

import (
	"regexp"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
)

// Intended is a kind of difference that is meant to be.
type Intended struct {
	// Name is short; the reference counts by it.
	Name string
	// OCCM and Here say what the two do, Why the reason; the guide prints them.
	OCCM, Here, Why string
	Match
}

// Match says which differences an entry is about.
type Match struct {
	// Scenarios and Path are what the difference's must match as a whole, Theirs and Ours what its
	// values must contain; empty ones match anything.
	Scenarios, Path, Theirs, Ours string
	// Reached is where it is only about what two managers left that have come so far; any for BothServe.
	Reached Reached
	// Gone: only where ours has nothing; New: where OCCM has nothing.
	Gone, New bool
}

// Results are what a replay has found.
type Results struct {
	Manager   string `json:"manager"`
	Groups    int    `json:"groups"`
	Scenarios int    `json:"scenarios"`
	// Same are the scenarios in which nothing but the owner's mark is meant to differ.
	Same int `json:"same"`
	// Intended are how many scenarios differ in what an entry of the list names.
	Intended map[string]int `json:"intended"`
	// Back are the states left by ours that OCCM was started on.
	Back int `json:"back"`
}

// Results counts what Count has noted.
func (s *Sieve) Results() Results {
	out := Results{Intended: map[string]int{}}
	differ := map[string]bool{}
	add := func(to map[string]int, name string, r *rule, mark bool) {
		to[name] = len(r.hits)
		for scenario := range r.hits {
			if !mark {
				differ[scenario] = true
			}
		}
	}
	for i, d := range Differences() {
		add(out.Intended, d.Name, s.intended[i], i == 0)
	}
	for _, g := range script.Groups() {
		out.Groups++
		out.Scenarios += len(g.Scenarios)
	}
	out.Same = out.Scenarios - len(differ)
	return out
}

// Sieve sorts differences by what they are for.
type Sieve struct {
	intended []*rule
}

type rule struct {
	match                         Match
	scenarios, path, theirs, ours *regexp.Regexp
	hits                          map[string]bool // scenarios
}

// NewSieve makes a Sieve of Differences.
func NewSieve() (*Sieve, error) {
	s := &Sieve{}
	for _, i := range Differences() {
		r, err := newRule(i.Match)
		if err != nil {
			return nil, err
		}
		s.intended = append(s.intended, r)
	}
	return s, nil
}

func newRule(m Match) (*rule, error) {
	r := &rule{match: m, hits: map[string]bool{}}
	var err error
	for _, p := range []struct {
		into *(*regexp.Regexp)
		text string
	}{{&r.scenarios, whole(m.Scenarios)}, {&r.path, whole(m.Path)}, {&r.theirs, m.Theirs}, {&r.ours, m.Ours}} {
		if *p.into, err = regexp.Compile(p.text); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func whole(text string) string {
	if text == "" {
		return ""
	}
	return "^(?:" + text + ")$"
}

func (r *rule) matches(d *Difference) bool {
	if r.match.Reached != BothServe && r.match.Reached != d.Reached || r.match.Gone && d.Ours != "" || r.match.New && d.OCCM != "" {
		return false
	}
	return r.scenarios.MatchString(d.Scenario) && r.path.MatchString(d.Path) && r.theirs.MatchString(d.OCCM) && r.ours.MatchString(d.Ours)
}

// Rest returns the differences that nothing explains.
func (s *Sieve) Rest(all []Difference) []Difference {
	var out []Difference
	for i := range all {
		if s.find(&all[i]) == nil {
			out = append(out, all[i])
		}
	}
	return out
}

func (s *Sieve) find(d *Difference) *rule {
	for _, r := range s.intended {
		if r.matches(d) {
			return r
		}
	}
	return nil
}

// Count notes which differences have explanations; it returns the rest.
func (s *Sieve) Count(all []Difference) []Difference {
	for i := range all {
		if r := s.find(&all[i]); r != nil {
			r.hits[all[i].Scenario] = true
		}
	}
	return s.Rest(all)
}

// Idle are the entries of Differences that no difference has matched.
func (s *Sieve) Idle() []string {
	var out []string
	for i, d := range Differences() {
		if len(s.intended[i].hits) == 0 {
			out = append(out, d.Name)
		}
	}
	return out
}
