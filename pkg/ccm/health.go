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

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// publicError is the error of a check, part of which everyone may read.
type publicError struct {
	error
	public string
}

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
			reason := "the reason is in the log"
			var p publicError
			if errors.As(err, &p) {
				reason = p.public
			}
			fmt.Fprintf(&text, "[-]%s failed: %s\n", name, reason)
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
