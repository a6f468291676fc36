package registration

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

// now is the moment of TestPlan.
var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ca(t *testing.T, name string, valid time.Duration) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(valid)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestPlan: who writes what, by what stands.
func TestPlan(t *testing.T) {
	mine, others, brief := ca(t, "mine", time.Hour), ca(t, "others", time.Hour), ca(t, "brief", 0)
	options := func() *Options {
		o := NewOptions()
		o.URL, o.Webhooks = "https://host:1", []webhooks.Webhook{{Name: "w", Path: "/w", Type: webhooks.Mutating}, {Name: "x", Path: "/x", Type: webhooks.Mutating}}
		return o
	}
	wanted := render(options(), webhooks.Mutating)
	injecting := options()
	injecting.InjectCAFrom = "n/c"
	inject := render(injecting, webhooks.Mutating)
	stands := func(of *configuration, change func(*configuration), cas ...string) *configuration {
		c := of.DeepCopy()
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldManager}}
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = []byte(strings.Join(cas, ""))
		}
		if change != nil {
			change(c)
		}
		return c
	}
	edited := func(c *configuration) { c.Webhooks = c.Webhooks[:1] }
	foreign := func(c *configuration) { c.Labels, c.ManagedFields = nil, nil }
	manifests := func(c *configuration) { c.ManagedFields = nil; edited(c) }
	oneLacks := func(c *configuration) { c.Webhooks[1].ClientConfig.CABundle = nil }
	for name, tt := range map[string]struct {
		live, rendered *configuration
		own            []string
		holds          bool
		why            reason
		trusted        []string // in what is written
		webhooks       int
	}{
		"nothing there":                       {nil, wanted, []string{mine}, true, create, []string{mine}, 2},
		"nothing there, not held":             {nil, wanted, []string{mine}, false, notHeld, nil, 0},
		"as wanted":                           {stands(wanted, nil, mine), wanted, []string{mine}, true, asWanted, nil, 0},
		"others' CAs stay":                    {stands(wanted, nil, mine, others), wanted, []string{mine}, true, asWanted, nil, 0},
		"expired ones wait":                   {stands(wanted, nil, mine, brief), wanted, []string{mine}, true, asWanted, nil, 0},
		"expired ones go with one that comes": {stands(wanted, nil, others, brief), wanted, []string{mine}, false, addCA, []string{mine, others}, 2},
		"by a clock that runs ahead":          {stands(wanted, nil, brief), wanted, []string{brief}, true, asWanted, nil, 0},
		"a CA is added by anybody":            {stands(wanted, nil, others), wanted, []string{mine}, false, addCA, []string{mine, others}, 2},
		"only the CA, by others":              {stands(wanted, edited, others), wanted, []string{mine}, false, addCA, []string{mine, others}, 1},
		"one webhook lacks it":                {stands(wanted, oneLacks, mine), wanted, []string{mine}, false, addCA, []string{mine}, 2},
		"edited":                              {stands(wanted, edited, mine, others), wanted, []string{mine}, true, repair, []string{mine, others}, 2},
		"edited, not held":                    {stands(wanted, edited, mine), wanted, []string{mine}, false, notHeld, nil, 0},
		"somebody else's":                     {stands(wanted, foreign, others), wanted, []string{mine}, true, notOurs, nil, 0},
		"from the manifests":                  {stands(wanted, manifests), wanted, []string{mine}, true, adopt, []string{mine}, 2},
		"nobody's CA yet":                     {stands(wanted, nil), wanted, []string{mine}, false, notHeld, nil, 0},
		"the API server's roots":              {stands(wanted, nil, others), wanted, nil, true, repair, nil, 2},
		"cainjector's bundle":                 {stands(inject, nil, others), inject, []string{mine}, true, asWanted, nil, 0},
		"cainjector's bundle, edited":         {stands(inject, edited, others), inject, []string{mine}, true, repair, []string{others}, 2},
		"cainjector has written none":         {stands(inject, nil), inject, []string{mine}, true, asWanted, nil, 0},
		"nothing there for cainjector":        {nil, inject, []string{mine}, true, create, []string{mine}, 2},
		"to be removed":                       {stands(wanted, nil, others), nil, []string{mine}, true, removal, nil, 0},
		"to be removed, not held":             {stands(wanted, nil, others), nil, nil, false, notHeld, nil, 0},
		"nothing to remove":                   {nil, nil, nil, false, asWanted, nil, 0},
		"nothing of ours to remove":           {stands(wanted, foreign, others), nil, nil, true, notOurs, nil, 0},
		"cainjector's, replica without":       {stands(inject, nil, others), wanted, []string{mine}, false, notHeld, nil, 0},
		"cainjector's no more":                {stands(inject, nil, others), wanted, []string{mine}, true, repair, []string{mine, others}, 2},
		"to be cainjector's":                  {stands(wanted, nil, mine), inject, []string{mine}, true, repair, []string{mine}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			before := tt.live.DeepCopy()
			own := authorities([]byte(strings.Join(tt.own, "")), now.Add(-time.Minute))
			c, why := replica{tt.rendered, own, tt.holds}.plan(tt.live, now)
			if why != tt.why {
				t.Fatalf("%q, want %q", why, tt.why)
			}
			if diff := cmp.Diff(before, tt.live); diff != "" {
				t.Errorf("what the watch has brought was changed:\n%s", diff)
			}
			if c == nil {
				return
			}
			if diff := cmp.Diff(authorities([]byte(strings.Join(tt.trusted, "")), now), trusted(c)); diff != "" || len(c.Webhooks) != tt.webhooks {
				t.Errorf("%d webhooks, CAs (-want +got):\n%s", len(c.Webhooks), diff)
			}
			if why != addCA {
				if _, again := (replica{tt.rendered, own, true}).plan(c, now); again != asWanted {
					t.Errorf("what was written is %q", again)
				}
			}
		})
	}
}

// TestConverted: no field is lost between the kinds; what both have is named alike.
func TestConverted(t *testing.T) {
	o := NewOptions()
	o.Webhooks = []webhooks.Webhook{{Name: "w", Path: "/w", Type: webhooks.Mutating, OptOutLabel: "l", MatchConditions: func(webhooks.Environment) []admissionregistrationv1.MatchCondition {
		return []admissionregistrationv1.MatchCondition{{Name: "n", Expression: "true"}}
	}}}
	want := render(o, webhooks.Mutating)
	trusting(want, sets.New("ca"))
	got := converted(converted(want, &admissionregistrationv1.ValidatingWebhookConfiguration{}), &configuration{})
	want.Webhooks[0].ReinvocationPolicy = nil // of mutating ones only
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
}
