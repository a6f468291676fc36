//go:build e2e

// Package e2e runs the conformance suite in an account of AWS, or at an emulator of it that others wrote.
package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws/account"
)

// TestConformance runs the suite in whatever account the environment leads to.
func TestConformance(t *testing.T) {
	for _, kind := range []aws.Kind{aws.Network, aws.Classic} {
		t.Run(string(kind), func(t *testing.T) { conforms(t, kind) })
	}
}

func conforms(t *testing.T, kind aws.Kind) {
	w, err := account.New(t.Context(), kind, t.TempDir())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if w == nil {
			return
		}
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	results := cloudtest.Run(t, w.Setup())
	t.Logf("\n%s", results.Marshal())
}
