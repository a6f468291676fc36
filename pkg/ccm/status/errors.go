package status

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// maxErrors is how many errors are kept of objects of one kind: those of thousands of Nodes must not push out a Service's.
const maxErrors = 50

// Errors keeps the last errors, for people to read. It is told, and tells nobody else. It is safe for concurrent use, and nil keeps nothing.
type Errors struct {
	now func() time.Time

	mu     sync.Mutex
	byKind map[string][]Error // by the kind of object, one of few that the process's own code names; the newest last
}

// Error is what went wrong last with an object for a reason.
type Error struct {
	Time time.Time `json:"time"`
	// Object is its kind in small letters, its namespace and its name: service/default/web.
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Count is how often it was told since it was first kept.
	Count int `json:"count"`
}

// NewErrors makes one of a clock.
func NewErrors(now func() time.Time) *Errors { return &Errors{now: now, byKind: map[string][]Error{}} }

// Add keeps an error about an object, named as kubectl does, in place of the one of the same reason. The texts must hold no secrets; they
// are bounded, and control characters are taken out.
func (e *Errors) Add(object, reason, message string) {
	if e == nil {
		return
	}
	kind, _, _ := strings.Cut(object, "/")
	added := Error{Time: e.now().UTC(), Object: text.Line(object, 2*maxText), Reason: text.Line(reason, maxText), Message: text.Line(message, maxMessage), Count: 1}
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := e.byKind[kind]
	same := func(x Error) bool { return x.Object == added.Object && x.Reason == added.Reason }
	if i := slices.IndexFunc(kept, same); i >= 0 {
		added.Count += kept[i].Count
		kept = slices.Delete(kept, i, i+1)
	} else if len(kept) == maxErrors {
		kept = slices.Delete(kept, 0, 1)
	}
	e.byKind[kind] = append(kept, added)
}

// list are all, the newest first.
func (e *Errors) list() List[Error] {
	var rows []Error
	if e != nil {
		e.mu.Lock()
		for _, kept := range e.byKind {
			rows = append(rows, kept...)
		}
		e.mu.Unlock()
	}
	slices.SortFunc(rows, func(a, b Error) int {
		return cmp.Or(b.Time.Compare(a.Time), strings.Compare(a.Object, b.Object), strings.Compare(a.Reason, b.Reason))
	})
	return bounded(rows, func(Error) bool { return false })
}
