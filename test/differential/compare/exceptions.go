package compare

import (
	"fmt"
	"regexp"
	"sync"
)

// Exception is what a manager does when it is started on what the other has left: a call that changes the cloud, or what it writes.
type Exception struct {
	Name string
	// What it does and why; the references print both.
	What, Why string
	// Match is what the whole of a complaint must match.
	Match string
}

// Exceptions finds what of a list is meant to be. Its methods may be called concurrently.
type Exceptions struct {
	list    []Exception
	matches []*regexp.Regexp

	mu   sync.Mutex // guards hits
	hits []int
}

// NewExceptions makes one of a list.
func NewExceptions(list []Exception) (*Exceptions, error) {
	e := &Exceptions{list: list, hits: make([]int, len(list))}
	for _, x := range list {
		match, err := regexp.Compile("(?s)^(?:" + x.Match + ")$")
		if err != nil {
			return nil, fmt.Errorf("exception %q: %w", x.Name, err)
		}
		e.matches = append(e.matches, match)
	}
	return e, nil
}

// Excuses says that the list has something.
func (e *Exceptions) Excuses(what string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := false
	for i, match := range e.matches {
		if match.MatchString(what) {
			found = true
			e.hits[i]++
		}
	}
	return found
}

// Idle are the names of those that nothing has matched.
func (e *Exceptions) Idle() (out []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, n := range e.hits {
		if n == 0 {
			out = append(out, e.list[i].Name)
		}
	}
	return out
}
