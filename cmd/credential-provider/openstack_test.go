package main

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

const clusterAudience = "https://keystone.example"

// federation is a simulated OpenStack whose Keystone takes the tokens of a cluster.
type federation struct {
	*ossim.Sim
	issuer *cloudsim.Issuer
	// other is a project beside the one in which the registry's secret is.
	other string
}

func startFederation(t *testing.T) *federation {
	t.Helper()
	issuer, err := cloudsim.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	f := &federation{Sim: ossim.ForTest(t), issuer: issuer}
	f.other = f.AddProject("other")
	f.AddFederation(ossim.Federation{
		IdentityProvider: "cluster", Protocol: "openid", Issuer: issuer, Audience: clusterAudience,
		Mapping: map[string]map[string][]string{
			"system:serviceaccount:team:app":   {ossim.ProjectName: {"creator"}, "other": {"creator"}},
			"system:serviceaccount:team:other": {"other": {"creator"}},
		},
	})
	storeSecret(t, f.Sim, "registry", `{"auths":{"registry.example.com:5000":{"auth":"`+base64.StdEncoding.EncodeToString([]byte("puller:from-barbican"))+`"}}}`)
	return f
}

// conf is a cloud.conf whose login would work, so that falling back to it would show.
func (f *federation) conf(more string) string {
	return login(f.Sim) + more + "\n" + registries
}

func (f *federation) token(t *testing.T, name, audience string, lifetime time.Duration) string {
	t.Helper()
	token, err := f.issuer.ServiceAccountToken(cloudsim.TokenClaims{Namespace: "team", Name: name, Audience: []string{audience}, Lifetime: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Every registry as a service account: with the token of the pod, and never with the login of [Global].
func TestExecOpenStackServiceAccount(t *testing.T) {
	const image = "registry.example.com:5000/app"
	stranger, err := cloudsim.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		image string
		conf  string // more of [Global]
		// account is whose token it is, and request changes the rest.
		account  string
		audience string
		lifetime time.Duration
		project  func(*federation) string
		stranger bool
		edit     func(conf string) string
		good     bool
	}{
		"barbican":          {good: true},
		"barbican-project":  {account: "app", project: func(f *federation) string { return f.other }}, // there is no secret in it
		"barbican-nologin":  {good: true, edit: withoutLogin},
		"barbican-protocol": {conf: "protocol = oidc"},
		"keppel":            {image: "keppel.example.com/account/repo"},
		"noprovider":        {conf: "-"},
		"nosuchprovider":    {conf: "identity-provider = other"},
		"noproject":         {edit: func(conf string) string { return strings.Replace(conf, "tenant-name = k8s\n", "", 1) }},
		"wrongaudience":     {audience: "sts.example"},
		"unmapped":          {account: "unknown"},
		"otherproject":      {account: "other"},
		"stranger":          {stranger: true},
		"badannotation":     {project: func(*federation) string { return "a/b" }},
		"expired":           {lifetime: -time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFederation(t)
			if tt.stranger {
				f.issuer = stranger
			}
			global := "identity-provider = cluster\n" + tt.conf
			if strings.Contains(tt.conf, "identity-provider") {
				global = tt.conf
			} else if tt.conf == "-" {
				global = ""
			}
			content := f.conf(global)
			if tt.edit != nil {
				content = tt.edit(content)
			}
			conf := writeConf(t, content)
			asked, account, audience, lifetime := tt.image, tt.account, tt.audience, tt.lifetime
			if asked == "" {
				asked = image
			}
			if account == "" {
				account = "app"
			}
			if audience == "" {
				audience = clusterAudience
			}
			if lifetime == 0 {
				lifetime = time.Hour
			}
			annotations := map[string]string{}
			if tt.project != nil {
				annotations["isthmus-cloud.github.io/openstack-project-id"] = tt.project(f)
			}
			token := f.token(t, account, audience, lifetime)
			before := len(f.Requests())
			got := execute(t, podRequest(t, asked, token, annotations), "--registries=openstack", "--identity=serviceAccount", "--cloud-config="+conf)
			checkOutcome(t, got)
			if strings.Contains(got.stdout+got.stderr, token) || (got.code == 0) != tt.good {
				t.Errorf("exit %d, %s", got.code, got.stderr)
			}
			if got.code == 0 && !strings.Contains(got.stdout, "from-barbican") {
				t.Errorf("no password: %s", got.stdout)
			}
			var spoken []string
			for _, r := range f.Requests()[before:] {
				spoken = append(spoken, fmt.Sprintf("%s %s %s %d", r.Service, r.Method, regexp.MustCompile("[0-9a-f-]{32,36}").ReplaceAllString(r.Path, "ID"), r.Status))
			}
			transcript := fmt.Sprintf("spoken to:\n  %s\nexit: %d\nstdout: %s\nstderr: %s\n", strings.Join(spoken, "\n  "), got.code, strings.TrimSpace(got.stdout), strings.TrimSpace(got.stderr))
			transcript = strings.NewReplacer(conf, "cloud.conf", f.AuthURL(), "AUTH-URL").Replace(transcript)
			for pattern, with := range map[string]string{`"5[0-9]m[0-9]+s"`: `"5…m"`, `at 20[0-9T:-]+Z`: "at TIME"} {
				transcript = regexp.MustCompile(pattern).ReplaceAllString(transcript, with)
			}
			golden.Compare(t, filepath.Join("testdata", "openstack-pod", name+".golden"), transcript)
		})
	}
}

// withoutLogin removes the login of a cloud.conf.
func withoutLogin(conf string) string {
	return strings.NewReplacer("username = k8s\n", "", "password = secret\n", "", "user-domain-name = Default\n", "").Replace(conf)
}

// With the identity of service accounts nothing uses the login of [Global], and with the node's nothing
// uses the token.
func TestDefectOpenStackNoFallbackToTheNode(t *testing.T) {
	f := startFederation(t)
	conf := writeConf(t, f.conf("identity-provider = cluster"))
	image := "registry.example.com:5000/app"
	unmapped := podRequest(t, image, f.token(t, "unknown", clusterAudience, time.Hour), nil)
	if got := execute(t, unmapped, "--registries=openstack", "--identity=serviceAccount", "--cloud-config="+conf); got.code != 1 || !strings.Contains(got.stderr, "refuses the access token") {
		t.Errorf("a service account that Keystone refuses: exit %d, %s", got.code, got.stderr)
	}
	mapped := podRequest(t, image, f.token(t, "app", clusterAudience, time.Hour), nil)
	if got := execute(t, mapped, "--registries=openstack", "--cloud-config="+conf); got.code != 1 || !strings.Contains(got.stderr, "configured for the node's identity; remove tokenAttributes") {
		t.Errorf("a token for the node's identity: exit %d, %s", got.code, got.stderr)
	}
	if got := execute(t, request("v1", image), "--registries=openstack", "--identity=serviceAccount", "--cloud-config="+conf); got.code != 1 || !strings.Contains(got.stderr, "the kubelet sends no token") {
		t.Errorf("no token: exit %d, %s", got.code, got.stderr)
	}
	if got := execute(t, request("v1", image), "--registries=openstack", "--cloud-config="+conf); got.code != 0 {
		t.Errorf("the node: exit %d, %s", got.code, got.stderr)
	}
}

// A registry's port is part of its name: the answer is for that port, and another port is another registry,
// of which nobody is asked.
func TestDefectPortsAreKept(t *testing.T) {
	f := startFederation(t)
	conf := writeConf(t, f.conf(""))
	got := execute(t, request("v1", "registry.example.com:5000/app"), "--cloud-config="+conf)
	if got.code != 0 || !strings.Contains(got.stdout, `"auth":{"registry.example.com:5000":{`) {
		t.Errorf("exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	before := len(f.Requests())
	for _, image := range []string{"registry.example.com/app", "registry.example.com:5001/app", "registry.example.com:50000/app"} {
		if got := execute(t, request("v1", image), "--cloud-config="+conf); got.code != 1 || !strings.Contains(got.stderr, "is none of those configured") {
			t.Errorf("%s: exit %d, %s", image, got.code, got.stderr)
		}
	}
	if asked := f.Requests()[before:]; len(asked) != 0 {
		t.Errorf("for other ports it asks %v", asked)
	}
}
