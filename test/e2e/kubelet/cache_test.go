//go:build e2e

package kubelet

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"

	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
)

// addCacheProvider adds a provider whose credentials the kubelet may keep for some seconds.
func addCacheProvider(t *testing.T, w *world, providers *[]kubeletv1.CredentialProvider) *awssim.Sim {
	t.Helper()
	sim, _ := startAWS(t, w.plane, awssim.Options{TokenLifetime: 75 * time.Second}) // a minute of it is the margin
	p := kubeletv1.CredentialProvider{
		Name: "cache", APIVersion: "credentialprovider.kubelet.k8s.io/v1",
		MatchImages: []string{w.tokens.host + "/cache/"}, DefaultCacheDuration: &metav1.Duration{Duration: time.Hour},
	}
	useECR(t, w, sim, &p, "node")
	*providers = append(*providers, p)
	return sim
}

// checkCache: the kubelet keeps an answer for all images of the registry, until shortly before
// its token expires, whatever its own configuration says.
func checkCache(t *testing.T, w *world, sim *awssim.Sim) {
	tokens := func() (n int) {
		for _, r := range sim.Requests() {
			if r.Action == "GetAuthorizationToken" {
				n++
			}
		}
		return n
	}
	pull := func(name string) {
		createPod(t, w.plane.Client, name, "", w.tokens.push(t, "cache/"+name))
		waitRunning(t, w.plane.Client, name)
	}
	pull("first")
	begin := time.Now()
	pull("second")
	if n := tokens(); n != 1 && time.Since(begin) < 10*time.Second {
		t.Errorf("two images of one registry took %d tokens, want one", n)
	}
	before := tokens()
	<-time.After(time.Until(begin.Add(15 * time.Second)))
	pull("third")
	if n := tokens(); n != before+1 {
		t.Errorf("after the token's time the third image took %d tokens more, want one", n-before)
	}
}

// sharedProvider is the name of a provider that several service accounts use.
const sharedProvider = "shared"

// addSharedProvider adds a provider for service accounts.
func addSharedProvider(t *testing.T, w *world, providers *[]kubeletv1.CredentialProvider) {
	t.Helper()
	p := kubeletv1.CredentialProvider{
		Name: sharedProvider, APIVersion: "credentialprovider.kubelet.k8s.io/v1",
		MatchImages: []string{w.tokens.host + "/" + sharedProvider + "/"}, DefaultCacheDuration: &metav1.Duration{Duration: time.Hour},
	}
	useECR(t, w, w.aws, &p, "serviceAccount")
	*providers = append(*providers, p)
}

// checkCachedAccounts: what one service account's token gave, the kubelet keeps for the whole registry, as the
// answer says (cacheKeyType Registry), but for that service account alone: its key has the account's namespace,
// name, UID and annotations in it. Another one of the same node, whom the cloud refuses, gets nothing of it.
func checkCachedAccounts(t *testing.T, w *world) {
	for _, name := range []string{"shared-first", "shared-second"} {
		createPod(t, w.plane.Client, name, "app", w.tokens.push(t, sharedProvider+"/"+name))
		waitRunning(t, w.plane.Client, name)
	}
	if n := w.node.runs(t, sharedProvider); n != 1 {
		t.Errorf("two images for one service account ran the provider %d times, want once", n)
	}
	createPod(t, w.plane.Client, "shared-stranger", "stranger", w.tokens.push(t, sharedProvider+"/third"))
	waitPullFailed(t, w.plane.Client, "shared-stranger")
	if w.tokens.pulled(t, sharedProvider+"/third") {
		t.Error("a service account pulls with what another one's token gave")
	}
	if w.node.failures(t, sharedProvider) == 0 {
		t.Error("the provider was not asked as the other service account; the test shows nothing")
	}
}
