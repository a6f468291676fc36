package nodes

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestCallsEndWithTheTerm(t *testing.T) {
	defer goleak.VerifyNone(t)
	term, end := context.WithCancel(t.Context())
	c := newCalls(term)
	ctx, done, err := c.begin(context.WithoutCancel(t.Context())) // as the framework's own contexts
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	end()
	go func() {
		defer close(ended)
		c.end()
	}()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("a call goes on after the term")
	}
	if !errors.Is(context.Cause(ctx), errTermEnded) {
		t.Errorf("the call ends with %v", context.Cause(ctx))
	}
	select {
	case <-ended:
		t.Fatal("the term ends before the call has returned")
	case <-time.After(20 * time.Millisecond):
	}
	done()
	<-ended
	if _, _, err := c.begin(t.Context()); !errors.Is(err, errTermEnded) {
		t.Errorf("a call after the term: %v", err)
	}
}
