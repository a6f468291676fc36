// Package dryrun is what the dry runs of the API server's and of a cloud's clients share: each change that would be made is
// told once, however often controllers try it. What is said, and what is answered in place of the change, is theirs.
package dryrun

import (
	"crypto/sha256"
	"slices"
	"sync"

	"k8s.io/klog/v2"
)

// CloudWouldChange is the message with which a provider tells of a change that it does not make.
const CloudWouldChange = "Dry run: the cloud would be changed"

// Once remembers what was told. Its zero value is ready.
type Once struct {
	mu   sync.Mutex
	seen map[[sha256.Size]byte]struct{} // at most mostSeen
}

// mostSeen bounds how many changes are remembered; then all are told once more.
const mostSeen = 100_000

// Logger returns where to tell of a change: logger, or at V(4) one that was told of before.
func (o *Once) Logger(logger klog.Logger, request string, body []byte) klog.Logger {
	key := sha256.Sum256(slices.Concat([]byte(request+" "), body))
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, repeated := o.seen[key]; repeated {
		return logger.V(4)
	}
	if o.seen == nil || len(o.seen) >= mostSeen {
		o.seen = map[[sha256.Size]byte]struct{}{}
	}
	o.seen[key] = struct{}{}
	return logger
}
