package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/hack/plot"
	"github.com/isthmus-cloud/isthmus/hack/rig"
	"github.com/isthmus-cloud/isthmus/manifests"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// world is a cluster on a simulated OpenStack with the manager.
type world struct {
	*rig.Cluster
	*recording
	sim     *ossim.Sim
	process *rig.Process
	address string // where the manager serves
	servers []ossim.Server
	// services is how many were made.
	services int
	claimed  string // the ID of a volume
}

func newWorld(ctx context.Context, r *recording) (_ *world, err error) {
	w := &world{recording: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end())
		}
	}()
	if w.sim, err = ossim.Start(ossim.Options{Jobboard: true, OctaviaDelay: 2 * time.Second}); err != nil {
		return nil, err
	}
	w.sim.AddFault(ossim.Fault{Latency: 60 * time.Millisecond})
	w.claimed = w.sim.AddVolume("data", "az1").ID
	if w.Cluster, err = rig.StartCluster(ctx, rig.OurAccount, r.dir); err != nil {
		return nil, err
	}
	for _, read := range []func() ([]byte, error){manifests.RegistrationRBAC, manifests.SelfManagedRBAC} {
		rbac, err := read()
		if err == nil {
			err = w.Apply(ctx, rbac)
		}
		if err != nil {
			return nil, err
		}
	}
	return w, w.start()
}

// start starts the manager.
func (w *world) start() error {
	conf, kubeconfig := filepath.Join(w.dir, "cloud.conf"), filepath.Join(w.dir, "kubeconfig")
	if err := os.WriteFile(conf, []byte(w.sim.CloudConf()), 0o600); err != nil {
		return err
	}
	port, err := controlplane.FreePort("127.0.0.1")
	if err != nil {
		return err
	}
	webhooks, err := controlplane.FreePort("127.0.0.1")
	if err != nil {
		return err
	}
	w.address = "127.0.0.1:" + port
	w.process, err = rig.StartProcess(w.manager, filepath.Join(w.dir, "log"), nil, "--cloud-provider=openstack", "--cloud-config="+conf, "--kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port="+port, "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
		"--cluster-cidr=10.244.0.0/16", "--configure-cloud-routes=true", "--node-monitor-period=2s", "--webhooks=*", "--webhook-bind-address=127.0.0.1",
		"--webhook-secure-port="+webhooks, "--webhook-registration=auto", "--webhook-url=https://127.0.0.1:"+webhooks, "--webhook-cert-source=self-managed")
	return err
}

func (w *world) end() error {
	if w.process != nil {
		w.process.Stop()
	}
	var err error
	if w.Cluster != nil {
		err = w.End()
	}
	if w.sim != nil {
		w.sim.Close()
	}
	return err
}

// act is what happens from a time on, each period once.
type act struct {
	name   string // of a mark; none where it is ""
	from   time.Duration
	period time.Duration
	times  int
	do     func(ctx context.Context, i int) error
}

// Times of what goes wrong, and for how long, and the length of all.
const (
	down, throttled, overQuota, gone = 60 * time.Second, 95 * time.Second, 130 * time.Second, 165 * time.Second
	outage                           = 15 * time.Second
	length                           = 200 * time.Second
)

// acts are all. Letters are explained in docs/guides/monitoring.md.
func (w *world) acts() []act {
	fault := func(name string, from time.Duration, f ossim.Fault) []act {
		remove := func() {}
		return []act{
			{name, from, 0, 1, func(context.Context, int) error { remove = w.sim.AddFault(f); return nil }},
			{"", from + outage, 0, 1, func(context.Context, int) error { remove(); return nil }},
		}
	}
	out := []act{
		{"", 2 * time.Second, 3 * time.Second, 52, w.joins},
		{"", 10 * time.Second, 7 * time.Second, 22, func(ctx context.Context, _ int) error {
			w.services++
			return w.Publish(ctx, w.services-1, w.services)
		}},
		{"", 5 * time.Second, 500 * time.Millisecond, 380, w.admits},
		{"D", gone, 0, 1, func(ctx context.Context, _ int) error { return w.vanish(ctx) }},
	}
	out = append(out, fault("A", down, ossim.Fault{Service: "compute", Status: http.StatusServiceUnavailable})...)
	out = append(out, fault("B", throttled, ossim.Fault{Service: "compute", Status: http.StatusTooManyRequests, RetryAfter: 3 * time.Second})...)
	return append(out, fault("C", overQuota, ossim.Fault{Service: "load-balancer", Method: http.MethodPost, Path: "/lbaas/loadbalancers", Status: http.StatusForbidden,
		Body: `{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer", "debuginfo": null}`})...)
}

// play lets all happen, and returns the marks.
func (w *world) play(ctx context.Context) ([]plot.Mark, error) {
	acts := w.acts()
	done := make([]int, len(acts))
	progress := rig.NewProgress(w.out, "recording")
	var marks []plot.Mark
	err := rig.Wait{Every: 100 * time.Millisecond, Process: w.process, Progress: progress}.Until(ctx, func() (bool, string) {
		now := time.Since(w.begin)
		for i, a := range acts {
			if done[i] == a.times || now < a.from+time.Duration(done[i])*a.period {
				continue
			}
			if err := a.do(ctx, done[i]); err != nil {
				fmt.Fprintln(w.out, err)
			}
			if done[i]++; a.name != "" {
				marks = append(marks, plot.Mark{X: now.Seconds(), Name: a.name})
			}
		}
		return now >= length, now.Round(time.Second).String()
	})
	return marks, err
}

// joins has a machine come, with its Node.
func (w *world) joins(ctx context.Context, i int) error {
	servers := w.sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: fmt.Sprintf("node-%d-", i), Zones: []string{fmt.Sprintf("az%d", i%3+1)}})
	w.servers = append(w.servers, servers...)
	return w.Register(ctx, []rig.Machine{{Name: servers[0].Name, UUID: servers[0].ID}})
}

// admits has the webhook for PersistentVolumes asked.
func (w *world) admits(ctx context.Context, i int) error {
	_, err := w.Client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-%d", i)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: w.claimed}},
		},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// vanish deletes all servers, and all kubelets are silent.
func (w *world) vanish(ctx context.Context) error {
	for _, s := range w.servers {
		w.sim.DeleteServer(s.ID)
		if err := w.Unready(ctx, s.Name); err != nil {
			return err
		}
	}
	return nil
}
