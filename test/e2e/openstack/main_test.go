//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// built are the binaries that are tested, built as a release is, once for the package.
var built struct {
	sync.Once
	dir string
	err error
}

// binary returns the path of a command of cmd/.
func binary(t testing.TB, name string) string {
	t.Helper()
	built.Do(func() {
		defer progress("building the binaries")()
		if built.dir, built.err = os.MkdirTemp("", "isthmus-e2e-"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", built.dir, "../../../cmd/cloud-controller-manager", "../../../cmd/credential-provider", "../../../cmd/isthmus")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, name)
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	code := m.Run()
	if err := tearDown(); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
		code = 1
	}
	os.Exit(code)
}

// tearDown ends what the tests share, in so far as it was ever started.
func tearDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	errs := []error{stopControlPlane(), releaseServers()}
	if cloud := cloudOnce.cloud; cloud != nil {
		done := progress("removing the tests' project")
		errs = append(errs, cloud.removeProject(ctx))
		done()
	}
	if built.dir != "" {
		errs = append(errs, os.RemoveAll(built.dir))
	}
	return errors.Join(errs...)
}

// progress says every 5 s that what is still being worked on, until the returned func is
// called, which says how long it took when that was more than 2 s.
func progress(what string) func() {
	begin, stop, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				fmt.Printf("    … %s (%.0f s)\n", what, time.Since(begin).Seconds())
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
		if took := time.Since(begin); took > 2*time.Second {
			fmt.Printf("    %s: %.1f s\n", what, took.Seconds())
		}
	}
}
