package decorate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Options configures New. The zero value is usable.
type Options struct {
	// Metrics may be shared by several providers; nil counts into nowhere.
	Metrics *Metrics
	// Reads and Mutations bound the calls; zero fields have defaults.
	Reads, Mutations Policy
	// Clock is for tests; nil is the real one. Deadlines of contexts are always real time.
	Clock clock.Clock
}

func (o Options) withDefaults() (Options, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Metrics != nil {
		return o, nil
	}
	var err error
	o.Metrics, err = NewMetrics(nil)
	return o, err
}

// Provider is a cloud.Provider whose abilities are decorated. An ability that the cloud
// lacks is nil here too.
type Provider struct {
	cloud.Provider // without Instances: an answer that is not guarded would delete Nodes
	// Nodes answers about instances.
	Nodes *Instances

	// work is what only the leader has done for it, reads what any replica may ask.
	work, reads *work
}

// New decorates p, which is left as it is. Close ends what New's abilities have running.
func New(p *cloud.Provider, o Options) (*Provider, error) {
	switch {
	case p == nil:
		return nil, errors.New("decorate: no provider")
	case p.Name == "":
		return nil, errors.New("decorate: the provider has no name")
	case p.Instances == nil:
		return nil, fmt.Errorf("decorate provider %q: it has no Instances, which every provider needs", p.Name)
	case p.Ready == nil:
		return nil, fmt.Errorf("decorate provider %q: it has no Ready, which every provider needs", p.Name)
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w, reads := newWork(), newWork()
	c := newCaller(p.Name, o)
	d := &Provider{Provider: *p, work: w, reads: reads}
	d.Nodes = newInstances(p.Instances, c, w)
	d.Instances = nil
	if d.Owns == nil {
		d.Owns = ownsScheme(p.Name)
	}
	if p.LoadBalancers != nil {
		d.LoadBalancers = newLoadBalancers(p.LoadBalancers, c)
	}
	if p.Routes != nil {
		d.Routes = newRoutes(p.Routes, c, w)
	}
	if p.Volumes != nil {
		d.Volumes = newVolumes(p.Volumes, c, reads)
	}
	return d, nil
}

// ownsScheme is cloud.Provider.Owns of a cloud that has none.
func ownsScheme(name string) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		return n.Spec.ProviderID == "" || strings.HasPrefix(n.Spec.ProviderID, name+"://")
	}
}

// EndLease is Close for all but Volumes, which every replica may read for its webhooks,
// whoever leads.
func (p *Provider) EndLease() { p.work.close() }

// Close cancels the calls that run on behalf of several askers and waits for their end.
// Whoever still waits for one gets an error. It may be called more than once.
func (p *Provider) Close() {
	p.work.close()
	p.reads.close()
}

// Policy bounds one call of the contract with all its attempts. Zero fields take defaults.
type Policy struct {
	// Deadline bounds the call with all attempts and waits: 3 min, in which 5,000 servers and
	// their ports can be listed from a cloud that is busy.
	Deadline time.Duration
	// Attempts bounds how often it is tried: 4 for reads, 3 for mutations.
	Attempts int
	// BackoffBase and BackoffMax bound the wait between attempts, which is random between
	// zero and base·2ⁿ, at most max: 500 ms and 10 s.
	BackoffBase, BackoffMax time.Duration
}

func (p Policy) withDefaults(deadline time.Duration, attempts int) Policy {
	if p.Deadline <= 0 {
		p.Deadline = deadline
	}
	if p.Attempts <= 0 {
		p.Attempts = attempts
	}
	if p.BackoffBase <= 0 {
		p.BackoffBase = 500 * time.Millisecond
	}
	if p.BackoffMax <= 0 {
		p.BackoffMax = 10 * time.Second
	}
	return p
}
