package controlplane

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Pool has as many control planes as tests of a package have run side by side; each belongs to one
// test at a time, which leaves it as it was. A P is a *ControlPlane, or one with what belongs to it.
type Pool[P interface{ Stop() error }] struct {
	// New starts one more.
	New func() (P, error)
	// After, if it is there, looks at all of them when every test of the package has run, and has passed.
	After func(all []P) error

	mu        sync.Mutex
	all, free []P
}

// Take returns a control plane that is t's until t and the cleanups that it registers from now on have ended.
func (s *Pool[P]) Take(t testing.TB) P {
	t.Helper()
	p, err := s.take()
	if err != nil {
		t.Fatalf("control plane: %v", err)
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free = append(s.free, p)
	})
	return p
}

func (s *Pool[P]) take() (P, error) {
	s.mu.Lock()
	if n := len(s.free); n > 0 {
		defer s.mu.Unlock()
		p := s.free[n-1]
		s.free = s.free[:n-1]
		return p, nil
	}
	s.mu.Unlock()
	p, err := s.New()
	if err != nil {
		return p, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, p)
	return p, nil
}

// Spacious has the control planes that are started from now on, and all other processes, take more memory and a fifth less time: they
// collect garbage less often. It is for TestMain of packages whose tests mostly wait for the API.
func Spacious() {
	if err := os.Setenv("GOGC", "300"); err != nil {
		panic(err)
	}
}

// Run is for TestMain: it runs the tests, parallel of them side by side unless -test.parallel says
// otherwise, without what the code under test logs unless *logs is set by then, stops the control
// planes and returns the code to end with.
func (s *Pool[P]) Run(m *testing.M, parallel int, logs *bool) int {
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err)
	}
	flag.Parse()
	if !*logs {
		Silence()
	}
	ctrl.SetLogger(klog.Background())
	code := m.Run()
	if whole() && code == 0 && s.After != nil {
		if err := s.After(s.all); err != nil {
			fmt.Fprintln(os.Stderr, "after all tests:", err)
			code = 1
		}
	}
	errs := make([]error, len(s.all))
	var wg sync.WaitGroup
	for i, p := range s.all {
		wg.Go(func() { errs[i] = p.Stop() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "stop the control planes:", err)
		return max(code, 1)
	}
	return code
}

// whole reports whether all tests were asked for.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f == nil || f.Value.String() != "" {
			return false
		}
	}
	return true
}
