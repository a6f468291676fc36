package acr

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Every form that RFC 9110 allows is read.
func TestChallenges(t *testing.T) {
	one := func(scheme string, params ...string) challenge {
		c := challenge{scheme: scheme, params: map[string]string{}}
		for i := 0; i < len(params); i += 2 {
			c.params[params[i]] = params[i+1]
		}
		return c
	}
	for header, want := range map[string][]challenge{
		``:                                 nil,
		` , ,`:                             nil,
		`Negotiate`:                        {one("negotiate")},
		`NTLM dGVzdA==`:                    {one("ntlm")},
		`NTLM dGVzdA==, Basic realm="x"`:   {one("ntlm"), one("basic", "realm", "x")},
		`Bearer realm="a,b", service=c`:    {one("bearer", "realm", "a,b", "service", "c")},
		`BEARER Realm = "a" ,, SERVICE=c,`: {one("bearer", "realm", "a", "service", "c")},
		`Bearer realm="a\"b\\c"`:           {one("bearer", "realm", `a"b\c`)},
		`Bearer realm=""`:                  {one("bearer", "realm", "")},
		`Basic realm="x", Bearer realm="y",service="z", Negotiate`: {one("basic", "realm", "x"), one("bearer", "realm", "y", "service", "z"), one("negotiate")},
		`Bearer realm="https://contoso.azurecr.io/oauth2/token",service="contoso.azurecr.io",error="invalid_token"`: {
			one("bearer", "realm", "https://contoso.azurecr.io/oauth2/token", "service", "contoso.azurecr.io", "error", "invalid_token"),
		},
	} {
		got, err := parseChallenges([]string{header})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(challenge{})); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", header, err, diff)
		}
	}
	if got, err := parseChallenges([]string{`Basic realm="x"`, `Bearer realm="y"`}); err != nil || len(got) != 2 {
		t.Errorf("two headers: %+v, %v", got, err)
	}
}

// The peer panics on an unquoted parameter at the end and on a challenge without parameters.
func TestDefectMalformedChallenges(t *testing.T) {
	r, _ := parseHost("contoso.azurecr.io")
	if service, err := serviceOf(r, []string{`Bearer realm="https://contoso.azurecr.io/oauth2/token",service=contoso.azurecr.io`}); err != nil || service != "contoso.azurecr.io" {
		t.Errorf("an unquoted parameter at the end: %q, %v", service, err)
	}
	for _, header := range []string{
		`Bearer =`, `Bearer realm`, `Bearer realm=,`, `Bearer realm="a`, `Bearer realm="a\`, `Bearer realm="a"service="b"`, `Bearer realm=a b`, `="a"`, `"Bearer" realm=a`,
		`Bearer realm="a",realm="b"`, `Bearer realm="a",Realm="b"`, "Bearer realm=\"a\x00\"", `Bearer	realm="a"`, `Bearer realm=https://x`, `Bearer ,=`, `Bearer/1 x`,
		`Bearer [a]`, `Bearer ^`, "Bearer a`b",
	} {
		_, err := serviceOf(r, []string{header})
		var own *cloudauth.Error
		if !errors.As(err, &own) || !strings.Contains(err.Error(), "registry contoso.azurecr.io") || strings.ContainsAny(err.Error(), "\r\n\x00") {
			t.Errorf("%q: %v", header, err)
		}
	}
	for _, headers := range [][]string{nil, {``}, {`Bearer`}, {`Basic realm="x"`}, {`Bearer realm="a"`, `Bearer realm="b"`}} {
		if _, err := serviceOf(r, headers); err == nil {
			t.Errorf("%q is taken for a challenge of ACR", headers)
		}
	}
}

// The peer sends the token of Entra ID to whatever host the challenge names.
func TestDefectForeignRealm(t *testing.T) {
	const service = `,service="contoso.azurecr.io"`
	own, _ := parseHost("contoso.azurecr.io")
	for _, header := range []string{
		`Bearer realm="https://evil.example/oauth2/token"` + service, `Bearer realm="https://contoso.azurecr.io.evil.example/oauth2/token"` + service,
		`Bearer realm="https://contoso.azurecr.io@evil.example/oauth2/token"` + service, `Bearer realm="https://evil.example\\@contoso.azurecr.io/oauth2/token"` + service,
		`Bearer realm="http://contoso.azurecr.io/oauth2/token"` + service, `Bearer realm="https://contoso.azurecr.io:8443/oauth2/token"` + service,
		`Bearer realm="https://fabrikam.azurecr.io/oauth2/token"` + service, `Bearer realm="https://contoso.azurecr.io/login"` + service,
		`Bearer realm="https://contoso.azurecr.io/oauth2/token?x=y"` + service, `Bearer realm="//contoso.azurecr.io/oauth2/token"` + service, `Bearer realm=""` + service, `Bearer service="contoso.azurecr.io"`,
		`Bearer realm="https://contoso.azurecr.io/oauth2/token",service="fabrikam.azurecr.io"`, `Bearer realm="https://contoso.azurecr.io/oauth2/token"`,
		`Bearer realm="https://contoso.westeurope.geo.azurecr.io/oauth2/token"` + service,
	} {
		if s, err := serviceOf(own, []string{header}); err == nil {
			t.Errorf("%s is taken for the registry's own: %q", header, s)
		}
	}
	// A regional endpoint may name itself or the registry that it belongs to.
	regional, _ := parseHost("contoso.westeurope.geo.azurecr.io")
	for _, host := range []string{"contoso.azurecr.io", "contoso.westeurope.geo.azurecr.io", "CONTOSO.azurecr.io:443"} {
		if s, err := serviceOf(regional, []string{`Bearer realm="https://` + host + `/oauth2/token",service="` + host + `"`}); err != nil || s != host {
			t.Errorf("%s: %q, %v", host, s, err)
		}
	}
}

// FuzzChallenge checks that no header makes it panic, that what is accepted names the registry itself, and that
// an error is one line.
func FuzzChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://contoso.azurecr.io/oauth2/token",service="contoso.azurecr.io"`, "")
	f.Add(`Bearer realm="https://contoso.azurecr.io/oauth2/token",service=contoso.azurecr.io`, `Basic realm="x"`)
	f.Add(`NTLM dGVzdA==, Bearer a="\"", b=c,,`, "Negotiate")
	r, _ := parseHost("contoso.azurecr.io")
	f.Fuzz(func(t *testing.T, first, second string) {
		all, err := parseChallenges([]string{first, second})
		for _, c := range all {
			if err == nil && (c.scheme == "" || c.scheme != strings.ToLower(c.scheme)) {
				t.Errorf("%q has the scheme %q", first, c.scheme)
			}
		}
		service, err := serviceOf(r, []string{first, second})
		if err == nil && strings.TrimSuffix(strings.ToLower(service), ":443") != r.host {
			t.Errorf("%q is of %q", first, service)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("the error has more than one line: %v", err)
		}
	})
}

// What stands between the letters in ASCII is none: no such text is the token form of a challenge.
func TestTokenFormOfAChallenge(t *testing.T) {
	for _, c := range "az AZ09-._~+/=" {
		if got, err := parseChallenges([]string{"Negotiate a" + string(c)}); err != nil && c != ' ' || err == nil && (len(got) != 1 || len(got[0].params) != 0) {
			t.Errorf("%q: %+v, %v", c, got, err)
		}
	}
	for _, c := range "[\\]^`{|}@:;!#$%&'()*<>?" {
		if got, err := parseChallenges([]string{"Negotiate " + string(c) + "a"}); err == nil && (len(got) != 2 || got[1].scheme == "") {
			t.Errorf("%q: %+v", c, got)
		}
	}
}
