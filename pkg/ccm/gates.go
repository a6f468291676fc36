package ccm

import (
	"fmt"
	"strconv"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/controller-manager/pkg/features/register" // the framework's controllers look their gates up there
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

func checkFeatureGates(gates map[string]string) []error {
	var errs []error
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	var known []string
	for name := range all {
		known = append(known, string(name))
	}
	for name, value := range gates {
		if _, ok := all[featuregate.Feature(name)]; !ok {
			hint := "only gates of k8s.io/cloud-provider are known"
			if n := nearest.Of(name, known); n != "" {
				hint = "did you mean " + n + "?"
			}
			errs = append(errs, fmt.Errorf("--feature-gates: unknown gate %q: %s", name, hint))
		} else if _, err := strconv.ParseBool(value); err != nil {
			errs = append(errs, fmt.Errorf("--feature-gates: %s must be true or false, not %q", name, value))
		}
	}
	sortErrors(errs)
	return errs
}

// sayFeatureGates logs the gates that are set. None has an effect any more: that of the route
// controller, CloudControllerManagerWatchBasedRoutesReconciliation, is for the framework's,
// and ours always watches Nodes.
func (o *Options) sayFeatureGates(logger klog.Logger) {
	for name := range o.FeatureGates {
		logger.Info("Feature gate has no effect here", "gate", name)
	}
}
