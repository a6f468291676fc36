package orphans

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// TestRestoredAPIServerDeletesNothingThatItForgot: of a control plane whose etcd is that of a backup, what was made after the backup stays, and
// what its API server remembers goes. The rule is that of 5 minutes, with 3 s.
func TestRestoredAPIServerDeletesNothingThatItForgot(t *testing.T) {
	dir := t.TempDir()
	w := &world{t: t, sim: ossim.ForTest(t, ossim.Options{StateDelay: 3 * time.Millisecond}), gap: 3 * time.Second, skew: time.Second}
	start := func(data string) (stop func()) {
		plane, err := controlplane.Run(controlplane.Options{DataDir: filepath.Join(dir, data)})
		w.must(err)
		w.ControlPlane = plane
		w.reach("openstack", w.sim.ConfFile(t, ""), "kubernetes")
		return func() { w.must(plane.Stop()) }
	}
	stop := start("data")
	// A cluster that lives: something is written all the time.
	live, end := context.WithCancel(t.Context())
	alive := make(chan struct{})
	go func() {
		defer close(alive)
		beat := time.NewTicker(100 * time.Millisecond)
		defer beat.Stop()
		for live.Err() == nil {
			<-beat.C
			_, _ = w.Client.CoreV1().ConfigMaps("default").Create(live, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "alive-"}}, metav1.CreateOptions{})
		}
	}()
	w.made(w.cluster, "remembered")
	all, err := find(t.Context(), w.Client, w.provider.Inventory, w.cluster)
	w.must(err)
	eventually.True(t, "time has passed since it was made", func() bool { return time.Since(*all[0].Created) > 2*w.skew })
	end()
	<-alive
	w.must(w.Backup(filepath.Join(dir, "backup")))
	backup, uid := time.Now(), w.cluster.UID
	// It goes on: a Service comes, with its load balancer.
	_, err = w.Client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "forgotten"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	w.must(err)
	w.made(w.cluster, "forgotten")
	if out, stderr, code := w.run(""); code != 0 || strings.Contains(out, "forgotten") || !strings.Contains(out, "remembered") {
		t.Errorf("before: exit code %d: %s%s", code, out, stderr)
	}
	stop()
	eventually.True(t, "the backup is older than the rule's gap", func() bool { return time.Since(backup) > w.gap+w.skew })
	defer start("backup")()
	if w.cluster.UID != uid {
		t.Fatalf("cluster %s was restored as %s: the test checks nothing", uid, w.cluster.UID)
	}
	out, stderr, code := w.run("", "--delete", "--yes")
	if left := strings.Join(w.names(), " "); code != 1 || left != prefix+"forgotten" || !strings.Contains(stderr, "it looks restored from a backup") {
		t.Errorf("exit code %d, left %q: %s%s", code, left, out, stderr)
	}
}
