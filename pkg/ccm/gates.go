package ccm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/controller-manager/pkg/features"
	_ "k8s.io/controller-manager/pkg/features/register" // the framework's controllers look their gates up there
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// ownGates are the framework's gates that have an effect here.
func ownGates() []featuregate.Feature {
	return []featuregate.Feature{features.CloudControllerManagerWatchBasedRoutesReconciliation}
}

func featureGateHelp() []string {
	var out []string
	for _, known := range utilfeature.DefaultFeatureGate.DeepCopy().KnownFeatures() {
		for _, own := range ownGates() {
			if strings.HasPrefix(known, string(own)+"=") {
				out = append(out, known)
			}
		}
	}
	return out
}

func checkFeatureGates(gates map[string]string) []error {
	var errs []error
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	var known []string
	for name := range all {
		known = append(known, string(name))
	}
	for name, value := range gates {
		if _, ok := all[featuregate.Feature(name)]; !ok {
			hint := "see --help for those that have an effect"
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

// applyFeatureGates sets the framework's gates, which are the process's.
func (o *Options) applyFeatureGates(logger klog.Logger) error {
	gates := map[string]bool{}
	for name, value := range o.FeatureGates {
		gates[name], _ = strconv.ParseBool(value) // Validate has seen it
		if !slices.Contains(ownGates(), featuregate.Feature(name)) {
			logger.Info("Feature gate has no effect here", "gate", name)
		}
	}
	if len(gates) == 0 {
		return nil
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	return nil
}
