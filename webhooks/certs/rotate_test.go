package certs

import (
	"bytes"
	"crypto/x509"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// testPolicy is the default one, but shorter lived.
var testPolicy = policy{ca: 60 * time.Hour, cert: 6 * time.Hour, overlap: time.Hour, hosts: []string{"a.b.svc", "127.0.0.1"}}

// start is when simulated time begins: a whole second, as certificates know no others.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// cluster is a Secret with the replicas that share it, in simulated time.
type cluster struct {
	t    *testing.T
	rand *rand.Rand
	now  time.Time
	// content is the Secret's; history is what it held, with the time of the change.
	content map[string][]byte
	history []version
	seen    []state // of each replica: served now
	bundles []bundle
}

type version struct {
	at      time.Time
	content map[string][]byte
}

type bundle struct {
	at  time.Time
	pem []byte
}

// step lets a replica do what is due, as SelfManaged.step does.
func (c *cluster) step(p policy, replica int) []string {
	c.t.Helper()
	var s state
	if c.content != nil {
		var err error
		if s, _, err = parse(c.content); err != nil {
			c.t.Fatal(err)
		}
	}
	s, why, err := p.rotate(s, c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(why) > 0 {
		if c.content, err = s.encode(c.content); err != nil {
			c.t.Fatal(err)
		}
		c.history = append(c.history, version{c.now, c.content})
	}
	c.seen[replica] = s
	return why
}

// observe lets every replica see some version that is at most lag old.
func (c *cluster) observe(lag time.Duration) {
	for i := range c.seen {
		var choice []version
		for j, v := range c.history {
			if j == len(c.history)-1 || c.history[j+1].at.After(c.now.Add(-lag)) {
				choice = append(choice, v)
			}
		}
		if len(choice) == 0 {
			continue
		}
		s, _, err := parse(choice[c.rand.IntN(len(choice))].content)
		if err != nil {
			c.t.Fatal(err)
		}
		if s.leaf != nil { // else SelfManaged serves nothing of it before it is repaired
			c.seen[i] = s
		}
	}
}

// check connects to every replica with every bundle of the last age.
func (c *cluster) check(age time.Duration) {
	c.t.Helper()
	for _, s := range c.seen {
		if s.leaf != nil {
			c.bundles = append(c.bundles, bundle{c.now, s.trusted()})
		}
	}
	c.bundles = slices.DeleteFunc(c.bundles, func(b bundle) bool { return c.now.Sub(b.at) > age })
	checked := map[string]bool{}
	for i, s := range c.seen {
		for _, b := range c.bundles {
			if s.leaf == nil || checked[string(s.leaf.Leaf.Raw)+string(b.pem)] {
				continue
			}
			checked[string(s.leaf.Leaf.Raw)+string(b.pem)] = true
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(b.pem)
			if _, err := s.leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: c.now, DNSName: "a.b.svc"}); err != nil {
				c.t.Fatalf("at %s a client with the bundle of %s cannot connect to replica %d: %v", c.now.Sub(start), b.at.Sub(start), i, err)
			}
		}
	}
}

// TestRotationNeverFailsARequest: whatever replica acts when, and however late others and
// the webhook configurations learn of it, every client can connect to every replica, through
// certificates, CAs, keys that vanish and content that breaks.
func TestRotationNeverFailsARequest(t *testing.T) {
	const lag, age = 10 * time.Minute, 45 * time.Minute
	for seed := range uint64(2) {
		c := &cluster{t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: start, seen: make([]state, 3)}
		reasons := map[string]int{}
		for c.now.Before(start.Add(130 * time.Hour)) {
			for _, why := range c.step(testPolicy, c.rand.IntN(len(c.seen))) {
				reasons[why]++
			}
			c.observe(lag)
			c.check(age)
			if _, ok := c.content[keyIssuerKey]; ok { // else a second hand could leave nothing to serve
				damages := []string{keyIssuerKey, keyNext, keyBundle, keyCertKey}
				if i := c.rand.IntN(200); i < len(damages) {
					c.damage(damages[i])
				}
			}
			c.now = c.now.Add(time.Duration(1+c.rand.IntN(540)) * time.Second)
		}
		for _, why := range []string{"there is none", "the CA needs a successor", "the CA's successor takes over", "the CA is another",
			"the serving certificate is about to expire", "all that a retired CA issued has expired"} {
			if reasons[why] == 0 {
				t.Errorf("seed %d: never %q: the test shows nothing; got %v", seed, why, reasons)
			}
		}
	}
}

// damage removes a key, as a hand might. Nobody learns of it but by the next step.
func (c *cluster) damage(key string) {
	content := map[string][]byte{}
	for k, v := range c.content {
		content[k] = v
	}
	delete(content, key)
	c.content = content
}

// TestRotate holds single steps to the rules.
func TestRotate(t *testing.T) {
	fresh := func(t *testing.T) state {
		s, why, err := testPolicy.rotate(state{}, start)
		if err != nil || !slices.Equal(why, []string{"there is none", "there is no serving certificate"}) {
			t.Fatalf("a first step: %v, %v", why, err)
		}
		return s
	}
	tests := map[string]struct {
		change func(*state)
		policy func(*policy)
		after  time.Duration
		want   string
	}{
		"nothing":                {after: 3 * time.Hour},
		"renewal":                {after: 4*time.Hour + time.Second, want: "the serving certificate is about to expire"},
		"successor":              {after: 40*time.Hour + time.Second, want: "the CA needs a successor; the serving certificate is about to expire"},
		"other host":             {policy: func(p *policy) { p.hosts = []string{"c.d.svc"} }, want: "the serving certificate is not for c.d.svc"},
		"CA expired":             {after: 61 * time.Hour, want: "the CA needs a successor; the CA's successor takes over; the CA is another"},
		"CA not valid yet":       {after: -time.Hour, want: "the CA needs a successor; the CA's successor takes over; the CA is another"},
		"no key":                 {change: func(s *state) { s.issuer = &authority{cert: s.issuer.cert} }, want: "the CA needs a successor"},
		"no key, no certificate": {change: func(s *state) { s.issuer, s.leaf = &authority{cert: s.issuer.cert}, nil }, want: "the CA needs a successor; the CA's successor takes over; there is no serving certificate"},
		"other bundle":           {change: func(s *state) { s.bundle = nil }, want: "ca.crt is not what follows from the other keys"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, p := fresh(t), testPolicy
			if tt.change != nil {
				tt.change(&s)
			}
			if tt.policy != nil {
				tt.policy(&p)
			}
			next, why, err := p.rotate(s, start.Add(tt.after))
			if got := strings.Join(why, "; "); err != nil || got != tt.want {
				t.Fatalf("got %q, %v, want %q", got, err, tt.want)
			}
			if _, why, _ := p.rotate(next, start.Add(tt.after)); len(why) > 0 {
				t.Errorf("the same step is due again: %q", why)
			}
			for _, host := range slices.Concat(p.hosts, testPolicy.hosts) {
				if next.leaf.Leaf.VerifyHostname(host) != nil && tt.change == nil {
					t.Errorf("not for %s any more", host)
				}
			}
		})
	}
}

// TestLeafOfAnExpiringCA: a certificate that cannot live longer is not issued over and over.
func TestLeafOfAnExpiringCA(t *testing.T) {
	p := testPolicy
	p.overlap = 100 * time.Hour // no successor in time
	s, _, err := p.rotate(state{}, start)
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for now := start; now.Before(start.Add(60 * time.Hour)); now = now.Add(time.Minute) {
		var why []string
		if s, why, err = p.rotate(s, now); err != nil {
			t.Fatal(err)
		}
		if len(why) > 0 {
			writes++
		}
		if expired(s.leaf.Leaf, now) {
			t.Fatalf("expired after %s", now.Sub(start))
		}
	}
	if writes > 20 {
		t.Errorf("%d writes within the life of a CA, want a renewal every 4 h", writes)
	}
}

// TestStateRoundTrip: what is written is what is read.
func TestStateRoundTrip(t *testing.T) {
	c := &cluster{t: t, now: start, seen: make([]state, 1)}
	for range 200 {
		c.step(testPolicy, 0)
		s, repaired, err := parse(c.content)
		if err != nil || len(repaired) > 0 {
			t.Fatalf("after %s: %v, %v", c.now.Sub(start), repaired, err)
		}
		again, err := s.encode(c.content)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range c.content {
			if !bytes.Equal(again[key], value) || len(again) != len(c.content) {
				t.Fatalf("key %s is read as something else", key)
			}
		}
		c.now = c.now.Add(time.Hour)
	}
}

// FuzzParse: no content of a Secret panics, and what is read can be brought to what is
// served, unless the error says which key is wrong.
func FuzzParse(f *testing.F) {
	s, _, err := testPolicy.rotate(state{}, start)
	if err != nil {
		f.Fatal(err)
	}
	s.issuer = &authority{cert: s.issuer.cert}
	for _, at := range []time.Duration{0, 2 * time.Hour} {
		if s, _, err = testPolicy.rotate(s, start.Add(at)); err != nil {
			f.Fatal(err)
		}
		data, err := s.encode(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[keyIssuer], data[keyIssuerKey], data[keyNext], data[keyNextKey], data[keyRetired], data[keyCert], data[keyCertKey])
		f.Add(data[keyIssuer], data[keyCertKey], data[keyIssuer], data[keyNextKey], data[keyIssuer], data[keyIssuer], data[keyIssuerKey])
	}
	f.Fuzz(func(t *testing.T, issuer, issuerKey, next, nextKey, retired, cert, certKey []byte) {
		data := map[string][]byte{keyIssuer: issuer, keyIssuerKey: issuerKey, keyNext: next, keyNextKey: nextKey, keyRetired: retired, keyCert: cert, keyCertKey: certKey}
		s, _, err := parse(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "key ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q does not name the key", err)
			}
			return
		}
		s, _, err = testPolicy.rotate(s, start)
		if err != nil {
			t.Fatal(err)
		}
		if data, err = s.encode(data); err != nil {
			t.Fatal(err)
		}
		if s, _, err = parse(data); err != nil || s.leaf == nil && s.issuer.key != nil {
			t.Errorf("what was repaired cannot be read: %v", err)
		}
	})
}

// FuzzParsePair: no files panic, nor does an error repeat a key.
func FuzzParsePair(f *testing.F) {
	s, _, err := testPolicy.rotate(state{}, start)
	if err != nil {
		f.Fatal(err)
	}
	data, err := s.encode(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[keyCert], data[keyCertKey], data[keyBundle])
	f.Add(data[keyCert], data[keyIssuerKey], data[keyIssuerKey])
	f.Fuzz(func(t *testing.T, crt, key, ca []byte) {
		cert, err := parsePair(crt, key, ca, func(name string) string { return "/certs/" + name })
		if (err == nil) == (cert == nil) {
			t.Errorf("got %v and %v", cert, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "/certs/") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("error %q does not name the file", err)
		}
	})
}

// TestDefectCertificateOnlyForLocalhost: the framework's is for localhost, in memory, and
// nobody gets its CA. Of ours, the Secret has all that it takes to trust it by every name.
func TestDefectCertificateOnlyForLocalhost(t *testing.T) {
	p := testPolicy
	p.hosts = []string{"isthmus-webhook.kube-system.svc", "localhost", "127.0.0.1", "webhooks.example.com"}
	c := &cluster{t: t, now: start, seen: make([]state, 1)}
	c.step(p, 0)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.content["ca.crt"]) {
		t.Fatalf("ca.crt is %q", c.content["ca.crt"])
	}
	restarted, _, err := parse(c.content)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range p.hosts {
		if _, err := restarted.leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: c.now, DNSName: host}); err != nil {
			t.Errorf("not trusted as %s: %v", host, err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(restarted.trusted())
	if _, err := restarted.leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: c.now}); err != nil {
		t.Errorf("not trusted by what is registered as caBundle: %v", err)
	}
}
