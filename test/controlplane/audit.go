package controlplane

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// auditPolicy leaves out reads, what only asks (reviews), and leases, which are renewed by the clock.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
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

	mu     sync.Mutex
	offset int64
	writes []Write
}

// newAudit makes the folder of an audit log, and sets what kube-apiserver needs to write one.
func newAudit(set func(name string, values ...string)) (*audit, error) {
	dir, err := os.MkdirTemp("", "isthmus-audit-")
	if err != nil {
		return nil, fmt.Errorf("folder for the audit log: %w", err)
	}
	a := &audit{dir: dir}
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

// read returns all writes, and reads those that are new.
func (a *audit) read() ([]Write, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := os.Open(a.file())
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return a.writes[:len(a.writes):len(a.writes)], nil // the rest of a line is read next time
		}
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		a.offset += int64(len(line))
		var entry struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		o := entry.ObjectRef
		a.writes = append(a.writes, Write{User: entry.User.Username, Verb: entry.Verb, Status: entry.ResponseStatus.Code,
			Resource: o.Resource, Subresource: o.Subresource, Namespace: o.Namespace, Name: o.Name})
	}
}

// Writes returns every write that kube-apiserver has answered, oldest first, as far as it is
// in its audit log: leases are not. It is an error without Options.Audit.
func (c *ControlPlane) Writes() ([]Write, error) {
	if c.audit == nil {
		return nil, errors.New("the control plane was started without Options.Audit")
	}
	return c.audit.read()
}
