package orphans

import (
	"strings"
	"testing"
	"time"
)

func TestHistoryDoubtsWhatWasMadeInAGap(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	h := &history{cluster: began, gap: shortestGap, skew: skew}
	revision := uint64(0)
	for d := time.Duration(0); d < 10*24*time.Hour; d += 30 * time.Minute {
		quarter := d == 8*24*time.Hour+12*time.Hour              // restored there from a backup of half an hour before
		if quarter || d > 5*24*time.Hour && d < 6*24*time.Hour { // and on the seventh day from one of a day before
			continue
		}
		if revision += 1000; d == 8*24*time.Hour+12*time.Hour+30*time.Minute {
			revision -= 900
		}
		h.writes = append(h.writes, moment{at(d), revision, at(d)})
	}
	h.sort()
	for name, c := range map[string]struct {
		made time.Time
		want string // "" for no doubt
	}{
		"remembered":                        {at(3*24*time.Hour + time.Minute), ""},
		"made after the restoration":        {at(8*24*time.Hour + time.Minute), ""},
		"forgotten":                         {at(5*24*time.Hour + 12*time.Hour), "looks restored"},
		"just after the backup":             {at(5*24*time.Hour + time.Minute), "looks restored"},
		"after the backup by another clock": {at(5*24*time.Hour - time.Minute), "looks restored"},
		"just before the restoration":       {at(6*24*time.Hour - time.Minute), "looks restored"},
		"older than the cluster":            {at(-time.Hour), "older than the cluster"},
		"as old as the cluster":             {at(-time.Minute), ""},
		"forgotten within the hour":         {at(8*24*time.Hour + 12*time.Hour), "looks restored"},
		"in a quiet half hour":              {at(8*24*time.Hour + 14*time.Hour + 15*time.Minute), ""},
		"younger than all":                  {at(10 * 24 * time.Hour), "nothing that is as young"},
		"unknown":                           {time.Time{}, "does not tell when"},
	} {
		if got := h.doubt(c.made); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := (&history{cluster: began, gap: shortestGap, skew: skew}).doubt(at(time.Minute)); got == "" {
		t.Error("an API server that remembers nothing is trusted")
	}
}

// TestRevisionsAreOfLastWrites: an object tells the revision of its last write, which is no proof of what was before that.
func TestRevisionsAreOfLastWrites(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	steady := func(from, to int, revision uint64) (out []moment) {
		for m := from; m <= to; m++ {
			out = append(out, moment{at(m), revision + 100*uint64(m-from), at(m)}) //nolint:gosec // not negative
		}
		return out
	}
	for name, c := range map[string]struct {
		after []moment // a quiet half hour from the 60th to the 90th minute
		want  bool     // that what was made in the 75th minute is in doubt
	}{
		"the revision went on":                      {steady(90, 120, 9000), false},
		"it went on, for longer than an hour":       {steady(130, 160, 13000), true},
		"it stood still":                            {steady(90, 120, 6010), true},
		"it went back":                              {steady(90, 120, 5000), true},
		"it is not known":                           {[]moment{{at: at(90)}}, true},
		"it is told of a later write alone":         {[]moment{{at: at(90)}, {at(119), 6010 + 2900, at(119)}, {at(120), 6010 + 3000, at(120)}}, true},
		"of a later write, and went on before, too": {[]moment{{at: at(90)}, {at(119), 9000 + 2900, at(119)}, {at(120), 9000 + 3000, at(120)}}, false},
		"one object was written once more":          {append(steady(90, 120, 6010), moment{at(89), 9000, at(89)}), true},
	} {
		h := &history{cluster: began, writes: append(steady(0, 60, 0), c.after...), gap: shortestGap, skew: skew}
		h.sort()
		if got := h.doubt(at(75)); (got != "") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
