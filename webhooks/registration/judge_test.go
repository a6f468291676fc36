package registration

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestTrust(t *testing.T) {
	now := time.Now()
	ca := func(name string, valid time.Duration) string {
		key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(valid)}
		der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	a, b, brief := ca("a", 100*time.Hour), ca("b", 100*time.Hour), ca("brief", time.Minute)
	version := 0
	live := func(leaving string, cas ...string) *configuration {
		version++
		c := trusting(written(1, "x", strconv.Itoa(version)), authorities([]byte(strings.Join(cas, "# comment\n"))), nil)
		if leaving != "" {
			c.Annotations[leavingAnnotation] = caFingerprint(leaving)
		}
		return c
	}
	tr := newTrust(time.Hour, time.Minute)
	tr.own = []string{a}
	check := func(what string, at time.Time, leaving string, want ...string) {
		t.Helper()
		cas, l := tr.wanted(at)
		if diff := cmp.Diff(authorities([]byte(strings.Join(want, ""))), cas); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if (leaving == "") != (len(l) == 0) || (leaving != "" && l[0] != caFingerprint(leaving)) {
			t.Errorf("%s: leaving are %v", what, l)
		}
	}
	check("alone", now, "", a)
	edited := live("", a, b)
	edited.Annotations[caAnnotation] = ""
	tr.observe(edited, now)
	check("somebody else's", now, "", a)
	if tr.right(edited, now) {
		t.Error("an edited bundle is right")
	}
	tr.observe(live("", brief, b, a), now)
	check("of other replicas", now, "", a, b, brief)
	if !tr.right(live("", a, brief, b), now) || tr.right(live("", b, brief), now) || tr.right(live("", a), now) {
		t.Error("what is right is judged wrongly")
	}
	at := now.Add(50 * time.Minute)
	old := live("", a, b)
	tr.observe(live("", a, b, brief), at)
	check("expired", at, "", a, b)
	at = now.Add(time.Hour)
	check("announced after its time", at, b, a, b)
	if tr.right(live("", a, b), at) || !tr.right(live(b, a, b), at) {
		t.Error("what is announced is judged wrongly")
	}
	tr.observe(live(b, a, b), at)
	tr.observe(old, at) // what the watch brings late is no objection
	tr.observe(live(b, a, b), at)
	check("in its grace", at.Add(59*time.Second), b, a, b)
	check("gone", at.Add(time.Minute), "", a)
	tr.observe(live("", a, b), at.Add(59*time.Second))
	check("objected", at.Add(time.Minute), "", a, b)
	check("and not asked again", now.Add(50*time.Hour), "", a, b)
	tr.observe(live(b, a, b), at.Add(2*time.Hour))
	check("others may ask", at.Add(10*time.Hour), b, a, b)
	check("until it expires", now.Add(100*time.Hour), "", a)
	// Its own is not to leave.
	if tr.lacks(live(b, a, b), now) || !tr.lacks(live(a, a, b), now) || !tr.lacks(live("", b), now) || tr.right(live(a, a, b), now) {
		t.Error("what is lacking is judged wrongly")
	}
	tr.own = []string{b}
	tr.observe(live("", a, b), now.Add(2*time.Hour))
	check("its own of before", now.Add(2*time.Hour), "", a, b)
	check("its own of before, later", now.Add(3*time.Hour), a, a, b)
	tr.observe(&configuration{}, now.Add(2*time.Hour))
	check("somebody has emptied it", now.Add(2*time.Hour), "", a, b)
	injected := func(cas ...string) *configuration {
		c := live("", cas...)
		c.Annotations[injectAnnotation] = "n/c"
		c.Annotations[stampAnnotation] = stamp{1, fingerprint(c)}.String()
		return c
	}
	if !tr.right(injected(a, b), now) || tr.right(injected(a), now) || !tr.lacks(injected(a), now) {
		t.Error("an injected bundle is judged wrongly")
	}
	tr.own = []string{brief}
	at = now.Add(150 * time.Minute)
	tr.observe(injected(a), at)
	check("cainjector's stay with its own", at, "", a, brief)
	if !tr.right(injected(a), at) {
		t.Error("cainjector takes expired CAs away: there would be a fight")
	}
}
