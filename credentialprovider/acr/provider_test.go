package acr

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/azure"
)

func TestConfigMistakes(t *testing.T) {
	const id = "11111111-2222-3333-4444-555555555555"
	pod := credentialprovider.ServiceAccountIdentity
	mirrors := func(upstream, registry string) []credentialprovider.Mirror {
		return []credentialprovider.Mirror{{Upstream: upstream, Registry: registry}}
	}
	for name, tt := range map[string]struct {
		cfg  Config
		want []string
	}{
		"identity":                 {Config{Config: auth.Config{Cloud: "x", TenantID: "y", ClientID: "z"}}, []string{`acr: cloud: the cloud "x" is not known`, `acr: tenantID: "y" is no tenant`, `acr: clientID: "z" is no id`}},
		"node's identity for pods": {Config{Identity: pod, Config: auth.Config{ClientID: id, CloudConfig: "x"}}, []string{"acr: identity: with serviceAccount the node's identity is not used"}},
		"secret for pods":          {Config{Identity: pod, Config: auth.Config{ClientID: id, TenantID: id, ClientSecretFile: "x"}}, []string{"with serviceAccount the node's identity is not used"}},
		"nothing proves it":        {Config{Config: auth.Config{ClientID: id, TenantID: id}}, []string{"acr: clientID: nothing proves to be this application; add clientSecretFile"}},
		"audience":                 {Config{Audience: "https://management.azure.com/.default"}, []string{`audience: "https://management.azure.com/.default" is no audience`}},
		"registries":               {Config{Registries: []string{"a/b", "contoso.azurecr.io"}}, []string{`registries: registry "a/b" is no valid host`, "registries: contoso.azurecr.io is known by its name; remove it"}},
		"mirror's upstream":        {Config{Registries: []string{"r.example"}, Mirrors: mirrors("r.example", "contoso.azurecr.io")}, []string{"upstream r.example is a registry of ACR or among registries itself"}},
		"mirror's registry":        {Config{Mirrors: mirrors("docker.io", "quay.io")}, []string{"registry quay.io is no registry of ACR, such as contoso.azurecr.io, nor among registries"}},
		"mirror of a mirror":       {Config{Mirrors: append(mirrors("docker.io", "contoso.azurecr.io"), mirrors("quay.io", "docker.io")...)}, []string{"registry docker.io is no registry of ACR"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(tt.cfg, credentialprovider.Options{})
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}

// Mirrors and registries are other registries by name, with their port; nothing else is. The peer drops the port
// and takes whatever only begins with the name.
func TestDefectMirrorPorts(t *testing.T) {
	p, err := New(Config{Registries: []string{"r.example:8443", "s.example"}, Mirrors: []credentialprovider.Mirror{
		{Upstream: "mirror.example:5000", Registry: "contoso.azurecr.io"}, {Upstream: "docker.io", Registry: "r.example:8443"}, {Upstream: "quay.io", Registry: "s.example:443"},
	}}, credentialprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for reference, want := range map[string]string{
		"nginx": "r.example:8443", "quay.io/a": "s.example", "mirror.example:5000/a": "contoso.azurecr.io", "mirror.example/a": "", "mirror.example:5001/a": "", "mirror.example:50001/a": "",
		"r.example:8443/a": "r.example:8443", "r.example/a": "", "s.example/a": "s.example", "s.example:443/a": "s.example", "s.example:8443/a": "",
		"docker.io.evil.example/a": "", "quay.io.evil.example/a": "", "fabrikam.azurecr.us/a/b": "fabrikam.azurecr.us", "mcr.microsoft.com/a": "",
	} {
		image, err := credentialprovider.ParseImage(reference)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := p.registryOf(image)
		if r.host != want || ok != (want != "") || p.Serves(image) != ok {
			t.Errorf("%s: registry %q, %t, want %q", reference, r.host, ok, want)
		}
	}
	all := strings.Join(p.MatchImages(), " ")
	if !strings.HasSuffix(all, " r.example:8443 s.example mirror.example:5000 docker.io quay.io") {
		t.Errorf("patterns %v", all)
	}
	if d := p.Describe(); !strings.Contains(d, "registries and mirrors list docker.io, mirror.example:5000, quay.io, r.example:8443, s.example") {
		t.Errorf("it describes itself as %q", d)
	}
}

func TestTokenAudience(t *testing.T) {
	for want, cfg := range map[string]auth.Config{
		"api://AzureADTokenExchange": {}, "api://AzureADTokenExchangeChina": {Cloud: "AzureChinaCloud"}, "api://AzureADTokenExchangeUSGov": {AuthorityHost: "https://login.microsoftonline.us"},
	} {
		if got := (Config{Config: cfg}).TokenAudience(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// refreshToken is a registry's, unsigned.
func refreshToken(claims string) string {
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c3NlY3JldA"
}

// The peer takes whatever it gets for a token that lives five minutes, and repeats it in an error.
func TestDefectMalformedTokens(t *testing.T) {
	regional, _ := parseHost("contoso.westeurope.geo.azurecr.io")
	for name, tt := range map[string]struct{ body, want string }{
		"good":             {`{"refresh_token":"` + refreshToken(`{"aud":"contoso.azurecr.io","exp":1800000000,"permissions":{}}`) + `"}`, ""},
		"no audience":      {`{"refresh_token":"` + refreshToken(`{"exp":1800000000.0}`) + `"}`, ""},
		"another registry": {`{"refresh_token":"` + refreshToken(`{"aud":"fabrikam.azurecr.io","exp":1800000000}`) + `"}`, "answers with a token for fabrikam.azurecr.io"},
		"no expiry":        {`{"refresh_token":"` + refreshToken(`{"aud":"contoso.azurecr.io"}`) + `"}`, "without a usable token"},
		"bad expiry":       {`{"refresh_token":"` + refreshToken(`{"exp":1e300}`) + `"}`, "without a usable token"},
		"expiry is text":   {`{"refresh_token":"` + refreshToken(`{"exp":"1800000000"}`) + `"}`, "without a usable token"},
		"no JWT":           {`{"refresh_token":"s3cret"}`, "without a usable token"},
		"no base64":        {`{"refresh_token":"a.%%.c"}`, "without a usable token"},
		"no claims":        {`{"refresh_token":"a.W10.c"}`, "without a usable token"},
		"line break":       {`{"refresh_token":"a\n.` + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1800000000}`)) + `.c"}`, "without a usable token"},
		"nothing":          {`{}`, "without a usable token"},
		"no JSON":          {`<html>s3cret`, "without a usable token"},
		"not an object":    {`["s3cret"]`, "without a usable token"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseExchange(regional, []byte(tt.body))
			if tt.want == "" {
				if err != nil || got.password.IsEmpty() || !got.expires.Equal(time.Unix(1800000000, 0)) {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %+v, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// FuzzExchange checks that no answer makes it panic, that what is taken for a token has an end, and that an
// error is one line.
func FuzzExchange(f *testing.F) {
	f.Add([]byte(`{"refresh_token":"`+refreshToken(`{"aud":"contoso.azurecr.io","exp":1800000000}`)+`"}`), `{"exp":1}`)
	f.Add([]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"x CorrelationId: y"}]}`), `{"exp":-1e308,"aud":null}`)
	r, _ := parseHost("contoso.azurecr.io")
	f.Fuzz(func(t *testing.T, body []byte, claims string) {
		for _, b := range [][]byte{body, []byte(`{"refresh_token":"` + refreshToken(claims) + `"}`)} {
			got, err := parseExchange(r, b)
			if err == nil && (got.password.IsEmpty() || got.expires.Unix() < 0 || strings.ContainsAny(got.password.Reveal(), "\r\n ")) {
				t.Errorf("%q gives %+v", b, got)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("the error has more than one line: %v", err)
			}
			if said, _ := parseErrors(&auth.Response{Status: 401, Body: b}); strings.ContainsAny(said, "\r\n") || len(said) > 240 {
				t.Errorf("%q says %q", b, said)
			}
		}
	})
}

// The kubelet asks for the names that it has for registries.
func TestMatchedNames(t *testing.T) {
	p, err := New(Config{Mirrors: []credentialprovider.Mirror{{Upstream: "index.docker.io", Registry: "contoso.azurecr.io"}}}, credentialprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if all := p.MatchImages(); all[len(all)-1] != "docker.io" {
		t.Errorf("patterns %v", all)
	}
}
