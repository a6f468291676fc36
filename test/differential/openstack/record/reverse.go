package openstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Back is what OCCM did when it was started on what ours had left after a phase.
type Back struct {
	Phase int `json:"phase"`
	// Ours are digests of what ours had left, by scenario.
	Ours map[string]string `json:"ours"`
	// Calls are OCCM's that changed the cloud, by scenario; none where it should be so.
	Calls map[string][]string `json:"calls,omitempty"`
}

// Digest tells one state from another, but for what events tell of Services.
func (s *State) Digest() (string, error) {
	c, err := s.Clone()
	if err != nil {
		return "", err
	}
	for name, p := range c.Services {
		p.Failed = false
		c.Services[name] = p
	}
	tree, err := c.tree()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(compact(tree)))
	return hex.EncodeToString(sum[:6]), nil
}

// Backs are the phases after which OCCM is started on what ours has left: the first, and the last one before the end.
func (g *Group) Backs() []int {
	last := len(g.Phases()) - 2
	if last == 0 {
		return []int{0}
	}
	return []int{0, last}
}

// oursQuiet is longer than ours waits for more changes of Nodes (1 s).
const oursQuiet = 4 * time.Second

// Back plays the group with ours, a binary, and starts OCCM on what it left.
func (r *Recorder) Back(ctx context.Context, g *Group, ours string) (out []Back, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	var made Changes
	made.Watch(s.sim, false)
	next := 0
	for _, at := range g.Backs() {
		m, err := r.start(ctx, s.Player, s.dir, ours)
		if err != nil {
			return nil, err
		}
		for ; next <= at; next++ {
			if err := s.oursThrough(ctx, next); err != nil {
				return nil, errors.Join(err, m.Stop())
			}
		}
		if err := m.Stop(); err != nil {
			return nil, err
		}
		b, err := r.back(ctx, s, at, &made)
		if err != nil {
			return nil, fmt.Errorf("group %s: OCCM on what ours left: %w", g.Name, err)
		}
		out = append(out, *b)
	}
	return out, nil
}

// oursThrough takes a phase with ours.
func (s *session) oursThrough(ctx context.Context, phase int) error {
	before, err := s.observer.Mark(ctx)
	if err != nil {
		return err
	}
	services, err := s.Phase(ctx, phase)
	if err != nil {
		return err
	}
	if phase > 0 {
		services = nil // ours says nothing of what changes nothing
	}
	s.observer.Quiet, s.observer.Failures = oursQuiet, 1
	if err := s.settled(ctx, before, services); err != nil {
		return err
	}
	_, err = s.Read(ctx, before, before) // gives new objects symbols
	return err
}

// back starts OCCM.
func (r *Recorder) back(ctx context.Context, s *session, phase int, made *Changes) (*Back, error) {
	before, err := s.observer.Mark(ctx)
	if err != nil {
		return nil, err
	}
	states, err := s.Read(ctx, before, before)
	if err != nil {
		return nil, err
	}
	out := &Back{Phase: phase, Ours: map[string]string{}, Calls: map[string][]string{}}
	for _, name := range s.Names() {
		if out.Ours[name], err = states[name].Digest(); err != nil {
			return nil, err
		}
	}
	services, err := s.all(ctx, nil)
	if err != nil {
		return nil, err
	}
	made.Forget()
	m, err := r.start(ctx, s.Player, s.dir, r.Binary)
	if err != nil {
		return nil, err
	}
	s.observer.Quiet, s.observer.Failures = quiet, 1
	err = errors.Join(s.settled(ctx, before, services), m.Stop())
	if _, e := s.Read(ctx, before, before); e != nil {
		err = errors.Join(err, e)
	}
	for name, calls := range made.By(s.Place.Symbols, s.Names()) {
		slices.Sort(calls)
		out.Calls[name] = slices.Compact(calls)
	}
	if r.Logs != "" {
		err = errors.Join(err, os.WriteFile(fmt.Sprintf("%s/%s-back-%d.log", r.Logs, s.Group.Name, phase), []byte(m.Log()), 0o600))
	}
	return out, err
}

// Returned is what OCCM does when it takes a cluster back from ours.
type Returned struct {
	// What it does and why; the guide prints both. Match is what the whole of "scenario: call" must match.
	What, Why, Match string
}

// TakingBack is all that OCCM does then to what ours has left, Services aside that it cannot serve.
func TakingBack() []Returned {
	return []Returned{
		{
			What:  "OCCM takes the health monitors of `externalTrafficPolicy: Local` away that nobody asks for by annotation or cloud.conf.",
			Why:   "Without them it sends connections to Nodes that have no endpoint; `create-monitor` keeps them.",
			Match: `(?s)(.*local.*|ro-(8|9|11|21|23)): (DELETE /lbaas/healthmonitors/|PUT /lbaas/pools/[^ ]*/members ).*`,
		},
		{
			What:  "OCCM restricts the listeners of a dual-stack Service to the addresses of its first family.",
			Why:   "It does not know of the second VIP; see that Octavia can do it before going back, or make such Services single-stack.",
			Match: `(?s)(d|n-mixed-ip-f)-(46|64)[a-z-]*: PUT /lbaas/listeners/.*"allowed_cidrs".*`,
		},
		{
			What:  "OCCM writes a health monitor again, without the number that is asked for as 0.",
			Why:   "It compares with 0, which it leaves out of what it writes: nothing changes, each time anew.",
			Match: `h-(delay|timeout|down)-o-2: PUT /lbaas/healthmonitors/.*`,
		},
		{
			What:  "OCCM takes all members out of the pools of a Service whose `node-selector` it does not understand, such as `zone!=a`.",
			Why:   "By it OCCM selects no Node.",
			Match: `(?s)(o-selector-[0-9]+|p-11): PUT /lbaas/pools/[^ ]*/members .*`,
		},
		{
			What:  "OCCM takes a load balancer of the Service's name that ours has left alone.",
			Why:   "A name is enough for it.",
			Match: `(?s)g-name(-tag)?: .*`,
		},
		{
			What:  "OCCM deletes the floating IP of an owner that has become internal, which others publish.",
			Why:   "It does not look at the others.",
			Match: `sh-owner-turns: DELETE /floatingips/.*`,
		},
	}
}
