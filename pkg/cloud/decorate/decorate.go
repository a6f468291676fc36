package decorate

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
)

// Provider is a cloud.Provider whose abilities are decorated. An ability that the cloud
// lacks is nil here too.
type Provider struct {
	cloud.Provider // without Instances: an answer that is not guarded would delete Nodes
	// Nodes answers about instances.
	Nodes *instancecache.Cache

	reads *batcher.Work // of volumes, which any replica may ask about
}

// New decorates p, which is left as it is. Close ends what New's abilities have running.
func New(p *cloud.Provider, o caller.Options) (*Provider, error) {
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
	c, err := caller.New(p.Name, o)
	if err != nil {
		return nil, err
	}
	d := &Provider{Provider: *p, Nodes: instancecache.New(p.Instances, c), reads: batcher.NewWork()}
	d.Instances = nil
	d.Owns = owns(p)
	if p.LoadBalancers != nil {
		c.Start(ensureLB, updateLB, deleteLB)
		d.LoadBalancers = &loadBalancers{next: p.LoadBalancers, call: c}
	}
	if p.Routes != nil {
		c.Start(listRoutes, applyRoutes)
		d.Routes = &routes{next: p.Routes, call: c}
	}
	if p.Volumes != nil {
		c.Start(findVolumes, getVolume)
		d.Volumes = newVolumes(p.Volumes, c, d.reads)
	}
	return d, nil
}

// owns is the provider's Owns, for the Nodes that it may be asked about.
func owns(p *cloud.Provider) func(*corev1.Node) bool {
	ask, scheme := p.Owns, p.Name+"://"
	if ask == nil {
		ask = func(n *corev1.Node) bool {
			return n.Spec.ProviderID == "" || strings.HasPrefix(n.Spec.ProviderID, scheme)
		}
	}
	return func(n *corev1.Node) bool { return n.Labels[cloud.ExcludeNode] != "true" && ask(n) }
}

// EndLease is Close for all but Volumes, which every replica may read for its webhooks,
// whoever leads.
func (p *Provider) EndLease() { p.Nodes.Close() }

// Close cancels the calls that run on behalf of several askers and waits for their end.
// Whoever still waits for one gets an error. It may be called more than once.
func (p *Provider) Close() {
	p.EndLease()
	p.reads.Close()
}
