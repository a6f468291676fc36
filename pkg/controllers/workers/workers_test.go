package workers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// A key whose work fails comes again, later each time; one that succeeds does not. The end
// waits for the work under way and begins nothing new.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		var tries []time.Duration // of the key that fails three times
		var slow time.Duration    // when the work that the end waits for was done
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Run(ctx, queue, 2, "will try again", func(_ context.Context, key string) error {
				switch key {
				case "failing":
					if tries = append(tries, time.Since(begin)); len(tries) <= 3 {
						return errors.New("not yet")
					}
				case "slow":
					time.Sleep(30 * time.Second)
					slow = time.Since(begin)
				case "late":
					t.Error("work began after the end")
				}
				return nil
			})
		}()
		queue.Add("failing")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}; len(tries) != len(want) || tries[1] != want[1] || tries[2] != want[2] || tries[3] != want[3] {
			t.Errorf("tries at %v, want %v", tries, want)
		}
		if n := queue.NumRequeues("failing"); n != 0 {
			t.Errorf("%d failures are remembered after the success", n)
		}
		queue.Add("slow")
		time.Sleep(time.Second)
		cancel()
		<-ended
		queue.Add("late")
		if want := 50 * time.Second; slow != want || time.Since(begin) != want {
			t.Errorf("the work was done at %s and Run ended at %s, want %s", slow, time.Since(begin), want)
		}
	})
}
