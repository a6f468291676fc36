package batcher

import (
	"context"
	"testing"
)

func TestCloseEndsWhatRunsAndWaitsForIt(t *testing.T) {
	w := NewWork()
	asker, leave := context.WithCancel(t.Context())
	begun, let, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ok := w.Start(asker, func(ctx context.Context) {
		defer close(ended)
		close(begun)
		<-ctx.Done()
		<-let // it takes a while to end
	})
	if !ok {
		t.Fatal("nothing is started")
	}
	<-begun
	leave() // it belongs to all who wait for it, so that goes on
	closed := make(chan struct{})
	go func() { w.Close(); close(closed) }()
	for w.Start(t.Context(), func(ctx context.Context) { <-ctx.Done() }) { // until it is being closed
	}
	select {
	case <-ended:
		t.Error("it has ended with its first asker")
	case <-closed:
		t.Error("close has not waited")
	default:
	}
	close(let)
	<-closed
	select {
	case <-ended:
	default:
		t.Error("close has returned before what ran has ended")
	}
}
