package cloudtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// suite is what the checks share.
type suite struct {
	Setup
	cluster cloud.Cluster
	// nodes are instances that no check changes.
	nodes []Instance
	// before is Everything at the start.
	before []string
	// ports is how many node ports were given.
	ports atomic.Int32
}

// nodeCount is how many instances the suite makes for itself.
const nodeCount = 3

// Run checks a cloud. It returns what it has found of each feature; some are missing only
// when the test's name pattern left them out.
func Run(t *testing.T, s Setup) Results {
	t.Helper()
	if err := s.complete(); err != nil {
		t.Fatal(err)
	}
	x := &suite{Setup: s, cluster: newCluster()}
	ctx := t.Context()
	var err error
	if x.cluster.ID, err = x.identify(ctx); err != nil {
		t.Fatalf("identify the cluster: %v", err)
	}
	for i := range nodeCount {
		n, err := s.World.MakeInstance(ctx, fmt.Sprintf("%s-node-%d", x.cluster.Name, i))
		if err != nil {
			t.Fatalf("make instance %d: %v", i, err)
		}
		x.nodes = append(x.nodes, n)
	}
	if x.before, err = s.World.Everything(ctx); err != nil {
		t.Fatalf("list what there is: %v", err)
	}
	found := &collector{results: Results{}}
	t.Run("beside", func(t *testing.T) {
		for _, f := range features() {
			if !f.alone {
				t.Run(string(f.name), func(t *testing.T) {
					t.Parallel()
					found.add(f.name, x.try(t, f))
				})
			}
		}
	})
	t.Run("alone", func(t *testing.T) {
		for _, f := range features() {
			if f.alone {
				t.Run(string(f.name), func(t *testing.T) { found.add(f.name, x.try(t, f)) })
			}
		}
	})
	x.checkNothingNew(t)
	return found.results
}

// identify is the cluster's name in the cloud's marks, as the program asks for it once.
func (x *suite) identify(ctx context.Context) (string, error) {
	p, stop, err := x.New(cloud.Options{UserAgent: userAgent})
	if err != nil {
		return "", err
	}
	if stop != nil {
		defer stop()
	}
	if p.Identify == nil {
		return x.cluster.UID, nil
	}
	return p.Identify(ctx, x.cluster)
}

type collector struct {
	mu      sync.Mutex
	results Results
}

func (c *collector) add(f Feature, r Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results[f] = r
}

func newCluster() cloud.Cluster {
	id := uuid.NewString()
	return cloud.Cluster{Name: "conformance-" + id[:8], UID: id}
}

// try checks one feature and judges the outcome by what is declared.
func (x *suite) try(t *testing.T, f feature) Result {
	t.Helper()
	ct := &T{Ctx: t.Context()}
	ct.run(func(ct *T) { f.check(ct, x) })
	reason, declared := x.Unsupported[f.name]
	problems, note := judge(ct, f, reason, declared)
	for _, p := range problems {
		t.Error(p)
	}
	if note != "" {
		t.Log(note)
	}
	return measured(ct, reason)
}

// measured is what a check has found, whatever is declared.
func measured(ct *T, reason string) Result {
	if ct.impossible == "" && len(ct.failures)+len(ct.spoiled) == 0 {
		return Result{Supported: true}
	}
	return Result{Reason: reason}
}

// judge says what is wrong with the outcome of a check, and otherwise what is worth a note.
func judge(ct *T, f feature, reason string, declared bool) (problems []string, note string) {
	problems = slices.Clone(ct.spoiled)
	all := strings.Join(ct.failures, "\n")
	switch {
	case ct.impossible != "" && !declared:
		problems = append(problems, fmt.Sprintf("there is no way to try it here (%s): declare it unsupported", ct.impossible))
	case ct.impossible != "":
		note = "not tried: " + ct.impossible
	case !declared:
		problems = append(problems, ct.failures...)
	case len(ct.failures) == 0 && len(ct.spoiled) == 0:
		problems = append(problems, fmt.Sprintf("it is declared unsupported (%s), but it works", reason))
	case !f.silent && len(ct.told) == 0:
		problems = append(problems, "it is unsupported, but the provider neither refuses it nor warns:\n"+all)
	default:
		note = fmt.Sprintf("unsupported as declared (%s): %s\n%s", reason, strings.Join(ct.told, "\n"), all)
	}
	return problems, note
}

// checkNothingNew fails for what the suite has left in the cloud.
func (x *suite) checkNothingNew(t *testing.T) {
	t.Helper()
	var extra []string
	err := x.eventually(t.Context(), func(ctx context.Context) (bool, error) {
		now, err := x.World.Everything(ctx)
		extra = slices.DeleteFunc(now, func(s string) bool { return slices.Contains(x.before, s) })
		return len(extra) == 0, err
	})
	if err != nil {
		t.Errorf("after all features the cloud holds more than before (%v):\n%s", err, strings.Join(extra, "\n"))
	}
}

// eventually asks until the answer is yes, at most as long as Patience.
func (x *suite) eventually(ctx context.Context, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, x.Patience)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ok, err := done(ctx)
		if err != nil || ok {
			return err
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
