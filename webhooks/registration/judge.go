package registration

import "time"

// verdict is what is to be done about a configuration.
type verdict string

const (
	asWanted verdict = "as wanted"
	// leave: another replica wants something else, and wanted it later.
	leave verdict = "leave"
	// notOurs: somebody else's configuration has the name.
	notOurs verdict = "not ours"
	// What is written, by reason.
	create verdict = "created"
	adopt  verdict = "adopted" // it came from the manifests
	change verdict = "changed" // it was what another replica, or this one, wanted before
	repair verdict = "repaired"
)

// writes reports whether the verdict is to write.
func (v verdict) writes() bool { return v == create || v == adopt || v == change || v == repair }

// judge knows what this replica wants and who has prevailed over it.
type judge struct {
	// own is what is wanted here; its number is 0 until it has stood in the cluster.
	own stamp
	// standDown is how long a rival is left alone.
	standDown time.Duration

	rival        stamp
	rivalVersion string // resourceVersion
	rivalAt      time.Time
}

// want says what is wanted from now on.
func (j *judge) want(fingerprint string) {
	if j.own.fingerprint != fingerprint {
		j.own = stamp{fingerprint: fingerprint}
	}
}

// observe notes the configuration live, as it is or was for a moment; nil for none.
func (j *judge) observe(live *configuration, now time.Time) {
	if live == nil || !isOurs(live) {
		return
	}
	switch s := stampOf(live); {
	case s.fingerprint == "":
	case s.fingerprint == j.own.fingerprint:
		j.own.number = max(j.own.number, s.number)
	case j.own.number > 0 && j.own.before(s) && live.ResourceVersion != j.rivalVersion:
		j.rival, j.rivalVersion, j.rivalAt = s, live.ResourceVersion, now
	}
}

// judge returns what to do about live, nil for none, and the stamp to write.
func (j *judge) judge(live *configuration, now time.Time) (verdict, stamp) {
	if live != nil && !isOurs(live) {
		return notOurs, stamp{}
	}
	j.observe(live, now)
	stands := stamp{}
	if live != nil {
		stands = stampOf(live)
	}
	if stands.fingerprint != "" && stands.fingerprint == j.own.fingerprint {
		return asWanted, j.own
	}
	if j.own.number > 0 && j.own.before(j.rival) && now.Sub(j.rivalAt) < j.standDown {
		return leave, j.rival
	}
	next := j.own
	if next.number == 0 {
		next.number = 1
		if live != nil { // a stamp counts even if somebody has changed the rest
			next.number = parseStamp(live.Annotations[stampAnnotation]).number + 1
		}
	}
	switch {
	case live == nil && j.own.number > 0:
		return repair, next
	case live == nil:
		return create, next
	case stands.fingerprint != "":
		return change, next
	case !applied(live):
		return adopt, next
	}
	return repair, next
}
