package chaos

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

// latencies are those of one kind of creation.
type latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
}

// milliseconds is the time within which the share q was answered.
func (l *latencies) milliseconds(q float64) float64 {
	slices.Sort(l.all)
	return l.all[min(len(l.all)-1, int(q*float64(len(l.all))))].Seconds() * 1e3
}

// BenchmarkCreation measures creations of PersistentVolumes through a real kube-apiserver, in
// turn and in one run: those that the webhook does not see (they opt out), those that it
// decides alone (dynamically provisioned ones bring their labels), and those about which it
// asks the cloud, which answers at once. What counts is the difference. With one client the
// cloud is asked once for each; of 50 clients, those that come together are answered together.
// One operation is a round of creations of each kind, so that even one has quantiles.
func BenchmarkCreation(b *testing.B) {
	for clients, round := range map[int]int{1: 100, 50: 500} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			c, a := newCluster(b), newAuthority(b)
			c.startReplicas(1, a, admissionregistrationv1.Fail)
			ids := c.volumes(2000)
			kinds := map[string]func(*corev1.PersistentVolume){
				"unseen": func(pv *corev1.PersistentVolume) { pv.Labels = map[string]string{pvlabel.OptOutLabel: "true"} },
				"trusted": func(pv *corev1.PersistentVolume) {
					pv.Labels = map[string]string{corev1.LabelTopologyZone: "az1", corev1.LabelTopologyRegion: "RegionOne"}
					pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "cinder.csi.openstack.org"}
				},
				"asked": func(*corev1.PersistentVolume) {},
			}
			took := map[string]*latencies{}
			for kind := range kinds {
				took[kind] = &latencies{}
			}
			var next atomic.Int64
			create := func() {
				n := int(next.Add(1))
				for kind, change := range kinds {
					pv := static(fmt.Sprintf("%s-%d", kind, n), ids[n%len(ids)])
					change(pv)
					start := time.Now()
					if _, err := c.client.CoreV1().PersistentVolumes().Create(b.Context(), pv, metav1.CreateOptions{}); err != nil {
						b.Error(err)
						return
					}
					took[kind].add(time.Since(start))
				}
			}
			for range 20 { // connections
				create()
			}
			for _, l := range took {
				l.all = nil
			}
			c.sim.ResetRequests()
			b.ResetTimer()
			var work sync.WaitGroup
			var left atomic.Int64
			left.Store(int64(b.N * round))
			for range clients {
				work.Go(func() {
					for left.Add(-1) >= 0 {
						create()
					}
				})
			}
			work.Wait()
			b.StopTimer()
			for kind, l := range took {
				b.ReportMetric(l.milliseconds(.5), kind+"-p50-ms")
				b.ReportMetric(l.milliseconds(.99), kind+"-p99-ms")
			}
			b.ReportMetric(took["asked"].milliseconds(.99)-took["unseen"].milliseconds(.99), "added-p99-ms")
			b.ReportMetric(took["asked"].milliseconds(.99)/took["unseen"].milliseconds(.99), "asked/unseen-p99")
			b.ReportMetric(float64(c.sim.Count("volume", ""))/float64(b.N*round), "cloud-calls/volume")
		})
	}
}
