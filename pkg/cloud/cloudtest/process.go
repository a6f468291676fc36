package cloudtest

import (
	"context"
	"sync/atomic"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// process is one provider, as one run of the program has it.
type process struct {
	*cloud.Provider
	calls     atomic.Int64
	mutations atomic.Int64
	// crashAt is the number of the mutating call after whose answer crash is called.
	crashAt atomic.Int64
	crash   context.CancelFunc
	crashed atomic.Bool
}

const userAgent = "isthmus-conformance"

type newProvider func(cloud.Options) (*cloud.Provider, func(), error)

// start makes a provider that knows nothing of earlier ones.
func (x *suite) start(t *T) *process { return x.startAs(t, x.New) }

func (x *suite) startAs(t *T, make newProvider) *process {
	p := &process{}
	made, stop, err := make(cloud.Options{UserAgent: userAgent, Traffic: p})
	if err != nil {
		t.spoil("make the provider: %v", err)
		t.Fatalf("no provider")
	}
	if stop != nil {
		t.Cleanup(stop)
	}
	p.Provider = made
	return p
}

// Begin implements cloud.Traffic: it counts, and crashes after an answer.
func (p *process) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	return func(cloud.Outcome) {
		p.calls.Add(1)
		if r.Mutates && p.mutations.Add(1) == p.crashAt.Load() {
			p.crashed.Store(true)
			p.crash()
		}
	}, nil
}

// until runs op, which is cut off after the answer of its n-th mutating call as a crash of
// the process would: nothing that comes later is carried out. It reports whether there was
// an n-th call.
func (p *process) until(ctx context.Context, n int64, op func(context.Context) error) (bool, error) {
	ctx, p.crash = context.WithCancel(ctx)
	defer p.crash()
	p.crashAt.Store(p.mutations.Load() + n)
	err := op(ctx)
	return p.crashed.Load(), err
}
