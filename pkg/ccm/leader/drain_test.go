package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// What needs no lease ends in its own time, bounded; what never started is not waited for.
func TestAwaitDrained(t *testing.T) {
	for name, tt := range map[string]struct{ takes, want time.Duration }{
		"in time":  {4 * time.Second, 4 * time.Second},
		"too long": {time.Hour, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				d := NewDraining(manager.RunnableFunc(func(ctx context.Context) error {
					<-ctx.Done()
					<-time.After(tt.takes)
					return errors.New("ended")
				}))
				go func() {
					if err := d.Start(ctx); err == nil || err.Error() != "ended" {
						t.Errorf("Start returned %v", err)
					}
				}()
				synctest.Wait()
				cancel()
				began := time.Now()
				AwaitDrained(ctx, []*Draining{NewDraining(nil), d}, 30*time.Second)
				if took := time.Since(began); took != tt.want {
					t.Errorf("waited %s, want %s", took, tt.want)
				}
				<-d.ended
			})
		})
	}
}

func TestNeedsLease(t *testing.T) {
	run := func(context.Context) error { return nil }
	for _, tt := range []struct {
		r    manager.Runnable
		want bool
	}{{manager.RunnableFunc(run), true}, {EveryReplica{run}, false}, {NewDraining(nil), false}} {
		if got := NeedsLease(tt.r); got != tt.want {
			t.Errorf("%T: %v", tt.r, got)
		}
	}
}
