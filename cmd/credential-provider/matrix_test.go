package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
)

// combination is a kind of registry with an identity, in a simulated cloud.
type combination struct {
	// section is the kind's in the file of --config.
	section string
	image   string
	env     []string
	// token is the service account's, "" with the node's identity.
	token       string
	annotations map[string]string
	// audience is what config is told of it, "" where the kind knows.
	audience string
	// pull reports whether the password opens the image's registry; nil checks no more than that there
	// is one, because the kind's own tests do.
	pull func(user, password string) error
}

// combinations are all kinds with all identities. A kind that is added to sections has to be added here.
func combinations() map[string]func(*testing.T) combination {
	return map[string]func(*testing.T) combination{
		"ecr/node": func(t *testing.T) combination {
			w := startAWS(t)
			return combination{section: "ecr: {}", image: ownRegistry + "/app", env: w.Env(), pull: func(u, p string) error { return w.Pull(u, p, ownAccount, "eu-central-1") }}
		},
		"ecr/serviceAccount": func(t *testing.T) combination {
			w := startAWS(t)
			return combination{
				section: "ecr: {identity: serviceAccount}", image: ownRegistry + "/app", env: w.Env(),
				token: w.token(t, "app", time.Hour), annotations: map[string]string{ownKey: w.pod},
				pull: func(u, p string) error { return w.Pull(u, p, ownAccount, "eu-central-1") },
			}
		},
		"acr/node": func(t *testing.T) combination {
			w := startAzure(t, "public")
			w.systemAssigned()
			w.addRegistries()
			return combination{section: "acr: {}", image: acrPublic + "/app", env: w.Env()}
		},
		"acr/serviceAccount": func(t *testing.T) combination {
			w := startAzure(t, "public")
			w.addRegistries()
			return combination{
				section: "acr: {identity: serviceAccount}", image: acrPublic + "/app", env: w.Env(),
				token: w.token(t, "team", "app", time.Hour), annotations: map[string]string{acrOwnClient: w.pod.ClientID, acrOwnTenant: azureTenant},
			}
		},
		"artifactregistry/node": func(t *testing.T) combination {
			return combination{section: "artifactregistry: {}", image: arImage, env: startGCP(t).Env()}
		},
		"artifactregistry/serviceAccount": func(t *testing.T) combination {
			w := startGCP(t)
			return combination{
				section: "artifactregistry: {identity: serviceAccount, workloadIdentityProvider: " + poolProvider + "}", image: arImage, env: w.Env(),
				token: w.token(t, "app", w.audience, time.Hour),
			}
		},
		"openstack/node": func(t *testing.T) combination {
			f := startFederation(t)
			return combination{section: "openstack: {cloudConfig: " + writeConf(t, f.conf("")) + "}", image: "registry.example.com:5000/app"}
		},
		"openstack/serviceAccount": func(t *testing.T) combination {
			f := startFederation(t)
			return combination{
				section: "openstack: {identity: serviceAccount, cloudConfig: " + writeConf(t, f.conf("identity-provider = cluster")) + "}", image: "registry.example.com:5000/app",
				token: f.token(t, "app", clusterAudience, time.Hour), audience: clusterAudience,
			}
		},
	}
}

// Every kind of registry with every identity, from the kubelet's configuration that config writes to the
// credentials that a kubelet gets, as check finds them, all by the real binary.
func TestEveryRegistryAndIdentity(t *testing.T) {
	all := combinations()
	for _, kind := range config.Registries() {
		for _, identity := range []credentialprovider.Identity{credentialprovider.NodeIdentity, credentialprovider.ServiceAccountIdentity} {
			name := kind + "/" + string(identity)
			start, ok := all[name]
			delete(all, name)
			if !ok {
				t.Errorf("%s has no test from end to end; add it to combinations", name)
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				start(t).fromEndToEnd(t)
			})
		}
	}
	for name := range all {
		t.Errorf("%s is no kind and identity", name)
	}
}

func (c combination) fromEndToEnd(t *testing.T) {
	n := newNode(t)
	options := n.write(t, "options.yaml", configHead+c.section+"\n")
	file := filepath.Join(n.dir, "credential-provider.yaml")
	args := []string{"config", "--config=" + options, "--node-config-path=" + options, "--output=" + file}
	if c.audience != "" {
		args = append(args, "--audience="+c.audience)
	}
	if got := executeEnv(t, c.env, "", args...); got.code != 0 {
		t.Fatalf("config: exit %d, %s", got.code, got.stderr)
	}

	args = []string{"--image=" + c.image + ":v1"}
	if c.token != "" {
		args = append(args, "--service-account-token-file="+n.write(t, "token", c.token))
	}
	for key, value := range c.annotations {
		args = append(args, "--annotation="+key+"="+value)
	}
	got := n.check(t, c.env, file, args...)
	if got.code != 0 || !strings.Contains(got.stdout, "\nthe kubelet pulls as user ") || !strings.Contains(got.stdout, "\n0 problems, 0 warnings, ") {
		t.Errorf("check: exit %d:\n%s%s", got.code, got.stdout, got.stderr)
	}

	stdin := request("v1", c.image)
	if c.token != "" {
		stdin = podRequest(t, c.image, c.token, c.annotations)
	}
	answered := executeEnv(t, c.env, stdin, "--config="+options)
	user, password := c.login(t, answered, "v1")
	if strings.Contains(got.stdout, password) || password == "" {
		t.Error("check shows the password")
	}
	if c.pull != nil {
		if err := c.pull(user, password); err != nil {
			t.Errorf("the registry refuses: %v", err)
		}
	}
	c.otherIdentity(t, options)
}

// login takes the login out of an answer, which has to be for the image's registry as it is written.
func (c combination) login(t *testing.T, got outcome, version string) (user, password string) {
	t.Helper()
	var answer struct {
		APIVersion string
		Auth       map[string]struct{ Username, Password string }
	}
	host, _, _ := strings.Cut(c.image, "/")
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || len(answer.Auth) != 1 || answer.Auth[host].Password == "" || answer.APIVersion != "credentialprovider.kubelet.k8s.io/"+version {
		t.Fatalf("exit %d, %v, %+v: %s", got.code, err, answer.APIVersion, got.stderr)
	}
	return answer.Auth[host].Username, answer.Auth[host].Password
}

// otherIdentity checks that the other identity's request gets nothing.
func (c combination) otherIdentity(t *testing.T, options string) {
	t.Helper()
	stdin, want := request("v1", c.image), "the kubelet sends no token"
	if c.token == "" {
		stdin, want = podRequest(t, c.image, strings.Join([]string{"e30", "eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6dGVhbTphcHAiLCJleHAiOjQwMDAwMDAwMDB9", "eA"}, "."), nil), "configured for the node's identity"
	}
	if got := executeEnv(t, c.env, stdin, "--config="+options); got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, want) {
		t.Errorf("the other identity's request: exit %d, %s, want %q", got.code, got.stderr, want)
	}
}

// The AWS peer answers requests of v1 alone. Every kind answers all versions that a kubelet may be
// configured for, in the version that was asked for, which the kubelet insists on.
func TestDefectOldRequestVersions(t *testing.T) {
	for _, kind := range config.Registries() {
		start, ok := combinations()[kind+"/node"]
		if !ok {
			continue // TestEveryRegistryAndIdentity says so
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			options := filepath.Join(t.TempDir(), "options.yaml")
			if err := os.WriteFile(options, []byte(configHead+c.section+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
				c.login(t, executeEnv(t, c.env, request(version, c.image), "--config="+options), version)
			}
		})
	}
}

// One entry of the kubelet serves all kinds at once: each image gets its own registry's credentials.
func TestOneEntryForAllKinds(t *testing.T) {
	options := configHead
	var all []combination
	for _, kind := range config.Registries() {
		c := combinations()[kind+"/node"](t)
		options += c.section + "\n"
		all = append(all, c)
	}
	file := filepath.Join(t.TempDir(), "options.yaml")
	if err := os.WriteFile(file, []byte(options), 0o600); err != nil {
		t.Fatal(err)
	}
	var users []string
	for _, c := range all { // each in its own cloud: one proxy cannot be two
		user, _ := c.login(t, executeEnv(t, c.env, request("v1", c.image), "--config="+file), "v1")
		users = append(users, user)
	}
	if want := "[AWS 00000000-0000-0000-0000-000000000000 oauth2accesstoken puller]"; fmt.Sprint(users) != want {
		t.Errorf("users %v, want %s", users, want)
	}
}
