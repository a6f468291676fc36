//go:build e2e

package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/isthmus-cloud/isthmus/test/cluster"
)

// start starts a cluster with one worker besides the control plane, and keeps what programs wrote if t fails.
func start(t *testing.T) *cluster.Cluster {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if t.Failed() {
			keep := filepath.Join(os.Getenv("ISTHMUS_E2E_BIN"), "logs")
			err := errors.Join(os.RemoveAll(keep), os.CopyFS(keep, os.DirFS(filepath.Join(dir, "logs"))))
			machines, globErr := filepath.Glob(filepath.Join(dir, "machines/*"))
			for _, m := range machines {
				err = errors.Join(err, os.CopyFS(filepath.Join(keep, "pods", filepath.Base(m)), os.DirFS(filepath.Join(m, "var/log/pods"))))
			}
			err = errors.Join(err, globErr)
			t.Logf("what all programs wrote is kept in %s (%v)", keep, err)
		}
	})
	c, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, Workers: 1, Say: os.Stderr})
	if errors.Is(err, cluster.ErrKernel) && os.Getenv("E2E_CLUSTER_OPTIONAL") != "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n(E2E_CLUSTER_OPTIONAL=1 goes without these tests where the kernel is the reason)", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := c.Dump(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// eventually waits for check to be nil, at most for limit, which only a broken cluster needs.
func eventually(t *testing.T, what string, limit time.Duration, check func(context.Context) error) {
	t.Helper()
	begin := time.Now()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: not after %s: %v", what, limit, errors.Join(last, err))
	}
	t.Logf("%s (after %.1f s)", what, time.Since(begin).Seconds())
}

// must is for what has to succeed at once.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
