package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

const (
	// cloudConnections is what three replicas may have open to the cloud: each has four batches
	// of volumes under way, of eight reads at a time, and a few for its controllers.
	cloudConnections = 3 * (4*8 + 4)
	// inHand is how many requests a replica takes at a time.
	inHand = 256
)

// usage is the most that was seen of what a replica uses.
type usage struct {
	goroutines, openFiles, cloudConnections, inFlight int
}

// watch samples the replicas and the cloud until the returned function is called, which returns
// the most that any of them has used.
func (c *cluster) watch(replicas []*replica) (stop func() usage) {
	ctx, cancel := context.WithCancel(context.Background())
	var peak usage
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, r := range replicas {
				if u, err := r.usage(ctx, c.sim); err == nil {
					peak = usage{max(peak.goroutines, u.goroutines), max(peak.openFiles, u.openFiles), max(peak.cloudConnections, u.cloudConnections), max(peak.inFlight, u.inFlight)}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	end := sync.OnceFunc(func() { cancel(); wg.Wait() })
	c.t.Cleanup(end)
	return func() usage { end(); return peak }
}

func (r *replica) usage(ctx context.Context, sim *ossim.Sim) (usage, error) {
	client := probeClient()
	defer client.CloseIdleConnections()
	body, err := r.get(ctx, client, "/metrics")
	if err != nil {
		return usage{}, err
	}
	return usage{
		goroutines: int(metricIn(body, "go_goroutines")), openFiles: int(metricIn(body, "process_open_fds")),
		inFlight: int(metricIn(body, "isthmus_webhook_requests_in_flight")), cloudConnections: sim.Connections(),
	}, nil
}

// A cloud that is slow or down, with up to 800 creations at a time: the API server gets an answer
// in time, with words that help, and nothing piles up, for however long it lasts: the slow one is
// asked for three times as long as a request may take. When the cloud is back, all is as before.
func TestCloudSlowOrDown(t *testing.T) {
	const timeout = 8 * time.Second
	for _, tt := range []struct {
		name  string
		fault ossim.Fault
		times float64  // how often as many creations as there are at a time
		words []string // one of them
	}{
		{"slow", ossim.Fault{Service: "volume", Latency: time.Minute}, 3, []string{"did not answer in time"}},
		{"down", ossim.Fault{Service: "volume", Status: http.StatusServiceUnavailable}, 0.5, []string{"its zone could not be read from the cloud", "did not answer in time"}},
		{"unreachable", ossim.Fault{Service: "volume", Reset: true}, 0.5, []string{"its zone could not be read from the cloud", "did not answer in time"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, a := newCluster(t), newAuthority(t)
			replicas, _, _ := c.startReplicas(3, a, admissionregistrationv1.Ignore, fmt.Sprintf("--webhook-timeout=%s", timeout))
			r := replicas[0]
			before, err := r.usage(t.Context(), c.sim)
			if err != nil {
				t.Fatal(err)
			}
			repair := c.sim.AddFault(tt.fault)
			peak := c.watch(replicas)
			c.mustTell(tt.words, func(atOnce int) *load {
				return c.load(fmt.Sprintf("%s-%d", tt.name, atOnce), pace{perSecond: atOnce / int(timeout.Seconds()), total: int(tt.times * float64(atOnce)), inFlight: atOnce}, c.volumes(500))
			})
			most := peak()
			t.Logf("before %+v, at most %+v, %d cloud requests", before, most, c.sim.Count("volume", ""))
			// As the replica sees it: a busy machine keeps the API server from asking it in time.
			for _, r := range replicas {
				const limit = 30 * time.Second // half of what the slow cloud takes
				if late := r.answeredAfter(limit); late > 0 {
					t.Errorf("%d answers of %s took longer than %s, with a timeout of %s", late, r.name, limit, timeout)
				}
			}
			// The metric counts those, too, that are just being read or refused.
			if most.inFlight > 2*inHand {
				t.Errorf("%d requests at a time, want little more than %d", most.inFlight, inHand)
			}
			// A connection of the API server and what net/http needs for it: for what is in hand, and
			// as much again for what is refused at once.
			if limit := before.goroutines + 2*3*inHand + 100; most.goroutines > limit {
				t.Errorf("%d goroutines for %d requests at a time, want at most %d", most.goroutines, most.inFlight, limit)
			}
			if limit := before.openFiles + 2*inHand + 100; most.openFiles > limit {
				t.Errorf("%d open files for %d requests at a time, want at most %d", most.openFiles, most.inFlight, limit)
			}
			if most.cloudConnections > cloudConnections {
				t.Errorf("%d connections to the cloud, want at most %d however many ask", most.cloudConnections, cloudConnections)
			}
			repair()
			c.waitCalled()
			eventually.Met(t, func() string {
				u, err := r.usage(t.Context(), c.sim)
				// The API server keeps 25 connections for later, the replica some to the cloud.
				if err != nil || u.inFlight > 0 || u.goroutines > before.goroutines+80 || u.openFiles > before.openFiles+50 || u.cloudConnections > cloudConnections {
					return fmt.Sprintf("after the cloud came back it uses %+v, %v; before %+v", u, err, before)
				}
				return ""
			})
		})
	}
}

// What the webhook server answers when it has its hands full: a refusal, or a warning where the
// failure policy is Ignore.
const busy, busyWarning = "takes no more until some are answered", "requests in hand: the cloud may be slow"

// mustTell fails the test unless all creations of a load are told why they have no labels: of
// one with 800 at a time or, where the machine is too busy for the API server to ask and hear all
// of them in time, with half as many, and so on.
func (c *cluster) mustTell(words []string, start func(atOnce int) *load) {
	c.t.Helper()
	for atOnce := 800; ; atOnce /= 2 {
		l := start(atOnce)
		all := l.done()
		count, problem := l.told(words)
		c.t.Logf("%d creations, %d at a time: p50 %s, p99 %s, max %s: %v", len(all), atOnce, quantile(all, .5), quantile(all, .99), quantile(all, 1), count)
		if problem == "" {
			return
		}
		if atOnce <= 50 {
			c.t.Fatal(problem)
		}
		c.t.Logf("with %d at a time, %s", atOnce, problem)
	}
}

// told counts how the creations ended, and says what is wrong unless each was refused with one
// of words, or allowed with a warning that has one of them, or went its way because the server
// has its hands full.
func (l *load) told(words []string) (count map[string]int, problem string) {
	count = map[string]int{}
	told := func(text string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	for _, c := range l.stop() {
		switch {
		case c.err == nil:
			count["allowed"]++
		case told(c.err.Error()):
			count["refused"]++
		case strings.Contains(c.err.Error(), busy):
			count["refused as busy"]++
		default:
			count["refused without the reason"]++
			problem = fmt.Sprintf("one was refused without %q: %v", words, c.err)
		}
	}
	for text, n := range l.warned.texts {
		if told(text) || strings.Contains(text, busyWarning) {
			count["allowed with a warning"] += n
		} else {
			count["other warnings"] += n
			problem = fmt.Sprintf("there was a warning without %q: %s", words, text)
		}
	}
	// A few may time out before the server sees them, when the machine is busy.
	if silent := count["allowed"] - count["allowed with a warning"]; silent > len(l.created)/20 {
		problem = fmt.Sprintf("%d were allowed without a warning", silent)
	}
	return count, problem
}

// answeredAfter is how many requests r took longer than d to answer; d must be one of the
// histogram's buckets.
func (r *replica) answeredAfter(d time.Duration) int {
	r.t.Helper()
	client := probeClient()
	defer client.CloseIdleConnections()
	body, err := r.get(r.t.Context(), client, "/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	const name = "isthmus_webhook_request_duration_seconds"
	total, within := int(metricIn(body, name+"_count")), 0
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, name+"_bucket") && strings.Contains(line, fmt.Sprintf(`le="%g"`, d.Seconds())) {
			within += int(metricIn(line, name+"_bucket"))
		}
	}
	if total == 0 || within == 0 {
		r.t.Fatalf("%s counts %d answers, %d within %s: the metric has changed", r.name, total, within, d)
	}
	return total - within
}
