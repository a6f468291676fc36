package credentialprovider

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// jwt is an unsigned token with these claims; the program does not verify any.
func jwt(claims string) string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + enc.EncodeToString([]byte(claims)) + "." + enc.EncodeToString([]byte("s3cret"))
}

const goodClaims = `{"sub":"system:serviceaccount:team:app","aud":["sts.example"],"exp":1800003600}`

// Which identity is used is configured, and nothing falls back to the other one.
func TestDefectNoSilentFallbackToTheOtherIdentity(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct {
		identity Identity
		version  string
		token    string
		want     string // error; "" is none
	}{
		"node":                             {NodeIdentity, "v1", "", ""},
		"by default the node":              {"", "v1alpha1", "", ""},
		"node, but a token comes":          {NodeIdentity, "v1", jwt(goodClaims), "configured for the node's identity; remove tokenAttributes"},
		"service account":                  {ServiceAccountIdentity, "v1", jwt(goodClaims), ""},
		"service account, but no token":    {ServiceAccountIdentity, "v1", "", "the kubelet sends no token; set tokenAttributes with requireServiceAccount: true"},
		"service account, but old version": {ServiceAccountIdentity, "v1beta1", "", "v1beta1 has no service account tokens; set apiVersion: credentialprovider.kubelet.k8s.io/v1"},
		"unknown":                          {"pod", "v1", "", `fixed: identity "pod" is not known; it has to be node or serviceAccount`},
		"expired":                          {ServiceAccountIdentity, "v1", jwt(strings.Replace(goodClaims, "1800003600", "1800000000", 1)), "the token of service account team/app has expired at 2027-01-15T08:00:00Z; check the clock"},
		"no expiry":                        {ServiceAccountIdentity, "v1", jwt(`{"sub":"s"}`), "has no expiry"},
		"no JWT":                           {ServiceAccountIdentity, "v1", "s3cret", "is no JWT"},
		"no base64":                        {ServiceAccountIdentity, "v1", "a.s3cret=.c", "is no JWT (its payload is no base64url)"},
		"no claims":                        {ServiceAccountIdentity, "v1", jwt(`["s3cret"]`), "is no JWT (its payload is no JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &fixed{registries: []string{"r.example"}, answer: Credentials{Username: "u", Password: cloudauth.NewSecret("p")}}
			set := of(p)
			set.Now = func() time.Time { return now }
			set.Kinds[0].Identity = tt.identity
			got, err := set.Answer(t.Context(), &Request{APIVersion: apiGroup + "/" + tt.version, Image: "r.example/a", ServiceAccountToken: cloudauth.NewSecret(tt.token)})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				if len(p.asked) != 0 {
					t.Error("the provider is asked nevertheless")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if account := p.asked[0].ServiceAccount; (account != nil) != (tt.token != "") {
				t.Errorf("the provider is asked as %v", account)
			} else if account != nil && *got.wire.CacheDuration != "54m0s" {
				t.Errorf("cacheDuration %s, want what is left of the token's hour", *got.wire.CacheDuration)
			}
		})
	}
}

func TestServiceAccount(t *testing.T) {
	annotations := map[string]string{"isthmus-cloud.github.io/role": "x", "peer/role": "y", "peer/same": "x", "empty": ""}
	for aud, want := range map[string]audience{`"one"`: {"one"}, `["one","two"]`: {"one", "two"}} {
		token := cloudauth.NewSecret(jwt(`{"sub":"system:serviceaccount:team:app","exp":1800003600.5,"aud":` + aud + `}`))
		got, err := parseServiceAccount(token, annotations)
		if err != nil {
			t.Fatal(err)
		}
		wanted := &ServiceAccount{Token: token, Subject: "system:serviceaccount:team:app", Audience: want, Expires: time.Unix(1800003600, 0), Annotations: annotations}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	a := &ServiceAccount{Subject: "system:serviceaccount:team:app", Annotations: annotations}
	if got := a.String(); got != "service account team/app" {
		t.Errorf("it is named %q", got)
	}
	if got, err := a.Annotation(AnnotationPrefix+"role", "peer/same", "empty", "none"); err != nil || got != "x" {
		t.Errorf("two keys with one value: %q, %v", got, err)
	}
	if got, err := a.Annotation("none"); err != nil || got != "" {
		t.Errorf("no annotation: %q, %v", got, err)
	}
	if _, err := a.Annotation(AnnotationPrefix+"role", "peer/role"); err == nil || !strings.Contains(err.Error(), "different values; remove one") {
		t.Errorf("two values: %v", err)
	}
}

// FuzzServiceAccountToken checks that nothing panics, no error shows the token, and what is
// accepted has an expiry.
func FuzzServiceAccountToken(f *testing.F) {
	f.Add(goodClaims)
	f.Add(`{"exp":1e300}`)
	f.Add(`{"exp":-1,"aud":[1]}`)
	f.Fuzz(func(t *testing.T, claims string) {
		for _, token := range []string{jwt(claims), claims} {
			got, err := parseServiceAccount(cloudauth.NewSecret(token), nil)
			if err != nil && len(token) > 20 && strings.Contains(err.Error(), token) {
				t.Errorf("the error shows the token: %v", err)
			}
			if err == nil && (got.Expires.Unix() < 0 || strings.ContainsAny(got.String(), "\n\r")) {
				t.Errorf("%q: %+v", claims, got)
			}
		}
	})
}
