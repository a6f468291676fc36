package cloud

import (
	"context"
	"time"
)

// Traffic stands before every request to a cloud: it throttles, measures, and notes in the log
// what changed the cloud. All methods may be called concurrently.
type Traffic interface {
	// Begin waits until r may go; end, which is not nil then, must be told what came of it. Where
	// it must not go soon the error is of KindThrottled and has the rest of the wait; it must keep
	// its kind and its chain.
	Begin(ctx context.Context, r Request) (end func(Outcome), err error)
}

// Request is one request to a cloud.
type Request struct {
	// Family is what the cloud throttles together at Place: Octavia of one region, "ec2/describe".
	// Others, and the same at another place, go on.
	Family, Place string
	// Op is what is asked, one of few: an HTTP method, the name of an operation.
	Op string
	// Object says of what, for the log: a URL's path, an ID. It must hold no secret.
	Object string
	// Mutates is true for what changes the cloud.
	Mutates bool
}

// Outcome is what came of a Request.
type Outcome struct {
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// Throttled says that it was refused for being one too many, RetryAfter for how long the cloud
	// asked to wait; 0 where it did not say.
	Throttled  bool
	RetryAfter time.Duration
	// RequestID is the cloud's own name of the request, by which its operators find it.
	RequestID string
}

// Begin is Traffic.Begin of a provider's options, also where they have none. Nothing begins once ctx has ended.
func (o Options) Begin(ctx context.Context, r Request) (end func(Outcome), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Traffic == nil {
		return func(Outcome) {}, nil
	}
	return o.Traffic.Begin(ctx, r)
}
