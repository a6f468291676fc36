package service

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// plan identifies what a load balancer shall be: members for themselves, everything else as
// rest. Both are digests: thousands of Nodes behind hundreds of Services would fill the memory.
type plan struct{ rest, members string }

// planOf identifies spec. members is the digest of its members. Neither what is published
// nor how the cloud is asked is part of it.
func planOf(spec *cloud.LoadBalancerSpec, members string) plan {
	s := *spec
	s.Members, s.Candidates, s.CurrentIngress, s.Verify = nil, nil, nil, false
	data, err := json.Marshal(s)
	if err != nil { // only a new kind of field could be the reason
		data = fmt.Appendf(nil, "%+v", s)
	}
	return plan{rest: digest(data), members: members}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return string(sum[:])
}

// completion is what the last Ensure that succeeded did.
type completion struct {
	plan   plan
	status *cloud.LoadBalancerStatus
}

// entry is what is known of one Service's load balancer. It belongs to the worker that has
// the key; only watching and awaited are for others, too.
type entry struct {
	// service is the Service as it was last worked on; nil when it never was. Its load
	// balancer is deleted when the Service vanishes without a finalizer.
	service *corev1.Service
	// made says that there may be something in the cloud.
	made bool
	// foreign says that the Service has a class that others serve.
	foreign bool
	// latest is the Service as our last write left it; the informer may not have it yet.
	latest *corev1.Service

	// done is nil while the load balancer is not known to be complete.
	done *completion
	// verifyAt is when it is to be read afresh; zero for never.
	verifyAt time.Time
	// republished is when others' changes to what we publish were last undone.
	republished time.Time

	// tried is the plan of the last attempt that did not succeed, failures how many there
	// were in a row; the same plan is not tried again before notBefore.
	tried     plan
	failures  int
	notBefore time.Time
	// waiting is since when the cloud, not done yet, has made no progress; zero while it is not waited for.
	waiting time.Time
	// refused: the cloud did not take the last attempt's plan, and not for a while only.
	refused bool
	// followed is the plan whose members the load balancer was given although it is not as it
	// shall be.
	followed plan
	// hopeless: only a change makes the last attempt's plan succeed.
	hopeless bool
	// said are the events published for the plan whose rest is about, to tell each once.
	said  said
	about string

	watching atomic.Pointer[watch]
	// awaited: the cloud has ended the work that the last attempt waited for.
	awaited atomic.Bool
}

// watch is how a change of Nodes is seen to concern a Service.
type watch struct {
	selector labels.Selector
	digest   string
}

// records are the entries by the Services' keys.
type records struct {
	mu    sync.Mutex
	byKey map[string]*entry
}

// get returns the Service's entry, made when there is none.
func (r *records) get(key string) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byKey[key]
	if !ok {
		e = &entry{}
		r.byKey[key] = e
	}
	return e
}

// ended notes that the cloud has ended the work that the Service with the key waits
// for, and reports whether there is one.
func (r *records) ended(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byKey[key]
	if ok {
		e.awaited.Store(true)
	}
	return ok
}

func (r *records) drop(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKey, key)
}

// watched returns what each Service selects and what that was when it was last worked on.
func (r *records) watched() map[string]*watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]*watch, len(r.byKey))
	for key, e := range r.byKey {
		if w := e.watching.Load(); w != nil {
			out[key] = w
		}
	}
	return out
}

// due reports whether the load balancer is to be read afresh.
func (e *entry) due(now time.Time) bool { return !e.verifyAt.IsZero() && !now.Before(e.verifyAt) }

// overlay returns annotations with those of set, where an empty value removes one.
func overlay(annotations, set map[string]string) map[string]string {
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	for name, value := range set {
		if value == "" {
			delete(out, name)
		} else {
			out[name] = value
		}
	}
	return out
}
