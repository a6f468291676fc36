package registration

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

// written is a configuration as a replica writes it that wants content.
func written(number int64, content, version string) *configuration {
	o := NewOptions()
	o.URL = "https://host:1/" + content
	o.Webhooks = []webhooks.Webhook{{Name: "w", Path: "/w", Type: webhooks.Mutating}}
	c := render(o, webhooks.Mutating, nil)
	c.Annotations = map[string]string{stampAnnotation: stamp{number, fingerprint(c)}.String()}
	c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply}}
	c.ResourceVersion = version
	return c
}

func edited(c *configuration) *configuration { c.Webhooks = nil; return c }
func unstamped(c *configuration) *configuration {
	c.Annotations, c.ManagedFields = nil, nil
	return c
}
func foreign(c *configuration) *configuration { c.Labels = nil; return unstamped(c) }

func TestJudge(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	mine := fingerprint(written(1, "mine", ""))
	type step struct {
		after  time.Duration
		live   *configuration
		want   verdict
		number int64 // of what is to be written; it is, by this step
	}
	for name, steps := range map[string][]step{
		"nothing there":               {{0, nil, create, 1}, {0, written(1, "mine", "1"), asWanted, 0}},
		"as wanted from before":       {{0, written(7, "mine", "1"), asWanted, 0}, {0, nil, repair, 7}},
		"deleted":                     {{0, nil, create, 1}, {0, nil, repair, 1}},
		"somebody else's":             {{0, foreign(written(1, "mine", "1")), notOurs, 0}, {0, nil, create, 1}},
		"from the manifests":          {{0, unstamped(written(1, "mine", "1")), adopt, 1}},
		"edited":                      {{0, written(3, "mine", "1"), asWanted, 0}, {0, edited(written(3, "mine", "2")), repair, 3}},
		"edited before the start":     {{0, edited(written(3, "mine", "2")), repair, 4}},
		"an older wish at the start":  {{0, written(3, "other", "1"), change, 4}},
		"overruled":                   {{0, written(3, "mine", "1"), asWanted, 0}, {0, written(4, "other", "2"), leave, 0}, {0, nil, leave, 0}, {0, edited(written(4, "other", "3")), leave, 0}},
		"overruled and then agreed":   {{0, written(3, "mine", "1"), asWanted, 0}, {0, written(4, "other", "2"), leave, 0}, {0, written(5, "mine", "3"), asWanted, 0}, {0, nil, repair, 5}},
		"overruled for a time":        {{0, written(3, "mine", "1"), asWanted, 0}, {0, written(4, "other", "2"), leave, 0}, {59 * time.Minute, written(4, "other", "2"), leave, 0}, {2 * time.Minute, written(4, "other", "2"), change, 3}},
		"overruled again":             {{0, written(3, "mine", "1"), asWanted, 0}, {0, written(4, "other", "2"), leave, 0}, {59 * time.Minute, written(4, "other", "3"), leave, 0}, {2 * time.Minute, written(4, "other", "3"), leave, 0}},
		"an overruled one speaks up":  {{0, written(4, "mine", "1"), asWanted, 0}, {0, written(3, "other", "2"), change, 4}},
		"a stamp that is a joke":      {{0, edited(written(1<<60, "mine", "1")), repair, 1}},
		"the stamp of something else": {{0, written(4, "mine", "1"), asWanted, 0}, {0, edited(written(9, "other", "2")), repair, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			j, now := &judge{standDown: time.Hour}, start
			j.want(mine)
			for i, s := range steps {
				now = now.Add(s.after)
				v, next := j.judge(s.live, now)
				if v != s.want || (v.writes() && (next.number != s.number || next.fingerprint != mine)) {
					t.Fatalf("step %d: %s %s, want %s with number %d", i, v, next, s.want, s.number)
				}
				if v.writes() {
					j.observe(written(next.number, "mine", "written"), now)
				}
			}
		})
	}
	// Two that want different things at the same moment agree on who prevails.
	a, b := judge{standDown: time.Hour}, judge{standDown: time.Hour}
	one, two := written(2, "one", "1"), written(2, "two", "2")
	a.want(fingerprint(one))
	b.want(fingerprint(two))
	a.observe(one, start)
	b.observe(two, start)
	va, _ := a.judge(two, start)
	vb, _ := b.judge(one, start)
	if va.writes() == vb.writes() {
		t.Errorf("one says %s, the other %s: both fight or both give in", va, vb)
	}
}

// A changed CA is a new wish, which does not wait for anybody.
func TestJudgeNewWish(t *testing.T) {
	now := time.Now()
	j := &judge{standDown: time.Hour}
	j.want(fingerprint(written(1, "old", "")))
	j.observe(written(1, "old", "1"), now)
	j.judge(written(5, "other", "2"), now)
	j.want(fingerprint(written(1, "new", "")))
	if v, next := j.judge(written(5, "other", "2"), now); v != change || next.number != 6 {
		t.Errorf("%s %s, want a change with number 6", v, next)
	}
}

func FuzzParseStamp(f *testing.F) {
	for _, s := range []string{"", "1-0123456789abcdef", "-1-0123456789abcdef", "9223372036854775807-0123456789abcdef", "1-", "x-y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := parseStamp(s)
		if got == (stamp{}) {
			return
		}
		if got.number < 1 || got.number >= maxNumber || parseStamp(got.String()) != got {
			t.Errorf("%q is %v", s, got)
		}
	})
}
