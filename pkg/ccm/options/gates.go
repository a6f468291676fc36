package options

import (
	"fmt"
	"maps"
	"strconv"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/controller-manager/pkg/features/register" // the framework's controllers look their gates up there
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// loggingGates are the gates of component-base's logging, which its flags name, set as --feature-gates says.
func (o *Options) loggingGates() (featuregate.MutableVersionedFeatureGate, error) {
	gates := featuregate.NewFeatureGate()
	if err := logsapi.AddFeatureGates(gates); err != nil {
		return nil, fmt.Errorf("feature gates of logging: %w", err)
	}
	set := map[string]bool{}
	for name, value := range o.FeatureGates {
		if _, ok := gates.GetAll()[featuregate.Feature(name)]; ok {
			on, err := strconv.ParseBool(value)
			set[name] = on && err == nil // an error is checkFeatureGates'
		}
	}
	if err := gates.SetFromMap(set); err != nil {
		return nil, fmt.Errorf("--feature-gates: %w", err)
	}
	return gates, nil
}

// checkLogging checks the options of logging with its gates.
func (o *Options) checkLogging() []error {
	gates, err := o.loggingGates()
	if err != nil {
		return []error{err}
	}
	var errs []error
	for _, err := range logsapi.Validate(o.Logging, gates, nil) {
		errs = append(errs, fmt.Errorf("--logging-format and its options: %w", err))
	}
	return errs
}

// ApplyLogging makes the process log as the options say, which are validated.
func (o *Options) ApplyLogging() error {
	gates, err := o.loggingGates()
	if err != nil {
		return err
	}
	return logsapi.ValidateAndApply(o.Logging, gates)
}

func (o *Options) checkFeatureGates() []error {
	var errs []error
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	ofLogging, err := o.loggingGates()
	if err != nil {
		return []error{err}
	}
	maps.Copy(all, ofLogging.GetAll())
	var known []string
	for name := range all {
		known = append(known, string(name))
	}
	for name, value := range o.FeatureGates {
		if _, ok := all[featuregate.Feature(name)]; !ok {
			hint := "only gates of k8s.io/cloud-provider and of logging are known"
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

// SayFeatureGates logs the gates that are set and not of logging. None has an effect any more: that of the
// route controller, CloudControllerManagerWatchBasedRoutesReconciliation, is for the framework's,
// and ours always watches Nodes.
func (o *Options) SayFeatureGates(logger klog.Logger) {
	framework := utilfeature.DefaultMutableFeatureGate.GetAll()
	for name := range o.FeatureGates {
		if _, ok := framework[featuregate.Feature(name)]; ok {
			logger.Info("Feature gate has no effect here", "gate", name)
		}
	}
}
