package chaos

import (
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// serial is the serial number of the certificate that r serves its webhooks with.
func (r *replica) serial() *big.Int {
	r.t.Helper()
	leaf, err := r.leaf(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return leaf.SerialNumber
}

// burst makes the API server open new connections, by more and more creations at a time than
// it has connections for.
func (c *cluster) burst(b *balancer, ids []string) {
	c.t.Helper()
	before := b.connections()
	for size := 40; b.connections() == before; size *= 2 {
		if size > 400 {
			c.t.Fatal("the API server opens no connection: this shows nothing about a new certificate")
		}
		var wg sync.WaitGroup
		for i := range size {
			wg.Go(func() {
				pv := static(fmt.Sprintf("burst-%d", i), ids[i%len(ids)])
				if _, err := c.client.CoreV1().PersistentVolumes().Create(c.t.Context(), pv, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
					c.t.Errorf("creation in a burst: %v", err)
				}
			})
		}
		wg.Wait()
	}
}

// 2,000 creations while the certificates of all replicas are renewed three times, as cert-manager
// and the kubelet renew the Secret that they are mounted from: none fails although the policy
// is Fail.
func TestRenewedFilesFailNoCreation(t *testing.T) {
	c, a := newCluster(t), newAuthority(t)
	replicas, mounts, b := c.startReplicas(3, a, admissionregistrationv1.Fail)
	const total = 2000
	ids := c.volumes(500)
	l := c.load("renewed", pace{perSecond: 150, inFlight: 10}, ids)
	for range 3 {
		old := map[*replica]*big.Int{}
		for i, r := range replicas { // each kubelet in its own time, and each replica in its own
			old[r] = r.serial()
			mounts[i].update(a.issue())
			time.Sleep(100 * time.Millisecond)
		}
		eventually.Met(t, func() string {
			for _, r := range replicas {
				if r.serial().Cmp(old[r]) == 0 {
					return r.name + " still serves the old certificate"
				}
			}
			return ""
		})
		c.burst(b, ids)
	}
	eventually.Met(t, func() string { // on a machine with nothing else to do, seconds
		if n := l.answered(); n < total {
			return fmt.Sprintf("%d creations of %d", n, total)
		}
		return ""
	})
	all := l.stop()
	t.Logf("%d creations: p50 %s, p99 %s, max %s", len(all), quantile(all, .5), quantile(all, .99), quantile(all, 1))
	mustAllBeLabeled(t, all)
}
