package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// load creates PersistentVolumes at a steady rate, whether or not the earlier ones have been
// answered, as many users do.
type load struct {
	t      testing.TB
	client *kubernetes.Clientset
	prefix string
	pace   pace
	ids    []string
	warned *warnings
	begun  time.Time

	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	created []created
	now     int // in flight
	most    int // in flight at a time, ever
}

// created is one creation.
type created struct {
	pv   *corev1.PersistentVolume // what was answered
	err  error
	at   time.Duration // after the load's begin
	took time.Duration
}

// warnings counts admission warnings by text.
type warnings struct {
	mu    sync.Mutex
	texts map[string]int
}

var _ rest.WarningHandler = (*warnings)(nil)

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts[text]++
}

// pace is how fast a load goes.
type pace struct {
	perSecond int
	total     int // 0: until it is stopped
	inFlight  int // so many at a time, if that makes it slower; 0: however many
}

// load starts the creation of PersistentVolumes of these volumes in turn.
func (c *cluster) load(prefix string, p pace, ids []string) *load {
	c.t.Helper()
	l := &load{t: c.t, prefix: prefix, pace: p, ids: ids, warned: &warnings{texts: map[string]int{}}, begun: time.Now()}
	cfg := rest.CopyConfig(c.plane.Config)
	cfg.WarningHandler, cfg.Timeout = l.warned, 2*time.Minute // more than any webhook may take
	var err error
	if l.client, err = kubernetes.NewForConfig(cfg); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.wg.Go(func() { l.run(ctx) })
	c.t.Cleanup(func() { l.stop() })
	return l
}

func (l *load) run(ctx context.Context) {
	period := time.Second / time.Duration(l.pace.perSecond)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	slots := make(chan struct{}, cmp.Or(l.pace.inFlight, 100_000))
	for n := 0; l.pace.total == 0 || n < l.pace.total; n++ {
		// By the clock, not by ticks: a busy machine drops ticks.
		for time.Since(l.begun) < time.Duration(n)*period {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		l.wg.Go(func() {
			l.create(context.WithoutCancel(ctx), n)
			<-slots
		})
	}
}

func (l *load) create(ctx context.Context, n int) {
	l.mu.Lock()
	l.now++
	l.most = max(l.most, l.now)
	l.mu.Unlock()
	start := time.Now()
	pv, err := l.client.CoreV1().PersistentVolumes().Create(ctx, static(fmt.Sprintf("%s-%d", l.prefix, n), l.ids[n%len(l.ids)]), metav1.CreateOptions{})
	end := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now--
	l.created = append(l.created, created{pv, err, start.Sub(l.begun), end.Sub(start)})
}

// done waits until all creations up to the limit are answered.
func (l *load) done() []created {
	l.wg.Wait()
	return l.stop()
}

// stop ends the load and returns all creations when they are answered.
func (l *load) stop() []created {
	l.cancel()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.created)
}

// answered is how many creations have an answer by now.
func (l *load) answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.created)
}

// mustAllBeLabeled fails the test for each creation that failed or got no labels.
func mustAllBeLabeled(t testing.TB, all []created) {
	t.Helper()
	failed := 0
	for _, c := range all {
		problem := ""
		if c.err != nil {
			problem = c.err.Error()
		} else {
			problem = labeled(c.pv)
		}
		if problem == "" {
			continue
		}
		if failed++; failed <= 10 {
			t.Errorf("creation after %s, which took %s: %s", c.at.Round(time.Millisecond), c.took.Round(time.Millisecond), problem)
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d creations failed", failed, len(all))
	}
}

// quantile is the time within which the share q of all creations was answered.
func quantile(all []created, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	took := make([]time.Duration, len(all))
	for i, c := range all {
		took[i] = c.took
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(q*float64(len(took))))]
}
