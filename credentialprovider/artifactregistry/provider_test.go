package artifactregistry

import (
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/gcp"
)

const pool = "projects/1/locations/global/workloadIdentityPools/p/providers/c"

func TestConfigMistakes(t *testing.T) {
	const pods = credentialprovider.ServiceAccountIdentity
	for name, tt := range map[string]struct {
		cfg  Config
		want []string
	}{
		"scope":            {Config{Scope: "devstorage.full_control"}, []string{`artifactregistry: scope: "devstorage.full_control" is none for pulling; it has to be devstorage.read_only`}},
		"impersonate":      {Config{Impersonate: "x@example.com"}, []string{`impersonate: "x@example.com" is no email of a Google service account`}},
		"account":          {Config{InstanceAccount: "a/b"}, []string{`instanceAccount: "a/b" is no service account of an instance`}},
		"two sources":      {Config{InstanceAccount: "default", CredentialsFile: "x"}, []string{"instanceAccount: it is for the metadata server"}},
		"provider of node": {Config{WorkloadIdentityProvider: pool}, []string{"workloadIdentityProvider: it is for identity: serviceAccount"}},
		"no provider":      {Config{Identity: pods}, []string{"workloadIdentityProvider: it is needed with identity: serviceAccount"}},
		"bad provider":     {Config{Identity: pods, WorkloadIdentityProvider: "projects/name/locations/global/workloadIdentityPools/p/providers/c"}, []string{"is no provider of a workload identity pool, such as projects/<project number>/"}},
		"node's file":      {Config{Identity: pods, WorkloadIdentityProvider: pool, CredentialsFile: "x"}, []string{"the node's credentials are not used; remove them"}},
		"mirrors": {Config{Mirrors: []credentialprovider.Mirror{{Upstream: "eu.gcr.io", Registry: "pkg.dev"}, {Upstream: "docker.io", Registry: "gcr.io"}, {Upstream: "index.docker.io", Registry: "gcr.io:5000"}}},
			[]string{"upstream eu.gcr.io is a registry of Google itself", "registry pkg.dev is no registry of Google", "upstream docker.io is there twice", "registry gcr.io:5000 is no registry"}},
	} {
		_, err := New(tt.cfg, credentialprovider.Options{})
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
	}
}

func TestAudience(t *testing.T) {
	for provider, want := range map[string]string{
		pool: "https://iam.googleapis.com/" + pool, "//iam.googleapis.com/" + pool: "https://iam.googleapis.com/" + pool,
		"identitynamespace:p.svc.id.goog:https://container.googleapis.com/v1/c": "p.svc.id.goog", "": "", "x": "",
	} {
		if got := (Config{WorkloadIdentityProvider: provider}).Audience(); got != want {
			t.Errorf("%s: %q, want %q", provider, got, want)
		}
	}
}

// Google's registries are known by their names, mirrors by the configuration, with their port; the
// patterns for the kubelet cover what is served.
func TestServes(t *testing.T) {
	p, err := New(Config{Mirrors: []credentialprovider.Mirror{{Upstream: "mirror.example:5000", Registry: "europe-docker.pkg.dev"}, {Upstream: "docker.io", Registry: "gcr.io"}}}, credentialprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for reference, want := range map[string]bool{
		"gcr.io/a/b": true, "GCR.io/a/b": true, "gcr.io:443/a/b": true, "us.gcr.io/a/b": true, "us-docker.pkg.dev/a/b/c": true, "container.cloud.google.com/a/b": true,
		"docker.us-central1.rep.pkg.dev/a/b/c": true, "docker.me-central2.rep.pkg.dev:443/a/b": true, "docker.eu.rep.pkg.dev/a/b": true,
		"evil.us-central1.rep.pkg.dev/a": false, "docker.a.b.rep.pkg.dev/a": false, "docker.us_1.rep.pkg.dev/a": false, "docker.us-central1.rep.pkg.dev.evil.example/a": false, "us-central1.rep.pkg.dev/a": false,
		"nginx": true, "mirror.example:5000/a": true, "mirror.example/a": false, "mirror.example:5001/a": false,
		"pkg.dev/a": false, "a.b.gcr.io/a": false, "a.b.pkg.dev/a": false, "evilgcr.io/a": false, "gcr.io.evil.example/a": false, "gcr.io:5000/a": false,
		"cloud.google.com/a": false, "x.container.cloud.google.com/a": false, "a_b.pkg.dev/a": false, "quay.io/a": false,
	} {
		image, err := credentialprovider.ParseImage(reference)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Serves(image); got != want {
			t.Errorf("%s: served %t", reference, got)
		}
		host, _, _ := strings.Cut(image.Registry, ":443")
		if matches := matched(p.MatchImages(), host); want && !matches {
			t.Errorf("%s: no pattern of %v matches", reference, p.MatchImages())
		}
	}
	if d := p.Describe(); !strings.Contains(d, "its mirrors list docker.io, mirror.example:5000") {
		t.Errorf("it describes itself as %q", d)
	}
}

// matched reports whether one of the patterns matches as the kubelet does, label by label.
func matched(patterns []string, host string) bool {
	labels := strings.Split(host, ".")
	for _, p := range patterns {
		parts := strings.Split(p, ".")
		ok := len(parts) == len(labels)
		for i := range parts {
			ok = ok && (parts[i] == "*" || parts[i] == labels[i])
		}
		if ok {
			return true
		}
	}
	return false
}

// A service account whose annotations are wrong gets nothing, least of all the node's credentials, and nobody is asked.
func TestAccountsWithWrongAnnotations(t *testing.T) {
	p, err := New(Config{Identity: credentialprovider.ServiceAccountIdentity, WorkloadIdentityProvider: pool}, credentialprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // for whatever would be asked
	t.Setenv("GCE_METADATA_HOST", "127.0.0.1:1")
	for want, annotations := range map[string]map[string]string{
		"is no email of a Google service account": {AccountAnnotation: "x@example.com"},
		"with different values; remove one":       {AccountAnnotation: "a@p.iam.gserviceaccount.com", PeerAccountAnnotation: "b@p.iam.gserviceaccount.com"},
		`enable-wi-image-pull: "false"`:           {PeerOptInAnnotation: "false"},
	} {
		account := &credentialprovider.ServiceAccount{Token: cloudauth.NewSecret("s3cret"), Subject: "system:serviceaccount:team:app", Annotations: annotations}
		got, err := p.Credentials(t.Context(), credentialprovider.Query{Image: credentialprovider.Image{Registry: "gcr.io"}, ServiceAccount: account})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "service account team/app") || got.Username != "" {
			t.Errorf("%v: %v, want %q", annotations, err, want)
		}
	}
}

// A service account is a login of its own: its token is the only source, and nothing of the node's is left.
func TestServiceAccountIsItsOwnSource(t *testing.T) {
	p, err := New(Config{Identity: credentialprovider.ServiceAccountIdentity, WorkloadIdentityProvider: pool, Impersonate: "a@p.iam.gserviceaccount.com"}, credentialprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for want, annotations := range map[string]map[string]string{
		"a@p.iam.gserviceaccount.com": nil, "b@p.iam.gserviceaccount.com": {PeerAccountAnnotation: "b@p.iam.gserviceaccount.com", PeerOptInAnnotation: "true"},
	} {
		cfg := auth.Config{Impersonate: p.cfg.Impersonate}
		err := p.federate(&cfg, &credentialprovider.ServiceAccount{Token: cloudauth.NewSecret("s3cret"), Subject: "system:serviceaccount:team:app", Annotations: annotations})
		if err != nil || cfg.Federation == nil || cfg.Federation.Token.Reveal() != "s3cret" || cfg.Federation.Audience != "//iam.googleapis.com/"+pool || cfg.Impersonate != want {
			t.Errorf("%v: %+v, %v", annotations, cfg, err)
		}
	}
}
