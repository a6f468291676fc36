package orphans

import (
	"strings"
	"testing"
	"time"
)

func TestHistoryDoubtsWhatWasMadeInAGap(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	h := &history{cluster: began}
	for d := time.Duration(0); d < 10*24*time.Hour; d += 30 * time.Minute {
		if d <= 5*24*time.Hour || d >= 6*24*time.Hour { // restored on the seventh day from a backup of a day before
			h.times = append(h.times, at(d))
		}
	}
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
		"younger than all":                  {at(10 * 24 * time.Hour), "nothing that is as young"},
		"unknown":                           {time.Time{}, "does not tell when"},
	} {
		if got := h.doubt(c.made); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := (&history{cluster: began}).doubt(at(time.Minute)); got == "" {
		t.Error("an API server that remembers nothing is trusted")
	}
}
