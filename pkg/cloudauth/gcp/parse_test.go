package gcp

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestIsHostOf(t *testing.T) {
	for host, want := range map[string]bool{
		"sts.googleapis.com": true, "us-east1-sts.googleapis.com": true, "sts.us-east1.googleapis.com": true, "us-east1.sts.googleapis.com": true,
		"sts.us-east1.rep.googleapis.com": true, "sts-vpc.p.googleapis.com": true, "sts.mtls.googleapis.com": true,
		// Whoever has the bucket "sts" gets what is sent to the first of these.
		"sts.storage.googleapis.com": false, "sts.storage.rep.googleapis.com": false, "storage.sts.googleapis.com": false, "sts.us-east1.storage.googleapis.com": false,
		"sts.africa-south1.googleapis.com": true, "sts.europe-west12.rep.googleapis.com": true, "storage-sts.googleapis.com": false,
		"googleapis.com": false, "storage.googleapis.com": false, "sts.storage.evil.googleapis.com": false, "evilsts.googleapis.com": false,
		"sts.googleapis.com.evil.example": false, "evil.example": false, "sts.evilgoogleapis.com": false, "sts.p.x.googleapis.com": false,
		"sts..googleapis.com": false, "STS.googleapis.com": false, "sts.googleapis.com.": false, ".googleapis.com": false, "": false, "iamcredentials.googleapis.com": false,
	} {
		if got := isHostOf(host, "sts", defaultUniverse); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
	if !isHostOf("sts.other.example", "sts", "other.example") || isHostOf("sts.googleapis.com", "sts", "other.example") {
		t.Error("the universe does not decide")
	}
}

func TestCheckEndpoint(t *testing.T) {
	for text, want := range map[string]bool{
		"https://sts.googleapis.com/v1/token": true, "https://sts.googleapis.com:443/v1/token": true,
		"http://sts.googleapis.com/v1/token": false, "https://sts.googleapis.com:8443/v1/token": false, "https://x@sts.googleapis.com/v1/token": false,
		"https://sts.googleapis.com@evil.example/v1/token": false, "https://sts.googleapis.com/v1/token?x=y": false, "sts.googleapis.com": false, "": false,
		"https://[::1]/": false, "https://evil.example\\@sts.googleapis.com/": false, "https://evil.example#sts.googleapis.com": false,
	} {
		if err := checkEndpoint(text, "sts", defaultUniverse); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMetadataHost(t *testing.T) {
	for text, want := range map[string]string{
		"": "169.254.169.254", "127.0.0.1:8080": "127.0.0.1:8080", "localhost:80": "localhost:80", "169.254.169.252:988": "169.254.169.252:988",
		"metadata.google.internal": "metadata.google.internal", "metadata.google.internal.:80": "metadata.google.internal.:80",
		"fd20:ce::254": "[fd20:ce::254]", "[fd20:ce::254]": "[fd20:ce::254]", "[fd20:ce::254]:80": "[fd20:ce::254]:80",
		"evil.example": "-", "10.0.0.1": "-", "127.0.0.1/x": "-", "127.0.0.1@evil.example": "-", "[fe80::1": "-", "2001:db8::1": "-", "127.0.0.1:x": "-", " ": "-",
	} {
		t.Setenv(hostVariable, text)
		got, err := metadataHost()
		if err != nil {
			got = "-"
		}
		if got != want {
			t.Errorf("%q: %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestProviderAudience(t *testing.T) {
	const name = "projects/1/locations/global/workloadIdentityPools/pool/providers/cluster"
	for text, want := range map[string]string{
		name: "//iam.googleapis.com/" + name, "//iam.googleapis.com/" + name: "//iam.googleapis.com/" + name, "https://iam.googleapis.com/" + name: "//iam.googleapis.com/" + name,
		"identitynamespace:p.svc.id.goog:https://container.googleapis.com/v1/x": "identitynamespace:p.svc.id.goog:https://container.googleapis.com/v1/x",
		"http://iam.googleapis.com/" + name:                                     "", "//iam.evil.example/" + name: "", strings.Replace(name, "projects/1", "projects/name", 1): "", name + "/": "", "": "",
		"identitynamespace:p.svc.id.goog:": "", "identitynamespace:p:https://x": "", "identitynamespace:p.svc.id.goog:https://x y": "", "pool/cluster": "",
	} {
		if got, err := ProviderAudience(text, ""); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestCovered(t *testing.T) {
	for name, tt := range map[string]struct {
		scope string
		by    string
		want  bool
	}{
		"the same": {"devstorage.read_only", "logging.write devstorage.read_only", true}, "more": {"devstorage.read_only", "devstorage.read_write", true}, "all of storage": {"devstorage.read_only", "devstorage.full_control", true},
		"all": {"devstorage.read_only", "cloud-platform", true}, "all to read": {"devstorage.read_only", "cloud-platform.read-only", true}, "IAM by all": {"iam", "cloud-platform", true}, "the platform to read": {"cloud-platform.read-only", "cloud-platform", true},
		"none": {"devstorage.read_only", "", false}, "another": {"devstorage.read_only", "logging.read_only compute", false}, "less": {"devstorage.read_write", "devstorage.read_only", false},
		"not to write": {"iam", "cloud-platform.read-only", false}, "not all": {"cloud-platform", "cloud-platform.read-only", false}, "writing alone": {"devstorage.read_only", "devstorage.write_only", false},
	} {
		var by []string
		for _, b := range strings.Fields(tt.by) {
			by = append(by, scopePrefix+b)
		}
		if got := covered(scopePrefix+tt.scope, by); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// FuzzTokens checks every answer that a token may come in: nothing panics, and what is taken for
// a token can be sent in a header and ends.
func FuzzTokens(f *testing.F) {
	f.Add([]byte(`{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}`))
	f.Add([]byte(`{"accessToken":"ya29.x","expireTime":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"error":{"code":403,"message":"m","status":"s"}}`))
	f.Add([]byte(`{"error":"invalid_grant","error_description":"d"}`))
	f.Add([]byte(`{"access_token":"a\nb","expires_in":1e3,"token_type":"Bearer"} `))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []func([]byte, time.Time) (Token, error){parseToken, parseImpersonated} {
			got, err := parse(data, now)
			if err == nil && (got.Value.IsEmpty() || strings.ContainsAny(got.Value.Reveal(), "\r\n \x00") || got.Expires.IsZero() || got.Expires.Sub(now) > maxLife) {
				t.Errorf("%q gives %q until %s", data, got.Value.Reveal(), got.Expires)
			}
		}
		r := request{service: "s", who: "w", url: "https://sts.googleapis.com/v1/token"}
		for _, status := range []int{http.StatusBadRequest, http.StatusServiceUnavailable} {
			if text := r.refused(answer{status: status, header: http.Header{"Content-Type": {"text/plain"}}, body: data}).Error(); strings.ContainsAny(text, "\r\n\x00") || len(text) > 600 {
				t.Errorf("%q gives the error %q", data, text)
			}
		}
		for _, format := range []subjectFormat{{}, {Type: "json", Field: "access_token"}} {
			if token, ok := format.parse(data); ok && (token.IsEmpty() || strings.ContainsAny(token.Reveal(), "\r\n ")) {
				t.Errorf("%q gives the subject token %q", data, token.Reveal())
			}
		}
	})
}

// FuzzFile checks credentials files: nothing panics, no error has more than a line, and whatever a
// file says, what its source speaks to is Google's.
func FuzzFile(f *testing.F) {
	const email = `"client_email":"a@p.iam.gserviceaccount.com"`
	f.Add([]byte(`{"type":"service_account",` + email + `,"private_key":"x","token_uri":"https://oauth2.googleapis.com/token"}`))
	f.Add([]byte(`{"type":"authorized_user","client_id":"a","client_secret":"b","refresh_token":"c","token_uri":"https://evil.example/token"}`))
	external := `{"type":"external_account","audience":"//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/c","subject_token_type":"t","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"file":"/nowhere"}`
	f.Add([]byte(external + `}`))
	f.Add([]byte(external + `,"service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@p.iam.gserviceaccount.com:generateAccessToken"}`))
	f.Add([]byte(strings.Replace(external, `"file":"/nowhere"`, `"url":"http://169.254.169.254/token","headers":{"a":"b"}`, 1) + `}`))
	f.Add([]byte(`{"type":"impersonated_service_account","delegates":["a@p.iam.gserviceaccount.com"],"service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@p.iam.gserviceaccount.com:generateAccessToken","source_credentials":` + external + `}}`))
	f.Add([]byte(`{"type":"impersonated_service_account","source_credentials":{"type":"impersonated_service_account"}}`))
	s := &Session{now: time.Now}
	var check func(*testing.T, source)
	check = func(t *testing.T, src source) {
		var where []string
		switch src := src.(type) {
		case *key:
			where = append(where, src.tokenURL)
		case *user:
			where = append(where, src.tokenURL)
		case *federated:
			where = append(where, src.tokenURL)
		case *impersonated:
			where = append(where, src.url)
			check(t, src.of)
		}
		for _, text := range where {
			host, _, _ := strings.Cut(strings.TrimPrefix(text, "https://"), "/")
			host = strings.TrimSuffix(host, ":443")
			if !strings.HasPrefix(text, "https://") || !strings.HasSuffix(host, ".googleapis.com") && host != "accounts.google.com" {
				t.Errorf("it speaks to %s", text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src, err := s.parseFile("file", data)
		if err != nil {
			if text := err.Error(); strings.ContainsAny(text, "\r\n\x00") || len(text) > 2000 {
				t.Errorf("%q gives the error %q", data, text)
			}
			return
		}
		check(t, src)
	})
}
