package ccm

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// echoWindow is how long the change of annotations that we made ourselves is expected back
// from the informer.
const echoWindow = 30 * time.Second

// fingerprint identifies a plan. What the provider itself writes to the Service is no part
// of it. Members are kept as a hash: thousands of Nodes behind hundreds of Services would
// fill the memory.
type fingerprint struct{ rest, members string }

func fingerprintOf(spec *cloud.LoadBalancerSpec, vocabulary []cloud.Annotation) fingerprint {
	members := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%+v", spec.Members)))
	s := *spec
	s.Members, s.CurrentIngress = nil, nil
	s.Settings = maps.Clone(s.Settings)
	for _, a := range vocabulary {
		if a.Written {
			delete(s.Settings, a.Name)
		}
	}
	if h := s.HealthCheck; h != nil {
		s.HealthCheck = nil
		return fingerprint{rest: fmt.Sprintf("%+v %+v", s, *h), members: members}
	}
	return fingerprint{rest: fmt.Sprintf("%+v", s), members: members}
}

// completion is what the last successful Ensure of a Service did.
type completion struct {
	spec   fingerprint
	status *corev1.LoadBalancerStatus
	// annotations are those that we wrote to the Service then; the change comes back as an
	// update of the Service, which must not cost another Ensure, until echoUntil.
	annotations map[string]string
	echoUntil   time.Time
}

// completions remembers, by Service, whose load balancer is complete.
type completions struct {
	mu    sync.Mutex
	byUID map[types.UID]completion
}

func (c *completions) put(uid types.UID, done completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byUID[uid] = done
}

func (c *completions) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byUID, uid)
}

// sameButMembers reports whether the load balancer is complete for a plan that differs from
// spec in its members at most.
func (c *completions) sameButMembers(uid types.UID, spec fingerprint) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	done, ok := c.byUID[uid]
	return ok && done.spec.rest == spec.rest
}

// members notes that the load balancer now has spec's members.
func (c *completions) members(uid types.UID, spec fingerprint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done, ok := c.byUID[uid]; ok && done.spec.rest == spec.rest {
		done.spec = spec
		c.byUID[uid] = done
	}
}

// echo returns the status published last when service differs from what was ensured only in
// the annotations that we wrote, and nil otherwise. It does so once for each write.
func (c *completions) echo(service *corev1.Service, spec fingerprint, now time.Time) *corev1.LoadBalancerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	done, ok := c.byUID[service.UID]
	if !ok || done.annotations == nil || now.After(done.echoUntil) || done.spec != spec {
		return nil
	}
	for name, value := range done.annotations {
		if service.Annotations[name] != value {
			return nil
		}
	}
	done.annotations = nil
	c.byUID[service.UID] = done
	return done.status.DeepCopy()
}
