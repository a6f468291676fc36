package registration

import (
	"maps"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// trust knows which CAs the API server is to trust: this replica's own, and those that other
// replicas have written. Replicas learn of a new CA one after the other, one that restarts may
// know less than before, and they may have different ones for good. So a CA leaves in two
// steps: a replica that has not known it for long announces that it leaves, and it does
// unless a replica whose own it is takes the announcement away.
type trust struct {
	// keep is how long a CA stays unannounced that this replica does not know.
	keep time.Duration
	// grace is how long its replica may object.
	grace time.Duration
	own   []string
	// others are the CAs that stand in the cluster and are not own.
	others map[string]*other
	seen   string // resourceVersion observed last
}

// other is a CA of other replicas.
type other struct {
	since time.Time // it was first seen here
	// leaving is since when it is seen to be announced; zero while it is not.
	leaving time.Time
	// inUse is after somebody has objected: this replica does not ask again, and leaves it
	// there while it is valid.
	inUse bool
}

func newTrust(keep, grace time.Duration) trust {
	return trust{keep: keep, grace: grace, others: map[string]*other{}}
}

// observe notes the CAs of live, if one of ours has written them.
func (t *trust) observe(live *configuration, now time.Time) {
	if live == nil || len(live.Webhooks) == 0 {
		return
	}
	standing, ok := standingCAs(live)
	if !ok {
		return
	}
	c, err := resourceversion.CompareResourceVersion(live.ResourceVersion, t.seen)
	late := err == nil && c < 0 // the watch lags behind what was read
	if !late {
		t.seen = live.ResourceVersion
	}
	maps.DeleteFunc(t.others, func(ca string, _ *other) bool { return !slices.Contains(standing, ca) })
	leaving := leavingCAs(live)
	for _, ca := range standing {
		o := t.others[ca]
		if o == nil {
			o = &other{since: now}
			t.others[ca] = o
		}
		switch announced := slices.Contains(leaving, caFingerprint(ca)); {
		case announced && o.leaving.IsZero():
			o.leaving = now
		case !announced && !o.leaving.IsZero():
			o.leaving, o.inUse = time.Time{}, o.inUse || !late
		}
	}
	for _, ca := range t.own {
		delete(t.others, ca)
	}
}

// wanted returns the CAs to trust now, and the fingerprints of those that are announced to
// leave; both are sorted.
func (t *trust) wanted(now time.Time) (cas, leaving []string) {
	cas = t.valid(now)
	for ca, o := range t.others {
		due := !o.inUse && o.leaving.IsZero() && now.Sub(o.since) >= t.keep
		gone := !o.inUse && !o.leaving.IsZero() && now.Sub(o.leaving) >= t.grace
		if gone || !valid(ca, now) {
			continue
		}
		cas = append(cas, ca)
		if due || !o.leaving.IsZero() {
			leaving = append(leaving, caFingerprint(ca))
		}
	}
	slices.Sort(cas)
	slices.Sort(leaving)
	return slices.Compact(cas), leaving
}

// valid returns this replica's own CAs that have not expired; all of them if they all have.
func (t *trust) valid(now time.Time) []string {
	expired := func(ca string) bool { return !valid(ca, now) }
	if out := slices.DeleteFunc(slices.Clone(t.own), expired); len(out) > 0 {
		return out
	}
	return slices.Clone(t.own)
}

// lacks reports whether live does not trust a CA of this replica's that it is to trust, or
// soon will not.
func (t *trust) lacks(live *configuration, now time.Time) bool {
	if live == nil || public(live) {
		return false
	}
	leaving := leavingCAs(live)
	return slices.ContainsFunc(live.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		standing := authorities(w.ClientConfig.CABundle)
		return slices.ContainsFunc(t.valid(now), func(ca string) bool {
			if injected(live) && !valid(ca, now) { // cainjector takes it away
				return false
			}
			return !slices.Contains(standing, ca) || slices.Contains(leaving, caFingerprint(ca))
		})
	})
}

// added returns the CAs of live with this replica's own, and which are announced to leave then;
// not ok when somebody else has written them.
func (t *trust) added(live *configuration, now time.Time) (cas, leaving []string, ok bool) {
	standing, ok := standingCAs(live)
	own := t.valid(now)
	cas = slices.Concat(standing, own)
	slices.Sort(cas)
	leaving = slices.DeleteFunc(leavingCAs(live), func(fingerprint string) bool {
		return slices.ContainsFunc(own, func(ca string) bool { return caFingerprint(ca) == fingerprint })
	})
	return slices.Compact(cas), leaving, ok
}

// right reports whether live has the CAs that are wanted. Where cainjector writes them, there
// may be more.
func (t *trust) right(live *configuration, now time.Time) bool {
	if len(live.Webhooks) == 0 {
		return true
	}
	if injected(live) {
		return !t.lacks(live, now)
	}
	standing, ok := standingCAs(live)
	if public(live) {
		return ok && len(standing) == 0
	}
	cas, leaving := t.wanted(now)
	return ok && slices.Equal(standing, cas) && slices.Equal(leavingCAs(live), leaving)
}
