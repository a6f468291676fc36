//go:build e2e

package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"

	"github.com/isthmus-cloud/isthmus/credentialprovider/ecr"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// world is a cluster with one node, two private registries and the simulated clouds.
type world struct {
	plane     *controlplane.ControlPlane
	passwords *registry // htpasswd
	tokens    *registry // token authentication by logins
	logins    *tokenService
	openstack *ossim.Sim
	aws       *awssim.Sim
	podRole   string
	node      *node
}

// trial is a pod whose image only a credential provider of the same name can open.
type trial struct {
	name string
	// registry is where the image is.
	registry func(*world) *registry
	// provider completes the kubelet's entry, and prepares the cloud for it. It matches the path of this trial alone: a
	// path without / in the end is a prefix of others.
	provider func(t *testing.T, w *world, p *kubeletv1.CredentialProvider)
	// account is the pod's service account.
	account string
	// as is who the registry saw, or "" where the pull has to fail.
	as string
	// says is in the line of the kubelet's log about it, if the pull has to fail; "" for no line.
	says string
	// silent is that the kubelet fails before it runs the provider, and counts nothing.
	silent bool
	// found is in what the command check says of the kubelet's entry; "" for nothing.
	found string
	// meanwhile, if set, runs when the pod is there.
	meanwhile func(t *testing.T)
}

func (r trial) repository() string { return r.name + "/app" }

func startWorld(t *testing.T) *world {
	t.Helper()
	w := &world{plane: controlplane.Start(t, controlplane.Options{APIServerArgs: map[string][]string{
		"authorization-mode": {"Node,RBAC"}, "enable-admission-plugins": {"NodeRestriction"}, "disable-admission-plugins": {"DefaultStorageClass"}, // ServiceAccount is on
		"advertise-address": {nodeIP}, // there is no default route to find one by
	}})}
	w.plane.StartControllerManager(t, "--leader-elect=false", "--controllers=daemonset-controller,serviceaccount-controller")
	ca := newAuthority(t)
	w.logins = startTokenService(t, ca)
	w.passwords = startRegistry(t, "registry-htpasswd", "127.0.0.1:5001", fmt.Sprintf("{htpasswd: {realm: private, path: %s}}", write(t, "htpasswd", htpasswd)), ca)
	w.tokens = startRegistry(t, "registry-token", "127.0.0.1:5002", w.logins.section(), ca)
	w.openstack = ossim.ForTest(t)
	w.aws, w.podRole = startAWS(t, w.plane, awssim.Options{})
	startContainerd(t, ca, w.passwords.host, w.tokens.host)
	allowAudiences(t, w.plane, awssim.Audience, azureAudience, keystoneAudience, "https://iam.googleapis.com/"+poolProvider)
	for _, name := range []string{"app", "stranger"} {
		addAccount(t, w.plane.Client, name, map[string]string{ecr.RoleAnnotation: w.podRole})
	}
	return w
}

func passwords(w *world) *registry { return w.passwords }
func tokens(w *world) *registry    { return w.tokens }

// TestKubelet: pods whose images are private run with what the credential provider answers, and
// those for which it fails show why.
func TestKubelet(t *testing.T) {
	w := startWorld(t)
	t.Run("install", func(t *testing.T) { checkInstall(t, w) })
	trials := slices.Concat(nodeTrials(), podTrials(), nodeFailures(), podFailures())
	var providers []kubeletv1.CredentialProvider
	images := map[string]string{}
	for _, r := range trials {
		images[r.name] = r.registry(w).push(t, r.repository())
		p := kubeletv1.CredentialProvider{
			Name: r.name, APIVersion: "credentialprovider.kubelet.k8s.io/v1",
			MatchImages: []string{r.registry(w).host + "/" + r.name + "/"}, DefaultCacheDuration: &metav1.Duration{Duration: time.Minute},
		}
		r.provider(t, w, &p)
		providers = append(providers, p)
	}
	short := addCacheProvider(t, w, &providers)
	addSharedProvider(t, w, &providers)
	config, binDir := installProviders(t, "kubelet", providers)
	w.node = startNode(t, w.plane, "kubelet", config, binDir)
	t.Run("check", func(t *testing.T) { t.Parallel(); checkFinds(t, trials, config, binDir) })
	t.Run("cache", func(t *testing.T) { t.Parallel(); checkCache(t, w, short) })
	t.Run("cached accounts", func(t *testing.T) { t.Parallel(); checkCachedAccounts(t, w) })
	t.Run("kubelet refuses", func(t *testing.T) { t.Parallel(); checkRefusals(t, w) })
	for _, r := range trials {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			createPod(t, w.plane.Client, r.name, r.account, images[r.name])
			if r.meanwhile != nil {
				r.meanwhile(t)
			}
			if r.as == "" {
				r.checkFailed(t, w)
			} else {
				r.checkRuns(t, w)
			}
		})
	}
}

func (r trial) checkRuns(t *testing.T, w *world) {
	waitRunning(t, w.plane.Client, r.name)
	if !r.registry(w).pulled(t, r.repository()) {
		t.Error("the registry's log does not have the pull")
	}
	if got := w.logins.pulledBy(r.repository()); r.registry(w) == w.tokens && !slices.Equal(got, []string{r.as}) {
		t.Errorf("the registry gave the image to %q, want %q alone", got, r.as)
	}
	if runs, failed := w.node.runs(t, r.name), w.node.failures(t, r.name); runs != 1 || failed != 0 {
		t.Errorf("the kubelet ran the provider %d times, %d of them failed; want one that did not", runs, failed)
	}
}

func (r trial) checkFailed(t *testing.T, w *world) {
	event := waitPullFailed(t, w.plane.Client, r.name)
	t.Logf("the pod's event: %s", event)
	// All that the pod shows is that the registry refused; the kubelet's log knows why.
	if !strings.Contains(event, "failed to authorize") && !strings.Contains(event, "401 Unauthorized") && !strings.Contains(event, "authorization failed") {
		t.Error("the event does not speak of authorization")
	}
	if r.registry(w).pulled(t, r.repository()) {
		t.Error("the registry gave the image away")
	}
	lines, failed := w.node.complaints(t, r.name), w.node.failures(t, r.name)
	if r.says == "" {
		if len(lines) != 0 || failed != 0 || w.node.runs(t, r.name) != 0 {
			t.Errorf("the kubelet ran the provider: %q", lines)
		}
		return
	}
	if len(lines) == 0 || !strings.Contains(lines[0], r.says) {
		t.Fatalf("the kubelet's log says %q, want %q in it", lines, r.says)
	}
	t.Logf("the kubelet's log: %.600s", lines[0])
	if r.name != "crash" && strings.Contains(lines[0], "\n") {
		t.Error("the record has several lines: whoever searches for its beginning does not see the cause")
	}
	if failed == 0 != r.silent {
		t.Errorf("the kubelet counts %d failures of the provider", failed)
	}
}
