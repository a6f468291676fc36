package pvlabel

import (
	"context"
	"errors"
	"fmt"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// silentError is that the cloud has said nothing about a volume, neither good nor bad.
type silentError struct {
	volume string
	// cause says why, and what to do about it unless it passes by itself.
	cause  string
	passes bool
	err    error // nil for none
}

// Error implements error.
func (e *silentError) Error() string {
	if e.passes {
		return e.because("; try again later")
	}
	return e.because("")
}

func (e *silentError) because(next string) string {
	text := fmt.Sprintf("volume %q: %s%s", e.volume, e.cause, next)
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

// Unwrap returns the cloud's error.
func (e *silentError) Unwrap() error { return e.err }

// warning is for who creates the PersistentVolume all the same.
func (e *silentError) warning(name string) string {
	return fmt.Sprintf("persistentvolume %q is created without zone and region, which the persistentvolume-label-controller adds later if it runs: %s", name, e.because(""))
}

// explain says what a cloud's error means for who creates a PersistentVolume.
func explain(ctx context.Context, ref cloud.VolumeRef, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return &silentError{ref.ID, "the cloud did not answer in time, so its zone is unknown", true, err}
	}
	switch cloud.KindOf(err) {
	case cloud.KindNotFound:
		return fmt.Errorf("volume %q does not exist in the cloud; correct the volume's ID in the PersistentVolume's spec: %w", ref.ID, err)
	case cloud.KindDenied:
		return &silentError{ref.ID, "the cloud refused to show it to the cloud controller manager; check its credentials and their project", false, err}
	case cloud.KindThrottled:
		return &silentError{ref.ID, "the cloud takes no more requests for now", true, err}
	case cloud.KindInvalid, cloud.KindUnsupported, cloud.KindConflict:
		return fmt.Errorf("volume %q: %w", ref.ID, err)
	}
	return &silentError{ref.ID, "its zone could not be read from the cloud", true, err}
}
