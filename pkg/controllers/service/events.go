package service

import (
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Reasons of events, the framework's but the last.
const (
	reasonEnsuring     = "EnsuringLoadBalancer"
	reasonEnsured      = "EnsuredLoadBalancer"
	reasonUpdated      = "UpdatedLoadBalancer"
	reasonUpdateFailed = "UpdateLoadBalancerFailed"
	reasonDeleting     = "DeletingLoadBalancer"
	reasonDeleted      = "DeletedLoadBalancer"
	reasonFailed       = "SyncLoadBalancerFailed"
	reasonNoNodes      = "UnAvailableLoadBalancer"
	reasonWarning      = "LoadBalancerWarning"
	reasonRepaired     = "RepairedLoadBalancer"
)

// repeatAfter is when an event is published again although nothing has changed, so that it
// is still there when somebody looks.
const repeatAfter = 15 * time.Minute

// said are the times at which events were published.
type said map[string]time.Time

// numbers are what differs between attempts that fail for the same reason: durations, counts.
var numbers = regexp.MustCompile(`[0-9]+`)

// once publishes an event unless the same was published a short while ago for the same plan.
func (c *Controller) once(e *entry, service *corev1.Service, kind, reason, message string) {
	now, message := c.Clock.Now(), text.Clip(message, mostText)
	key := reason + " " + numbers.ReplaceAllString(message, "#")
	if last, ok := e.said[key]; ok && now.Sub(last) < repeatAfter {
		return
	}
	if e.said == nil {
		e.said = said{}
	}
	for old, at := range e.said {
		if now.Sub(at) >= repeatAfter {
			delete(e.said, old)
		}
	}
	e.said[key] = now
	c.Recorder.Event(service, kind, reason, message)
}

func (c *Controller) warnOnce(e *entry, service *corev1.Service, texts []string) {
	for _, text := range texts {
		c.once(e, service, corev1.EventTypeWarning, reasonWarning, text)
	}
}

// list puts texts, which may have several lines, into one line.
func list(texts []string) string {
	return text.Clip(strings.ReplaceAll(strings.Join(texts, "; "), "\n", "; "), mostText)
}

// mostText is how long the text of an event or a log line gets: annotations have up to 256 kB, and
// a text may repeat their values.
const mostText = 2048
