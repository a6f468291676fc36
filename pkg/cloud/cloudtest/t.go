package cloudtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// T is what the check of one feature reports to. It stands between the check and testing.T,
// since the checks of declared-unsupported features are to fail.
type T struct {
	// Ctx ends with the test.
	Ctx context.Context //nolint:containedctx // as testing.T has it

	failures []string
	// spoiled are failures that hold whether or not the feature is supported.
	spoiled []string
	// told is what the provider has said against a wish: refusals and warnings.
	told       []string
	impossible string
	cleanups   []func()
}

// Errorf records a failure.
func (t *T) Errorf(format string, args ...any) {
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

// Fatalf records a failure and ends the check.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// spoil records a failure for which no lack of the cloud is an excuse.
func (t *T) spoil(format string, args ...any) {
	t.spoiled = append(t.spoiled, fmt.Sprintf(format, args...))
}

// tell records what the provider says against a wish.
func (t *T) tell(format string, args ...any) {
	t.told = append(t.told, fmt.Sprintf(format, args...))
}

// Impossible ends the check of a feature that this World gives no way to try. It must be
// declared unsupported.
func (t *T) Impossible(reason string) {
	t.impossible = reason
	runtime.Goexit()
}

// Must ends the check on an error of the World.
func (t *T) Must(err error) {
	if err != nil {
		t.spoil("the world: %v", err)
		runtime.Goexit()
	}
}

// Cleanup has fn run after the check, the last one first.
func (t *T) Cleanup(fn func()) { t.cleanups = append(t.cleanups, fn) }

// run runs a check and then its cleanups, each to its end.
func (t *T) run(check func(*T)) {
	guarded(func() { check(t) })
	for len(t.cleanups) > 0 {
		fn := t.cleanups[len(t.cleanups)-1]
		t.cleanups = slices.Delete(t.cleanups, len(t.cleanups)-1, len(t.cleanups))
		guarded(fn)
	}
}

// guarded runs fn where Goexit ends fn only.
func guarded(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

// must is T.Must for a function with a value.
func must[V any](t *T) func(V, error) V {
	return func(v V, err error) V {
		t.Must(err)
		return v
	}
}
