package aws

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
)

// promised is what an error says to wait by which somebody is told when to come back: longer than any other, and never waited for.
const promised = 24 * time.Hour

// term is the load balancers of one process, from its start to its end, on a clock of the test's.
type term struct {
	*loadBalancers
	t     *testing.T
	clock apitest.Clock

	mu sync.Mutex
	// told has an element for a Service that is to be seen to again, by its UID.
	told map[string]chan struct{}
}

func newTerm(t *testing.T, c *apitest.Cloud, conf string, o cloud.Options) *term {
	t.Helper()
	m := &term{t: t, told: map[string]chan struct{}{}}
	client, cfg := c.Client(conf, o)
	pace := await.DefaultPace()
	pace.First, pace.Gap, pace.Retry = 10*time.Millisecond, 100*time.Millisecond, promised
	m.loadBalancers = newLoadBalancers(client, &cfg.Global, newIdentity(client, &cfg.Global).cluster,
		timing{joint: joint.Options{Quiet: 50 * time.Millisecond, Retry: promised, Clock: &m.clock}, pace: pace})
	m.Attach(t.Context(), func(ref cloud.LoadBalancerRef) {
		select {
		case m.toldOf(ref.UID) <- struct{}{}:
		default:
		}
	})
	return m
}

func (m *term) toldOf(uid string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told[uid] == nil {
		m.told[uid] = make(chan struct{}, 1)
	}
	return m.told[uid]
}

// do does what the service controller does for a Service: op again and again, when it is told to or when the time has passed that op
// asked for. A wake-up that never comes fails the test.
func (m *term) do(ctx context.Context, spec *cloud.LoadBalancerSpec, op func(context.Context, *cloud.LoadBalancerSpec) error) error {
	m.t.Helper()
	for {
		err := op(ctx, spec)
		switch wait := cloud.RetryAfter(err); {
		case cloud.KindOf(err) != cloud.KindRetryAfter:
			return err
		case wait < promised:
			m.clock.Pass(wait)
			continue
		}
		select {
		case <-m.toldOf(spec.UID):
		case <-time.After(time.Minute): // so long does nothing take here
			m.t.Errorf("nobody said when to see to %s again: %v", spec.Name, err)
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ensure is Ensure, with what it publishes.
func (m *term) ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	status, err := m.Ensure(ctx, spec)
	if err == nil {
		spec.CurrentIngress = status.Ingress
	}
	return err
}
