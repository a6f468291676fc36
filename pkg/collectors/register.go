// Package collectors is what all that have Prometheus metrics share.
package collectors

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers *c with r; nil registers it nowhere. If r has an equal collector of the
// same type already, that one becomes *c: what is made several times in a process counts
// together. The error is that of a registry which has the name for something else.
func Register[C prometheus.Collector](r prometheus.Registerer, c *C) error {
	if r == nil {
		return nil
	}
	err := r.Register(*c)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if same, ok := there.ExistingCollector.(C); ok {
			*c, err = same, nil
		}
	}
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}
