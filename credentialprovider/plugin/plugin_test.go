package plugin

import (
	"testing"
	"time"
)

// Whoever is asked gets a third of --timeout.
func TestProvidersGetAThirdOfTheTime(t *testing.T) {
	for _, timeout := range []time.Duration{9 * time.Second, 30 * time.Second, 55 * time.Second} {
		if got := (Options{Timeout: timeout}).forProviders().Timeout; got <= 0 || got*3 > timeout {
			t.Errorf("each request may take %s of %s", got, timeout)
		}
	}
}
