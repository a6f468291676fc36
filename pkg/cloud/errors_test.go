package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestKindOf(t *testing.T) {
	notFound := cloud.Errorf(cloud.KindNotFound, "server 1 is gone")
	tests := []struct {
		name string
		err  error
		want cloud.Kind
	}{
		{"nil", nil, cloud.KindUnknown},
		{"plain", errors.New("x"), cloud.KindUnknown},
		{"context", context.DeadlineExceeded, cloud.KindUnknown},
		{"direct", notFound, cloud.KindNotFound},
		{"wrapped", fmt.Errorf("instance of node n: %w", notFound), cloud.KindNotFound},
		{"outage", cloud.Errorf(cloud.KindUnavailable, "503"), cloud.KindUnavailable},
		{"changed meanwhile", fmt.Errorf("port p: %w", cloud.Errorf(cloud.KindStale, "412")), cloud.KindStale},
		{"outermost wins", cloud.Errorf(cloud.KindDenied, "whole project: %w", notFound), cloud.KindDenied},
		{"joined with another failure", errors.Join(notFound, errors.New("timeout")), cloud.KindUnknown},
		{"joined alone", errors.Join(notFound), cloud.KindUnknown},
		{"two wrapped", fmt.Errorf("%w and %w", notFound, errors.New("timeout")), cloud.KindUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := cloud.KindOf(tt.err); got != tt.want {
				t.Errorf("KindOf(%v) = %v, want %v", tt.err, got, tt.want)
			}
			for kind, is := range map[cloud.Kind]func(error) bool{
				cloud.KindNotFound: cloud.IsNotFound, cloud.KindUnavailable: cloud.IsUnavailable, cloud.KindStale: cloud.IsStale,
			} {
				if got, want := is(tt.err), tt.want == kind; got != want {
					t.Errorf("Is%v(%v) = %v, want %v", kind, tt.err, got, want)
				}
			}
			if got := cloud.IgnoreNotFound(tt.err); got != nil && tt.want == cloud.KindNotFound || tt.want != cloud.KindNotFound && got != tt.err { //nolint:errorlint // the very same
				t.Errorf("IgnoreNotFound(%v) = %v", tt.err, got)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	err := error(&cloud.Error{Kind: cloud.KindThrottled, Op: "list servers", RetryAfter: 2 * time.Second, Err: errors.New("429 Too Many Requests")})
	if got, want := fmt.Errorf("node n: %w", err).Error(), "node n: list servers: 429 Too Many Requests"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := cloud.RetryAfter(fmt.Errorf("node n: %w", err)); got != 2*time.Second {
		t.Errorf("RetryAfter = %v, want 2s", got)
	}
	for kind, want := range map[cloud.Kind]string{cloud.KindUnknown: "Unknown", cloud.KindRetryAfter: "RetryAfter", cloud.KindUnavailable: "Unavailable",
		cloud.KindStale: "Stale", cloud.KindQuota: "Quota", cloud.KindFailed: "Failed", -1: "Unknown", 99: "Unknown"} {
		if got := kind.String(); got != want {
			t.Errorf("Kind(%d).String() = %q, want %q", kind, got, want)
		}
	}
}

// What an error says beside its kind is found wherever it is wrapped, and nothing else is.
func TestWhatErrorsSay(t *testing.T) {
	inner := error(&cloud.Error{Kind: cloud.KindNotFound, Scope: "project-a", Progress: true, RetryAfter: time.Second, Err: errors.New("gone")})
	for name, tt := range map[string]struct {
		err      error
		scope    string
		progress bool
		wait     time.Duration
	}{
		"nil":             {},
		"plain":           {err: errors.New("x")},
		"without":         {err: cloud.Errorf(cloud.KindNotFound, "gone")},
		"direct":          {err: inner, scope: "project-a", progress: true, wait: time.Second},
		"wrapped":         {err: fmt.Errorf("node n: %w", inner), scope: "project-a", progress: true, wait: time.Second},
		"in another":      {err: cloud.Errorf(cloud.KindUnknown, "node n: %w", inner), scope: "project-a", progress: true},
		"joined, another": {err: errors.Join(inner, errors.New("timeout")), wait: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cloud.ScopeOf(tt.err); got != tt.scope {
				t.Errorf("scope %q, want %q", got, tt.scope)
			}
			if got := cloud.HasProgress(tt.err); got != tt.progress {
				t.Errorf("progress %t, want %t", got, tt.progress)
			}
			if got := cloud.RetryAfter(tt.err); got != tt.wait {
				t.Errorf("wait %v, want %v", got, tt.wait)
			}
		})
	}
}

func TestRequestIDIsThatOfTheCauseAndNotInTheText(t *testing.T) {
	err := fmt.Errorf("ensure: %w", &cloud.Error{Kind: cloud.KindRetryAfter, Err: &cloud.Error{RequestID: "req-1", Err: errors.New("503")}})
	if cloud.RequestIDOf(err) != "req-1" || err.Error() != "ensure: 503" || cloud.RequestIDOf(errors.New("x")) != "" {
		t.Errorf("%q of %v", cloud.RequestIDOf(err), err)
	}
}
