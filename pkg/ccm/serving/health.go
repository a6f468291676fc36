package serving

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

// NewPublicError returns err, of which everyone may read public.
func NewPublicError(err error, public string) error { return publicError{err, public} }

const (
	// checkTimeout bounds one health check.
	checkTimeout = 5 * time.Second
	// warningTimeout bounds one that only warns: probes must not run out of time for it.
	warningTimeout = time.Second
)

// Checks are the named checks of one health endpoint, in the order in which they were added.
// The answer says which fail, to everyone who asks; why they fail is only logged, once for
// each change. Those that only warn fail on their own path, and are told by the endpoint
// without failing it: they are about work that is held up, not about serving.
type Checks struct {
	endpoint string
	logger   klog.Logger

	mu     sync.Mutex
	names  []string
	byName map[string]healthz.Checker
	warns  map[string]bool
	last   map[string]string
}

// NewChecks returns those of an endpoint.
func NewChecks(endpoint string, logger klog.Logger) *Checks {
	return &Checks{endpoint: endpoint, logger: logger, byName: map[string]healthz.Checker{}, warns: map[string]bool{}, last: map[string]string{}}
}

// Add adds a check; its name must be new and no path.
func (c *Checks) Add(name string, check healthz.Checker) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" || strings.ContainsAny(name, "/ ") || c.byName[name] != nil || check == nil {
		return fmt.Errorf("health check %q cannot be added to /%s: the name is taken or not possible", name, c.endpoint)
	}
	c.names = append(c.names, name)
	c.byName[name] = check
	return nil
}

// AddWarning is Add for a check that only warns.
func (c *Checks) AddWarning(name string, check healthz.Checker) error {
	if err := c.Add(name, check); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warns[name] = true
	return nil
}

// ServeHTTP answers /endpoint with all checks and /endpoint/name with one.
func (c *Checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	names := slices.Clone(c.names)
	c.mu.Unlock()
	one := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+c.endpoint), "/")
	if one != "" {
		if !slices.Contains(names, one) {
			http.NotFound(w, r)
			return
		}
		names = []string{one}
	}
	var text, warnings strings.Builder
	failed := false
	for _, name := range names {
		c.mu.Lock()
		warns := c.warns[name] && one == ""
		c.mu.Unlock()
		err := c.run(r, name, warns)
		switch {
		case err == nil:
			fmt.Fprintf(&text, "[+]%s ok\n", name)
		case warns:
			fmt.Fprintf(&warnings, "[!]%s warns: %s\n", name, publicReason(err))
		default:
			failed = true
			fmt.Fprintf(&text, "[-]%s failed: %s\n", name, publicReason(err))
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(&text, "%s%s check failed\n", warnings.String(), c.endpoint)
	case r.URL.Query().Has("verbose"):
		fmt.Fprintf(&text, "%s%s check passed\n", warnings.String(), c.endpoint)
	default:
		text.Reset()
		text.WriteString("ok")
		if warnings.Len() > 0 {
			fmt.Fprintf(&text, "\n%s", warnings.String())
		}
	}
	_, _ = w.Write([]byte(text.String())) // a client that left needs no answer
}

// publicReason is what everyone may read of err.
func publicReason(err error) string {
	var p publicError
	if errors.As(err, &p) {
		return p.public
	}
	return "the reason is in the log"
}

func (c *Checks) run(r *http.Request, name string, warns bool) error {
	c.mu.Lock()
	check := c.byName[name]
	c.mu.Unlock()
	limit := checkTimeout
	if warns {
		limit = warningTimeout
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
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

// Synced is a healthz.Checker of informers.
func Synced(all ...func() bool) healthz.Checker {
	return func(*http.Request) error {
		for _, s := range all {
			if !s() {
				return errors.New("informers have not synced yet")
			}
		}
		return nil
	}
}
