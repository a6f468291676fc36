package controlplane

import (
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

// Shared is one control plane for all tests of a package. It starts with the first test that
// needs it and stops after the last; the zero value is usable. Tests that run in parallel may
// share it.
type Shared struct {
	// Options are how it starts.
	Options Options

	once  sync.Once
	plane *ControlPlane
	err   error
}

// Plane returns the control plane; t fails if it does not start.
func (s *Shared) Plane(t testing.TB) *ControlPlane {
	t.Helper()
	s.once.Do(func() { s.plane, s.err = Run(s.Options) })
	if s.err != nil {
		t.Fatalf("control plane: %v", s.err)
	}
	return s.plane
}

// Main is TestMain of the package: it runs the tests, without what the code under test logs
// unless -v is given, stops the control plane and ends the process.
func (s *Shared) Main(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		Silence()
	}
	code := m.Run()
	if s.plane != nil {
		if err := s.plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Silence discards what this process logs with klog. It is to be called before anything logs.
func Silence() {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if err := fs.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"}); err != nil {
		panic(err)
	}
	klog.SetOutput(io.Discard)
}
