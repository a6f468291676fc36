package certs

import (
	"crypto/tls"
	"slices"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

// A CA that somebody else has replaced is trusted until the last leaf of it that was served has ended, and one that is
// new before a leaf of it is served.
func TestReplacedCAIsTrustedUntilItsLeafEnds(t *testing.T) {
	const life, overlap = 24 * time.Hour, time.Hour
	begin := time.Unix(1_800_000_000, 0)
	now := begin
	first, err := newAuthority(begin, 10*life)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newAuthority(begin, 10*life)
	if err != nil {
		t.Fatal(err)
	}
	a := &adopter{held: newHeld("test", "do something", func() time.Time { return now }), overlap: overlap}
	ctx := klog.NewContext(t.Context(), klog.Background())
	for _, step := range []struct {
		at     time.Duration
		of     *authority
		serves *authority
		trusts []*authority
	}{
		{0, first, first, []*authority{first}},
		{time.Minute, second, first, []*authority{first, second}},
		{time.Minute + overlap - 1, second, first, []*authority{first, second}},
		{time.Minute + overlap, second, second, []*authority{first, second}},
		{life - 1, second, second, []*authority{first, second}},
		{life, second, second, []*authority{second}},
	} {
		now = begin.Add(step.at)
		leaf, err := step.of.issue(begin, life, []string{"localhost"})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.offer(ctx, leaf, encodeCertificates(step.of.cert)); err != nil {
			t.Errorf("%s: %v", step.at, err)
		}
		served, err := a.GetCertificate(nil)
		if err != nil || served.Leaf.CheckSignatureFrom(step.serves.cert) != nil {
			t.Errorf("%s: a leaf of the other CA is served, %v", step.at, err)
		}
		trusted, err := parseCertificates(a.CABundle())
		if err != nil || len(trusted) != len(step.trusts) {
			t.Errorf("%s: %d CAs are trusted, want %d: %v", step.at, len(trusted), len(step.trusts), err)
		}
		for _, ca := range step.trusts {
			if !slices.ContainsFunc(trusted, ca.cert.Equal) {
				t.Errorf("%s: one that is needed is not trusted", step.at)
			}
		}
	}
}

// A leaf that is not valid any more, or not yet, does not take the place of one that is.
func TestLeafThatIsNotValidIsNotServed(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ca, err := newAuthority(now.Add(-48*time.Hour), 100*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	good, err := ca.issue(now, 24*time.Hour, []string{"good"})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := ca.issue(now.Add(-25*time.Hour), 24*time.Hour, []string{"ended"})
	if err != nil {
		t.Fatal(err)
	}
	later, err := newAuthority(now.Add(48*time.Hour), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	early, err := later.issue(now.Add(48*time.Hour), 24*time.Hour, []string{"early"})
	if err != nil {
		t.Fatal(err)
	}
	a := &adopter{held: newHeld("test", "do something", func() time.Time { return now })}
	if err := a.offer(t.Context(), good, encodeCertificates(ca.cert)); err != nil {
		t.Fatal(err)
	}
	for name, leaf := range map[string]*tls.Certificate{"ended": ended, "early": early} {
		if err := a.offer(t.Context(), leaf, encodeCertificates(ca.cert, later.cert)); err == nil {
			t.Errorf("%s: nothing is said", name)
		}
		if served, err := a.GetCertificate(nil); err != nil || !served.Leaf.Equal(good.Leaf) || a.Err() != nil {
			t.Errorf("%s: it is served, %v, %v", name, err, a.Err())
		}
	}
}
