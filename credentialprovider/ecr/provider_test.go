package ecr

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
)

func TestConfigMistakes(t *testing.T) {
	const good = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
	for name, tt := range map[string]struct {
		cfg  Config
		want []string
	}{
		"role of the node": {Config{RoleARN: "arn:aws:iam::123456789012:role/a"}, []string{"roleARN: it is for identity: serviceAccount"}},
		"all at once": {Config{Identity: credentialprovider.ServiceAccountIdentity, STSRegion: "x", RoleARN: "y", Profile: "z", Accounts: map[string]auth.Role{"1": {ARN: "a", SourceARN: "b"}}},
			[]string{`stsRegion: "x" is no AWS region`, `roleARN: "y" is no ARN`, "profile: with identity: serviceAccount", `"1" is no AWS account`, `accounts: 1: roleARN: "a" is no ARN`, `sourceARN: "b" is no ARN`}},
		"upstream":          {Config{Mirrors: []credentialprovider.Mirror{{Upstream: "a/b", Registry: good}}}, []string{`mirrors: upstream: registry "a/b"`}},
		"upstream is ECR":   {Config{Mirrors: []credentialprovider.Mirror{{Upstream: good, Registry: good}}}, []string{"is an ECR registry itself"}},
		"upstream twice":    {Config{Mirrors: []credentialprovider.Mirror{{Upstream: "index.docker.io", Registry: good}, {Upstream: "docker.io", Registry: good}}}, []string{"upstream docker.io is there twice"}},
		"registry elswhere": {Config{Mirrors: []credentialprovider.Mirror{{Upstream: "docker.io", Registry: "harbor.example"}}}, []string{"registry harbor.example is no private ECR registry"}},
		"public registry":   {Config{Mirrors: []credentialprovider.Mirror{{Upstream: "docker.io", Registry: "public.ecr.aws"}}}, []string{"is no private ECR registry"}},
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

// Mirrors are other registries by name, with their port; nothing else is.
func TestServes(t *testing.T) {
	p, err := New(Config{Mirrors: []credentialprovider.Mirror{{Upstream: "mirror.example:5000", Registry: "123456789012.dkr.ecr.eu-central-1.amazonaws.com"}, {Upstream: "docker.io", Registry: "210987654321.dkr.ecr.us-east-1.amazonaws.com"}}}, credentialprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for reference, want := range map[string]string{
		"nginx": "210987654321", "mirror.example:5000/a": "123456789012", "mirror.example/a": "-", "mirror.example:5001/a": "-",
		"555555555555.dkr.ecr.us-east-1.amazonaws.com/a/b": "555555555555", "public.ecr.aws/a": "", "quay.io/a": "-",
	} {
		image, err := credentialprovider.ParseImage(reference)
		if err != nil {
			t.Fatal(err)
		}
		got := "-"
		if r, ok := p.registryOf(image); ok {
			got = r.account
		}
		if got != want || p.Serves(image) != (want != "-") {
			t.Errorf("%s: registry of account %q, served %t, want %q", reference, got, p.Serves(image), want)
		}
	}
	if all := p.MatchImages(); all[len(all)-1] != "docker.io" || all[len(all)-2] != "mirror.example:5000" {
		t.Errorf("patterns %v", all)
	}
	if d := p.Describe(); !strings.Contains(d, "mirrors list mirror.example:5000, docker.io") {
		t.Errorf("it describes itself as %q", d)
	}
}

const tokenOfAWS = "QVdTOmV5SnNlY3JldA==" // AWS:eyJsecret

// The peer indexes into what it gets and panics on anything unexpected.
func TestDefectMalformedTokens(t *testing.T) {
	r, _ := parseHost("123456789012.dkr.ecr.us-east-1.amazonaws.com")
	public, _ := parseHost("public.ecr.aws")
	for name, tt := range map[string]struct {
		registry registry
		answer   string
		good     bool
	}{
		"private":     {r, `{"authorizationData":[{"authorizationToken":"` + tokenOfAWS + `","expiresAt":1800000000.5,"proxyEndpoint":"https://999999999999.dkr.ecr.us-east-1.amazonaws.com"}]}`, true},
		"public":      {public, `{"authorizationData":{"authorizationToken":"` + tokenOfAWS + `","expiresAt":1800000000.5}}`, true},
		"none":        {r, `{"authorizationData":[]}`, false},
		"two":         {r, `{"authorizationData":[{},{}]}`, false},
		"nothing":     {r, `{}`, false},
		"null":        {public, `{"authorizationData":null}`, false},
		"no base64":   {r, `{"authorizationData":[{"authorizationToken":"%%%","expiresAt":1800000000}]}`, false},
		"no colon":    {r, `{"authorizationData":[{"authorizationToken":"QVdT","expiresAt":1800000000}]}`, false},
		"no password": {r, `{"authorizationData":[{"authorizationToken":"QVdTOg==","expiresAt":1800000000}]}`, false},
		"no expiry":   {r, `{"authorizationData":[{"authorizationToken":"` + tokenOfAWS + `"}]}`, false},
		"line break":  {r, `{"authorizationData":[{"authorizationToken":"QVdTOngKeQ==","expiresAt":1800000000}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tokenOf(t, tt.registry, tt.answer)
			if !tt.good && !errors.Is(err, errNoToken) || tt.good && (err != nil || got.user != "AWS" || got.password.Reveal() != "eyJsecret" || !got.expires.Equal(time.Unix(1800000000, 500e6))) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// answering answers every request.
type answering string

func (a answering) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// tokenOf is the token that an answer of AWS is taken for.
func tokenOf(t *testing.T, r registry, answer string) (token, error) {
	get := map[bool]func(context.Context, aws.Config, registry) (token, error){true: publicToken, false: privateToken}[r.account == ""]
	return get(t.Context(), aws.Config{HTTPClient: answering(answer), Credentials: credentials.NewStaticCredentialsProvider("AKIA", "s", "")}, r)
}

// FuzzAnswer checks that no answer makes it panic, and that what is taken for a token is one.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"authorizationData":[{"authorizationToken":"` + tokenOfAWS + `","expiresAt":1800000000.5}]}`))
	f.Add([]byte(`{"authorizationData":{"authorizationToken":"` + tokenOfAWS + `","expiresAt":1e308}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		for _, host := range []string{"123456789012.dkr.ecr.us-east-1.amazonaws.com", "public.ecr.aws"} {
			r, _ := parseHost(host)
			got, err := tokenOf(t, r, string(answer))
			if err == nil && (got.user == "" || got.password.IsEmpty() || got.expires.IsZero()) {
				t.Errorf("%s: %q gives %+v", host, answer, got)
			}
		}
	})
}

// The kubelet asks for the names that it has for registries.
func TestMatchedNames(t *testing.T) {
	p, err := New(Config{Mirrors: []credentialprovider.Mirror{{Upstream: "index.docker.io", Registry: "123456789012.dkr.ecr.eu-central-1.amazonaws.com"}}}, credentialprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if all := p.MatchImages(); all[len(all)-1] != "docker.io" {
		t.Errorf("patterns %v", all)
	}
}

// How a Provider speaks to AWS: as the program, for as long as it is told, and in the name of the service account in
// every role that it assumes, which CloudTrail and refusals show.
func TestSpeaksAsTold(t *testing.T) {
	sim, err := awssim.Start(awssim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": sim.URL(), "AWS_REGION": "eu-central-1", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	const subject, other = "system:serviceaccount:team:app", "444455556666"
	pod := sim.AddRole(awssim.Principal{Account: "111122223333", Name: "pod", Actions: []string{"sts:*"}, Trust: awssim.Trust{Subjects: []string{subject}}})
	pull := sim.AddRole(awssim.Principal{Account: other, Name: "pull", Trust: awssim.Trust{Principals: []string{pod}}})
	token, err := sim.ServiceAccountToken(awssim.TokenClaims{Namespace: "team", Name: "app", Audience: []string{Audience}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Identity: credentialprovider.ServiceAccountIdentity, Accounts: map[string]auth.Role{other: {ARN: pull}}}, credentialprovider.Options{UserAgent: "program/v7", Timeout: 9 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	account := &credentialprovider.ServiceAccount{Token: cloudauth.NewSecret(token), Subject: subject, Annotations: map[string]string{RoleAnnotation: pod}}
	image, err := credentialprovider.ParseImage(other + ".dkr.ecr.eu-central-1.amazonaws.com/app")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Credentials(t.Context(), credentialprovider.Query{Image: image, ServiceAccount: account})
	if err == nil || !strings.Contains(err.Error(), ":assumed-role/pull/team.app is not authorized to perform: ecr:GetAuthorizationToken") {
		t.Errorf("got %v", err)
	}
	for _, r := range sim.Requests() {
		if !strings.Contains(r.UserAgent, "program/v7") {
			t.Errorf("%s: user agent %q", r.Action, r.UserAgent)
		}
	}
	r, _ := p.registryOf(image)
	session, err := p.session(t.Context(), r, account)
	if err != nil {
		t.Fatal(err)
	}
	if client, ok := session.AWS().HTTPClient.(interface{ GetTimeout() time.Duration }); !ok || client.GetTimeout() != 9*time.Second {
		t.Error("requests may take another time")
	}
	p.cfg.Accounts[other] = auth.Role{ARN: "none"}
	if _, err := p.session(t.Context(), r, account); err == nil || !strings.Contains(err.Error(), "roleARN") {
		t.Errorf("a role that is none: %v", err)
	}
	p.cfg.STSRegion = "nowhere"
	if _, err := p.session(t.Context(), r, account); err == nil || !strings.Contains(err.Error(), "region") {
		t.Errorf("a region that is none: %v", err)
	}
}
