package registration_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

// trusted returns which of the names' authorities the API server is told to trust.
func (c *cluster) trusted(t *testing.T, names ...string) string {
	t.Helper()
	var out []string
	if v := c.validating(t); v != nil && len(v.Webhooks) == 1 {
		for _, name := range names {
			if strings.Contains(string(v.Webhooks[0].ClientConfig.CABundle), authority(name)) {
				out = append(out, name)
			}
		}
	}
	return strings.Join(out, " ")
}

// A changed CA gets into the configurations at once, also with replicas that know of it later,
// and no replica takes away what another serves with.
func TestCAChange(t *testing.T) {
	c := newCluster(t)
	first, second := c.start(t, nil), c.start(t, nil)
	before := first.settle(t) + second.settle(t)
	first.setCA(authority("ca") + authority("next"))
	both := func() bool { return c.trusted(t, "ca", "next") == "ca next" }
	eventually.True(t, "the API server knows the new CA", both)
	wait(t, 300*time.Millisecond)
	second.setCA(authority("next"))
	wait(t, 300*time.Millisecond)
	if !both() {
		t.Fatalf("trusted are %q only", c.trusted(t, "ca", "next"))
	}
	if n := first.settle(t) + second.settle(t) - before; n != 2 {
		t.Errorf("%d writes for one change of the CA in two configurations", n)
	}
	eventually.True(t, "an event says so", func() bool { return strings.Contains(c.event(t, "CAsChanged"), `added "CN=next" (serial 1, until 20`) })
	eventually.True(t, "an event says what was done, in the words of the metric", func() bool { return strings.Contains(c.event(t, "Registered"), "webhook configuration changed; ") })
}

// TestRestartedReplicaWithOlderCA: one that restarts and sees its newer certificate late does
// not take the newer CA away, and what it repairs has it.
func TestRestartedReplicaWithOlderCA(t *testing.T) {
	c := newCluster(t)
	newer := c.start(t, func(_ *registration.Options, r *replica) { r.setCA(authority("ca") + authority("newer")) })
	newer.settle(t)
	newer.stop()
	restarted := c.start(t, nil)
	if n := restarted.settle(t); n != 0 || c.trusted(t, "ca", "newer") != "ca newer" {
		t.Fatalf("%d writes, trusted are %q", n, c.trusted(t, "ca", "newer"))
	}
	// It is repaired with its own.
	patch := `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":null}]`
	if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), registration.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "it is repaired", func() bool { return c.trusted(t, "ca", "newer") == "ca" })
}

// TestCAOfAReplicaWithOtherFlags: the CA of a replica that does not hold the lease is trusted, and
// nothing else of what it wants is written.
func TestCAOfAReplicaWithOtherFlags(t *testing.T) {
	c := newCluster(t)
	holder := c.start(t, setPolicy("Ignore"))
	holder.settle(t)
	other := c.start(t, setPolicy("Fail"))
	other.setCA(authority("other"))
	eventually.True(t, "both are trusted", func() bool { return c.trusted(t, "ca", "other") == "ca other" })
	holder.settle(t)
	if c.policy(t) != "Ignore" {
		t.Error("the other replica's policy came with its CA")
	}
}

// TestNoCANoRegistration: a Service's certificate without its CA is not trusted by any API
// server; a host's may be publicly trusted.
func TestNoCANoRegistration(t *testing.T) {
	c := newCluster(t)
	r := c.start(t, func(_ *registration.Options, r *replica) { r.setCA("") })
	eventually.True(t, "an event says so", func() bool { return strings.Contains(c.event(t, "NoCA"), "ca.crt") })
	if c.mutating(t) != nil || r.writes.Load() != 0 {
		t.Error("registered without a CA")
	}
	r.setCA(authority("ca"))
	r.settle(t)
	r.stop()
	public := c.start(t, func(o *registration.Options, r *replica) { o.URL = "https://webhooks.example.com:443"; r.setCA("") })
	public.settle(t)
}

// TestExpiredCAOfAReplica: an expired certificate that one replica still has in its ca.crt is
// nothing that replicas fight about.
func TestExpiredCAOfAReplica(t *testing.T) {
	c := newCluster(t)
	expired := newAuthority("expired", time.Now().Add(-time.Minute))
	with := c.start(t, func(_ *registration.Options, r *replica) { r.setCA(authority("ca") + expired) })
	before := with.settle(t)
	without := c.start(t, nil)
	without.settle(t)
	wait(t, time.Second)
	if n := with.writes.Load() + without.writes.Load() - before; n != 0 || strings.Contains(string(c.validating(t).Webhooks[0].ClientConfig.CABundle), expired) {
		t.Errorf("%d writes about an expired CA", n)
	}
}

// TestNewCADoesNotWaitForAFight: a replica that may repair no more still adds its CA at once.
func TestNewCADoesNotWaitForAFight(t *testing.T) {
	c := newCluster(t)
	r := c.start(t, nil)
	r.settle(t)
	api := c.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	patch := []byte(`[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":1}]`)
	for !strings.Contains(c.event(t, "RepairLimited"), "stubborn") {
		if _, err := api.Patch(t.Context(), registration.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "stubborn"}); err != nil {
			t.Fatal(err)
		}
		wait(t, 100*time.Millisecond)
	}
	r.setCA(authority("ca") + authority("next"))
	eventually.True(t, "the new CA is trusted", func() bool { return c.trusted(t, "ca", "next") == "ca next" })
}

// TestReplicasWithOtherCAsForGood: replicas whose certificates are of different CAs, each of
// which knows its own only, are all trusted, without any more writes. When one has ended, its CA
// stays, until somebody removes it as docs/guides/webhook-certificates.md says.
func TestReplicasWithOtherCAsForGood(t *testing.T) {
	c := newCluster(t)
	var replicas []*replica
	names := []string{"a", "b", "d"}
	for _, name := range names {
		replicas = append(replicas, c.start(t, func(_ *registration.Options, r *replica) { r.setCA(authority(name)) }))
	}
	eventually.True(t, "all are trusted", func() bool { return c.trusted(t, names...) == "a b d" })
	writes := func() (n int64) {
		for _, r := range replicas {
			n += r.settle(t)
		}
		return n
	}
	before := writes()
	wait(t, time.Second)
	if n := writes() - before; n != 0 {
		t.Errorf("%d writes in the steady state", n)
	}
	replicas[0].stop()
	replicas = replicas[1:]
	writes()
	if got := c.trusted(t, names...); got != "a b d" {
		t.Errorf("trusted are %q", got)
	}
	before = writes()
	c.inject(t, authority("b")+authority("d"))
	wait(t, time.Second)
	if n := writes() - before; n > 1 || c.trusted(t, names...) != "b d" { // one may sort them
		t.Errorf("%d writes after a CA was removed, trusted are %q", n, c.trusted(t, names...))
	}
}

// TestPublicCertificateAfterPrivateCA: with a URL, a certificate without a CA is one that the API
// server's own roots hold for, and they count only where no CA is named. So the holder decides
// which of the two it is to be.
func TestPublicCertificateAfterPrivateCA(t *testing.T) {
	c := newCluster(t)
	url := func(o *registration.Options, _ *replica) { o.URL = "https://webhooks.example.com:443" }
	old := c.start(t, url)
	old.settle(t)
	public := c.start(t, func(o *registration.Options, r *replica) { url(o, r); r.setCA("") })
	eventually.True(t, "another one writes", func() bool { return strings.Contains(public.logged(), "another one writes it") })
	if c.trusted(t, "ca") != "ca" || public.writes.Load() != 0 {
		t.Error("a replica that does not hold the lease has removed a CA")
	}
	roots := func() bool { return len(c.validating(t).Webhooks[0].ClientConfig.CABundle) == 0 }
	old.stop()
	eventually.True(t, "the API server's own roots count", roots)
	public.settle(t)
	private := c.start(t, url)
	eventually.True(t, "another one writes", func() bool { return strings.Contains(private.logged(), "another one writes it") })
	if !roots() || private.writes.Load() != 0 {
		t.Error("a replica that does not hold the lease has ended the trust in the API server's own roots")
	}
	// Somebody's CA is taken out.
	c.inject(t, authority("somebody"))
	eventually.True(t, "the API server's own roots count again", roots)
	public.stop()
	eventually.True(t, "the private CA is trusted", func() bool { return c.trusted(t, "ca") == "ca" })
}

// TestWriteAtTheSameMoment: what another replica writes between this one's look at the
// configuration and its own write is not overwritten.
func TestWriteAtTheSameMoment(t *testing.T) {
	c := newCluster(t)
	other := c.start(t, nil)
	other.settle(t)
	var once sync.Once
	after := make(chan string, 1)
	r := c.start(t, func(o *registration.Options, r *replica) {
		config := rest.CopyConfig(c.config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return before(func(req *http.Request) func() {
				if req.Method != http.MethodPut || !strings.Contains(req.URL.Path, "validating") {
					return nil
				}
				var then func()
				once.Do(func() {
					other.setCA(authority("ca") + authority("others"))
					eventually.True(t, "the other has written", func() bool { return c.trusted(t, "ca", "others") == "ca others" })
					then = func() { after <- c.trusted(t, "ca", "others") }
				})
				return then
			}, next)
		})
		o.Client = r.client(t, config)
	})
	r.setCA(authority("ca") + authority("its"))
	if got := <-after; got != "ca others" {
		t.Errorf("after a write of what was read before, trusted are %q only", got)
	}
	eventually.True(t, "all are trusted", func() bool { return c.trusted(t, "ca", "its", "others") == "ca its others" })
	r.settle(t)
	if strings.Contains(r.logged(), "could not be registered") {
		t.Errorf("a conflict is no error to log:\n%s", r.logged())
	}
}

// before calls do before each request that next is to do, and what it returns after it.
func before(do func(*http.Request) func(), next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		then := do(r)
		response, err := next.RoundTrip(r)
		if then != nil {
			then()
		}
		return response, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestClockAhead: a replica by whose clock all CAs have expired takes none of them away.
func TestClockAhead(t *testing.T) {
	c := newCluster(t)
	expired := newAuthority("expired", time.Now().Add(-time.Minute))
	url := func(o *registration.Options, r *replica) { o.URL = "https://127.0.0.1:1"; r.setCA(expired) }
	first := c.start(t, url)
	before := first.settle(t)
	second := c.start(t, url)
	second.settle(t)
	first.stop()
	eventually.True(t, "the second one holds the lease", func() bool {
		lease, err := c.CoordinationV1().Leases("kube-system").Get(t.Context(), "isthmus-webhook-registration", metav1.GetOptions{})
		return err == nil && *lease.Spec.HolderIdentity != "" && *lease.Spec.LeaseTransitions > 0
	})
	wait(t, 300*time.Millisecond)
	if n := second.writes.Load(); before != 2 || n != 0 || !strings.Contains(c.registered(t), expired) {
		t.Errorf("%d writes by the first, %d by the second, registered is %q", before, n, c.registered(t))
	}
}
