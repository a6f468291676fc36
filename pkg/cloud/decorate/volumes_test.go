package decorate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
)

// TestVolumesOfSlowCloud: 200 questions a second to a cloud that does not answer, each given
// up after ten seconds, keep no more than volumeReads reads busy, and leave nothing behind.
func TestVolumesOfSlowCloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeVolumes{latency: time.Hour}
		d := decorated(t, cloud.Provider{Volumes: f}, caller.Options{})
		var askers sync.WaitGroup
		most, stacks := 0, make([]byte, 16<<20)
		reading := func() int { return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "]).run(") }
		for k := range 200 * 30 {
			askers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				r := d.Volumes.Find(ctx, []cloud.VolumeRef{{ID: fmt.Sprintf("v%d", k)}})
				if !errors.Is(r[0].Err, context.DeadlineExceeded) {
					t.Errorf("volume %d: got %v", k, r[0])
				}
			})
			time.Sleep(5 * time.Millisecond)
			if k%100 == 0 {
				most = max(most, reading())
			}
		}
		askers.Wait()
		synctest.Wait()
		if f.peak > volumeReads || most > volumeReads+2 {
			t.Errorf("%d reads at a time and %d goroutines, want at most %d and 2 more", f.peak, most, volumeReads)
		}
		if left := reading(); most == 0 || f.active != 0 || left != 0 {
			t.Errorf("%d goroutines at most, left behind: %d reads, %d goroutines", most, f.active, left)
		}
		f.latency = 0
		if r := d.Volumes.Find(t.Context(), []cloud.VolumeRef{{ID: "v"}}); !cloud.IsNotFound(r[0].Err) {
			t.Errorf("after the cloud has come back: got %v", r[0])
		}
	})
}

// TestVolumesReadOutlivesOneAsker: who gives up does not end the read of the others, and what
// only he wanted is not asked for when it has not begun.
func TestVolumesReadOutlivesOneAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeVolumes{latency: time.Second, have: map[string]bool{"kept": true}}
		d := decorated(t, cloud.Provider{Volumes: f}, caller.Options{})
		var askers sync.WaitGroup
		for _, early := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			askers.Go(func() {
				if r := d.Volumes.Find(ctx, []cloud.VolumeRef{{ID: "given-up"}, {ID: "kept"}}); r[0].Err == nil || cloud.IsNotFound(r[0].Err) {
					t.Errorf("who gave up got %v", r[0])
				}
			})
			askers.Go(func() {
				if r := d.Volumes.Find(t.Context(), []cloud.VolumeRef{{ID: "kept"}}); r[0].Err != nil {
					t.Errorf("who waited got %v", r[0])
				}
			})
			wait, wanted := volumesWindow/2, 1
			if !early {
				wait, wanted = volumesWindow*2, 2
			}
			time.Sleep(wait)
			cancel()
			askers.Wait()
			if last := f.finds[len(f.finds)-1]; len(last) != wanted {
				t.Errorf("given up early %v: asked for %v, want %d volumes", early, last, wanted)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		before := len(f.finds)
		if r := d.Volumes.Find(ctx, []cloud.VolumeRef{{ID: "kept"}}); r[0].Err == nil {
			t.Errorf("asked in vain: got %v", r[0])
		}
		time.Sleep(time.Minute)
		if len(f.finds) != before {
			t.Error("the cloud was asked for somebody who had gone before")
		}
	})
}
