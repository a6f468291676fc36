package controlplane

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Write is a request that was to change an object, as kube-apiserver's audit log has it.
type Write struct {
	// User is who asked: system:serviceaccount:<namespace>:<name> for a ServiceAccount.
	User string
	// Verb is create, update, patch, delete or deletecollection.
	Verb string
	// Resource is the plural name, Subresource for example status; Namespace and Name are the object's.
	Resource, Subresource, Namespace, Name string
	// Status is the answer's code: a refused write is one, too.
	Status int
}

// Request is what a ServiceAccount may ask for, as RBAC has it. Equal requests are one.
type Request struct {
	// User is system:serviceaccount:<namespace>:<name>.
	User, Verb, Group, Resource, Subresource, Namespace, Name string
	// Allowed is what the authorizer said.
	Allowed bool
}

// auditPolicy has all that ServiceAccounts ask for. Of others it leaves out reads, what only asks
// (reviews), and leases, which are renewed by the clock.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: [system:serviceaccounts]
  - level: None
    verbs: [get, list, watch]
  - level: None
    resources:
      - group: coordination.k8s.io
      - group: authentication.k8s.io
      - group: authorization.k8s.io
  - level: Metadata
`

// audit is kube-apiserver's audit log, of which what was read is kept.
type audit struct {
	dir string

	mu       sync.Mutex
	offset   int64
	writes   []Write
	requests map[Request]bool
}

// newAudit makes the folder of an audit log, and sets what kube-apiserver needs to write one.
func newAudit(set func(name string, values ...string)) (*audit, error) {
	dir, err := os.MkdirTemp("", "isthmus-audit-")
	if err != nil {
		return nil, fmt.Errorf("folder for the audit log: %w", err)
	}
	a := &audit{dir: dir, requests: map[Request]bool{}}
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("audit policy: %w", err), a.remove())
	}
	set("audit-policy-file", policy)
	set("audit-log-path", a.file())
	return a, nil
}

func (a *audit) file() string { return filepath.Join(a.dir, "audit.log") }

func (a *audit) remove() error {
	if a == nil {
		return nil
	}
	return os.RemoveAll(a.dir)
}

// read reads what is new.
func (a *audit) read() error {
	f, err := os.Open(a.file())
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the rest of a line is read next time
		}
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		a.offset += int64(len(line))
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		a.add(&e)
	}
}

// auditEvent is the part of an event that is used here.
type auditEvent struct {
	Verb           string
	User           struct{ Username string }
	ObjectRef      struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus struct{ Code int }
	Annotations    map[string]string
}

func (a *audit) add(e *auditEvent) {
	o := e.ObjectRef
	if strings.HasPrefix(e.User.Username, "system:serviceaccount:") {
		r := Request{User: e.User.Username, Verb: e.Verb, Group: o.APIGroup, Resource: o.Resource, Subresource: o.Subresource, Namespace: o.Namespace, Name: o.Name,
			Allowed: e.Annotations["authorization.k8s.io/decision"] == "allow"}
		a.requests[r] = true
		if e.Verb == "patch" && e.ResponseStatus.Code == http.StatusCreated {
			r.Verb = "create" // a server-side apply that creates must be allowed both
			a.requests[r] = true
		}
	}
	switch e.Verb {
	case "get", "list", "watch":
		return
	}
	switch o.APIGroup {
	case "coordination.k8s.io", "authentication.k8s.io", "authorization.k8s.io":
		return
	}
	a.writes = append(a.writes, Write{User: e.User.Username, Verb: e.Verb, Status: e.ResponseStatus.Code,
		Resource: o.Resource, Subresource: o.Subresource, Namespace: o.Namespace, Name: o.Name})
}

// Writes returns every write that kube-apiserver has answered, oldest first, as far as it is
// in its audit log: leases are not. It is an error without Options.Audit.
func (c *ControlPlane) Writes() ([]Write, error) {
	var out []Write
	err := c.readAudit(func(a *audit) { out = a.writes[:len(a.writes):len(a.writes)] })
	return out, err
}

// Requests returns what ServiceAccounts have asked for. It is an error without Options.Audit.
func (c *ControlPlane) Requests() ([]Request, error) {
	var out []Request
	err := c.readAudit(func(a *audit) { out = slices.Collect(maps.Keys(a.requests)) })
	return out, err
}

func (c *ControlPlane) readAudit(take func(a *audit)) error {
	if c.audit == nil {
		return errors.New("the control plane was started without Options.Audit")
	}
	c.audit.mu.Lock()
	defer c.audit.mu.Unlock()
	if err := c.audit.read(); err != nil {
		return err
	}
	take(c.audit)
	return nil
}
