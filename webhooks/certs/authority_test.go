package certs

import (
	"testing"
	"time"
)

// No leaf outlives its CA: nobody could trust it then.
func TestLeafDoesNotOutliveItsCA(t *testing.T) {
	ca, err := newAuthority(start, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ at, life, want time.Duration }{
		{0, time.Hour, time.Hour}, {0, 24 * time.Hour, 24 * time.Hour}, {0, 25 * time.Hour, 24 * time.Hour}, {23 * time.Hour, 2 * time.Hour, 24 * time.Hour},
	} {
		leaf, err := ca.issue(start.Add(tt.at), tt.life, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		if end := leaf.Leaf.NotAfter.Sub(start); end != tt.want {
			t.Errorf("issued after %s for %s, it ends after %s, want %s", tt.at, tt.life, end, tt.want)
		}
	}
}

// A key is taken with its own certificate alone.
func TestKeyOfAnotherCertificate(t *testing.T) {
	one, err := newAuthority(start, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority(start, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	data, err := encodeKey(one.key)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := parseKey(data, one.cert); err != nil || !key.Equal(one.key) {
		t.Errorf("its own is refused: %v", err)
	}
	if _, err := parseKey(data, other.cert); err == nil {
		t.Error("another's is taken")
	}
	for name, bad := range map[string]string{"nothing": "", "no PEM": "s3cret", "no key": "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"} {
		if _, err := parseKey([]byte(bad), one.cert); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
