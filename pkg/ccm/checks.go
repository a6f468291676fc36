package ccm

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/nodes"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/serving"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

func (m *Manager) addChecks(p *decorate.Provider) error {
	l := m.locks
	alive := func(*http.Request) error { return nil }
	errs := []error{m.health.Add("ping", alive), m.live.Add("ping", alive)}
	if l.Main != nil {
		errs = append(errs, m.health.Add("leaderElection", l.Main.Check), m.live.Add("leaderElection", l.Main.Check))
	}
	if l.Second != nil {
		errs = append(errs, m.health.Add("leaderMigration", l.Second.Check), m.live.Add("leaderMigration", l.Second.Check))
	}
	if m.watches() {
		core := m.informers.Core().V1()
		nodes.Guard(p, core.Nodes().Lister(), m.opts.NodeDeletion, m.client)
		errs = append(errs, m.ready.AddWarning("node-deletion", heldCheck(p.Nodes.Held)))
		errs = append(errs, m.ready.Add("informers", serving.Synced(core.Nodes().Informer().HasSynced, core.Services().Informer().HasSynced)))
	}
	// The cloud has accepted us before anything is served. When it goes later, webhooks must
	// still be reached, to say so or to answer without it.
	return errors.Join(append(errs, m.ready.AddWarning("cloud", func(r *http.Request) error { return p.Ready(r.Context()) }))...)
}

// heldCheck fails while the guard holds anything. It only warns: who takes the leader for not ready
// takes its webhooks away.
func heldCheck(held func() *deletionguard.Hold) func(*http.Request) error {
	return func(*http.Request) error {
		h := held()
		if h == nil {
			return nil
		}
		return serving.NewPublicError(
			fmt.Errorf("%d nodes whose instances were not found are kept: %s", len(h.Nodes), h.Verdict.Message),
			fmt.Sprintf("%d nodes whose instances were not found are kept; Events and the log say why", len(h.Nodes)))
	}
}
