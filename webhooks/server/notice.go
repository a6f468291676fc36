package server

import (
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// noticeEvery is how often the same kind of notice is logged for everyone to see.
const noticeEvery = 10 * time.Minute

// notices logs what goes wrong before a webhook is asked. With failurePolicy Ignore nobody is
// told of it elsewhere, so it is logged at V(0); but who reaches the port can cause it, so of
// each kind that is one line in a while, and the others are at V(2).
type notices struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	last map[string]time.Time
}

func newNotices(c clock.PassiveClock) *notices {
	return &notices{clock: c, last: map[string]time.Time{}}
}

func (n *notices) log(logger klog.Logger, kind, what string, values ...any) {
	if !n.due(kind) {
		logger = logger.V(2)
	}
	logger.Info(what, values...)
}

func (n *notices) due(kind string) bool {
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if last, ok := n.last[kind]; ok && now.Sub(last) < noticeEvery {
		return false
	}
	n.last[kind] = now
	return true
}
