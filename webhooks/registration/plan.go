package registration

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// reason is why a configuration is written, or is not.
type reason string

const (
	asWanted reason = "as wanted"
	// notOurs: somebody else's configuration has the name.
	notOurs reason = "not ours"
	// notHeld: another replica writes.
	notHeld reason = "another replica holds the lease"
	// What is written, by reason.
	addCA   reason = "CA added"
	create  reason = "created"
	adopt   reason = "adopted" // it came from the manifests
	change  reason = "changed" // it was what another replica, or this one, wanted before
	repair  reason = "repaired"
	removal reason = "removed"
)

// writes reports whether something is to be written.
func (r reason) writes() bool { return r != asWanted && r != notOurs && r != notHeld }

// replica is what one of them wants.
type replica struct {
	rendered *configuration   // but for the CAs; nil for none
	own      sets.Set[string] // this replica's CAs
	holds    bool             // that it is to write
}

// plan returns what to make of live, nil for none, and why; nil for nothing.
func (r replica) plan(live *configuration, now time.Time) (*configuration, reason) {
	if live != nil && !isOurs(live) {
		return nil, notOurs
	}
	if r.rendered != nil && lacks(live, r.own) && !injected(live) {
		out := live.DeepCopy()
		valid := authorities([]byte(strings.Join(sets.List(trusted(live)), "")), now) // what has expired goes with this
		trusting(out, valid.Union(r.own))
		return out, addCA
	}
	want := desired(live, r.rendered, r.own)
	switch {
	case same(live, want):
		return nil, asWanted
	case !r.holds:
		return nil, notHeld
	case want == nil:
		return nil, removal
	case live == nil:
		return want, create
	case !applied(live):
		return want, adopt
	}
	return want, repair
}

// desired returns what the holder makes of live. CAs of others stay, but where the API server's own
// roots are to count: they do not beside any CA.
func desired(live, rendered *configuration, own sets.Set[string]) *configuration {
	if rendered == nil {
		return nil
	}
	out, cas := rendered.DeepCopy(), own
	if live != nil {
		out.ObjectMeta = *live.ObjectMeta.DeepCopy()
		for key, value := range rendered.Labels {
			metav1.SetMetaDataLabel(&out.ObjectMeta, key, value)
		}
		delete(out.Annotations, injectAnnotation)
		for key, value := range rendered.Annotations {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	if standing := trusted(live); injected(rendered) && len(standing) > 0 {
		cas = standing
	} else if len(own) > 0 {
		cas = own.Union(standing)
	}
	trusting(out, cas)
	return out
}

// same reports whether live is what is wanted.
func same(live, want *configuration) bool {
	if live == nil || want == nil {
		return live == want
	}
	if injected(want) {
		want = want.DeepCopy()
		for i := range min(len(live.Webhooks), len(want.Webhooks)) {
			want.Webhooks[i].ClientConfig.CABundle = live.Webhooks[i].ClientConfig.CABundle
		}
	}
	return equality.Semantic.DeepEqual(live.Labels, want.Labels) && equality.Semantic.DeepEqual(live.Annotations, want.Annotations) &&
		equality.Semantic.DeepEqual(live.Webhooks, want.Webhooks)
}

// isOurs reports whether c was made by this package, or from the manifests. Nothing else is
// ever changed or removed.
func isOurs(c *configuration) bool { return c.Labels[nameLabel] == Name || applied(c) }

// applied reports whether this package has written c.
func applied(c *configuration) bool {
	return slices.ContainsFunc(c.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == FieldManager })
}

// lastWriter names who else changed c last, as far as the API server noted it.
func lastWriter(c *configuration) string {
	last := "none known"
	if c == nil {
		return last
	}
	var at metav1.Time
	for _, f := range c.ManagedFields {
		if f.Manager != FieldManager && f.Time != nil && !f.Time.Before(&at) {
			last, at = f.Manager, *f.Time
		}
	}
	return last
}
