package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cluster"
)

// whole is a whole cluster with what ships.
type whole struct {
	dir     string
	cluster *cluster.Cluster // nil until it is started
	url     cluster.Hello    // of the pods that answer
}

// playCluster starts a whole cluster, installs what ships into it and stays until ctx ends, unless exit is set.
// It runs in the namespaces of hack/sandbox.
func playCluster(ctx context.Context, exit bool) error {
	w := &whole{dir: filepath.Join(os.TempDir(), "cluster")} // in the sandbox alone, where its enter.sh looks for the kubeconfig
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		return err
	}
	defer func() { //nolint:contextcheck // it cleans up when ctx has ended
		fmt.Println("\ncleaning up …")
		if w.cluster != nil {
			if err := w.cluster.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "quickstart: clean up:", err)
			}
		}
	}()
	for _, s := range w.steps() {
		begin, done := time.Now(), progress(s.title)
		seen, err := s.run(ctx)
		done()
		if err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		if _, err := fmt.Printf("✓ %-52s %5.1f s  %s\n", s.title, time.Since(begin).Seconds(), seen); err != nil {
			return err // nobody reads it any more
		}
	}
	if exit {
		return nil
	}
	fmt.Printf(`
Look around (as root, in another terminal in this folder):
  hack/sandbox/enter.sh kubectl get nodes,pods,services -A -o wide
  hack/sandbox/enter.sh curl -s %s
  hack/sandbox/enter.sh helm -n %s get values %s
  hack/sandbox/enter.sh          a shell there; what all programs write is in %s
────────────────────────────────────────
Ctrl-C ends everything and cleans up.
`, w.url, cluster.Namespace, cluster.Release, w.cluster.Logs())
	<-ctx.Done()
	return nil
}

func (w *whole) steps() []step {
	return []step{
		{"a simulated OpenStack, two machines with Kubernetes", func(ctx context.Context) (seen string, err error) {
			w.cluster, err = cluster.Start(ctx, cluster.Options{Dir: w.dir, Workers: 1})
			if err == nil {
				seen = fmt.Sprint("control plane ", w.cluster.Machines[0].Address, ", worker ", w.cluster.Machines[1].Address)
			}
			return seen, err
		}},
		{"the image in a private registry", func(ctx context.Context) (string, error) { return w.cluster.PushManager(ctx) }},
		{"the chart, installed with Helm", func(ctx context.Context) (string, error) {
			return "release " + cluster.Release + " in namespace " + cluster.Namespace, w.cluster.Install(ctx)
		}},
		{"the Nodes are initialized and ready", func(ctx context.Context) (string, error) {
			return "", eventually(ctx, func(ctx context.Context) error {
				for _, m := range w.cluster.Machines {
					if err := w.cluster.Ready(ctx, m.Name); err != nil {
						return err
					}
				}
				return nil
			})
		}},
		{"pods answer through a load balancer", w.answers},
	}
}

// answers starts pods that answer, and asks them from outside.
func (w *whole) answers(ctx context.Context) (seen string, err error) {
	if err := w.cluster.StartHello(ctx); err != nil {
		return "", err
	}
	err = eventually(ctx, func(ctx context.Context) (err error) {
		if w.url, err = w.cluster.HelloURL(ctx); err != nil {
			return err
		}
		pod, err := w.url.Ask(ctx)
		seen = fmt.Sprintf("GET %s → %s", w.url, pod)
		return err
	})
	return seen, err
}
