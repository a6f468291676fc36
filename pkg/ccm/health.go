package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// checkTimeout bounds one health check.
const checkTimeout = 5 * time.Second

// checks are the named checks of one health endpoint, in the order in which they were added.
// The answer says which fail, to everyone who asks; why they fail is only logged, once for
// each change.
type checks struct {
	endpoint string
	logger   klog.Logger

	mu     sync.Mutex
	names  []string
	byName map[string]healthz.Checker
	last   map[string]string
}

func newChecks(endpoint string, logger klog.Logger) *checks {
	return &checks{endpoint: endpoint, logger: logger, byName: map[string]healthz.Checker{}, last: map[string]string{}}
}

// add adds a check; its name must be new and no path.
func (c *checks) add(name string, check healthz.Checker) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" || strings.ContainsAny(name, "/ ") || c.byName[name] != nil || check == nil {
		return fmt.Errorf("health check %q cannot be added to /%s: the name is taken or not possible", name, c.endpoint)
	}
	c.names = append(c.names, name)
	c.byName[name] = check
	return nil
}

// ServeHTTP answers /endpoint with all checks and /endpoint/name with one.
func (c *checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	names := slices.Clone(c.names)
	c.mu.Unlock()
	if one := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+c.endpoint), "/"); one != "" {
		if !slices.Contains(names, one) {
			http.NotFound(w, r)
			return
		}
		names = []string{one}
	}
	var text strings.Builder
	failed := false
	for _, name := range names {
		if err := c.run(r, name); err != nil {
			failed = true
			fmt.Fprintf(&text, "[-]%s failed: the reason is in the log\n", name)
		} else {
			fmt.Fprintf(&text, "[+]%s ok\n", name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(&text, "%s check failed\n", c.endpoint)
	case !r.URL.Query().Has("verbose"):
		text.Reset()
		text.WriteString("ok")
	default:
		fmt.Fprintf(&text, "%s check passed\n", c.endpoint)
	}
	_, _ = w.Write([]byte(text.String())) // a client that left needs no answer
}

func (c *checks) run(r *http.Request, name string) error {
	c.mu.Lock()
	check := c.byName[name]
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	err := check(r.WithContext(ctx))
	now := ""
	if err != nil {
		now = err.Error()
	}
	c.mu.Lock()
	before := c.last[name]
	c.last[name] = now
	c.mu.Unlock()
	switch now {
	case before:
	case "":
		c.logger.Info("Health check passes again", "endpoint", c.endpoint, "check", name)
	default:
		c.logger.Info("Health check fails", "endpoint", c.endpoint, "check", name, "reason", now)
	}
	return err
}

// watchedLock is a leader election lock that knows when it was renewed last. A leader that
// neither renews nor notices that it does not (its renewing goroutine hangs) is unhealthy.
type watchedLock struct {
	resourcelock.Interface
	// tolerance is how long after the last renewal a leader counts as healthy.
	tolerance time.Duration
	now       func() time.Time

	mu      sync.Mutex
	leading bool
	renewed time.Time
}

// watchGrace is how much longer than the lease a leader may take before it is unhealthy.
const watchGrace = 20 * time.Second

func newWatchedLock(lock resourcelock.Interface, lease time.Duration) *watchedLock {
	return &watchedLock{Interface: lock, tolerance: lease + watchGrace, now: time.Now}
}

// Create implements resourcelock.Interface.
func (l *watchedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, l.Interface.Create(ctx, r))
}

// Update implements resourcelock.Interface.
func (l *watchedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, l.Interface.Update(ctx, r))
}

func (l *watchedLock) note(r resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.mu.Lock()
		l.leading, l.renewed = r.HolderIdentity == l.Identity(), l.now()
		l.mu.Unlock()
	}
	return err
}

// Check is a healthz.Checker.
func (l *watchedLock) Check(*http.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := l.now().Sub(l.renewed); l.leading && age > l.tolerance {
		return fmt.Errorf("this replica leads, but has not renewed its lease for %s", age.Round(time.Second))
	}
	return nil
}

// synced is a healthz.Checker of informers.
func synced(all ...func() bool) healthz.Checker {
	return func(*http.Request) error {
		for _, s := range all {
			if !s() {
				return errors.New("informers have not synced yet")
			}
		}
		return nil
	}
}
