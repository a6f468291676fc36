package cloud

import (
	"context"
	"time"
)

// Traffic stands before every request to a cloud. What a cloud throttles is a family of
// requests at a place, as Octavia of one region; Nova there, and Octavia of another region, go
// on. All methods may be called concurrently.
type Traffic interface {
	// Admit returns nil when a request of the family may go to the place. While the cloud has
	// asked for patience there it waits, if that is short, and fails otherwise with
	// KindThrottled and the rest of the wait; such an error must keep its kind and its chain.
	Admit(ctx context.Context, family, place string) error
	// Refused takes note that a request was refused for being one too many, and for how long the
	// cloud asked to wait, 0 where it did not say.
	Refused(family, place string, wait time.Duration)
}
