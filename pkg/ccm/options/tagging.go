package options

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// tagInstances is the value of --resources: what can be tagged.
const tagInstances = "instance"

// Tagging are the settings of the tagging controller, by the names that AWS' existing manager has for them.
type Tagging struct {
	// Tags are --tags, Resources --resources.
	Tags      map[string]string
	Resources []string
}

func (t *Tagging) addFlags(fs *pflag.FlagSet) {
	fs.StringToStringVar(&t.Tags, "tags", t.Tags, "Tags that the nodes' instances get in the cloud, as key=value, comma-separated. Required where --controllers names "+TaggingController+".")
	fs.StringArrayVar(&t.Resources, "resources", t.Resources, "What gets the tags; only "+tagInstances+". Required where --controllers names "+TaggingController+".")
}

// TaggingEnabled reports whether instances are tagged.
func (o *Options) TaggingEnabled() bool {
	return slices.Contains(o.EnabledControllers(), TaggingController)
}

// checkTagging checks what the controller needs, where it is on.
func (o *Options) checkTagging() []error {
	if !o.TaggingEnabled() {
		return nil
	}
	var errs []error
	if len(o.Tagging.Tags) == 0 {
		errs = append(errs, fmt.Errorf("--controllers names %s, which requires --tags, such as --tags=team=blue", TaggingController))
	}
	if len(o.Tagging.Resources) == 0 {
		errs = append(errs, fmt.Errorf("--controllers names %s, which requires --resources=%s", TaggingController, tagInstances))
	}
	for _, r := range o.Tagging.Resources {
		if r != tagInstances {
			errs = append(errs, fmt.Errorf("--resources: %.40q cannot be tagged, only %s", r, tagInstances))
		}
	}
	if _, ok := o.Tagging.Tags[""]; ok {
		errs = append(errs, errors.New("--tags: a key is empty"))
	}
	return errs
}

// ExplainTagging says which flags have no effect.
func (o *Options) ExplainTagging(logger klog.Logger) {
	if !o.TaggingEnabled() && len(o.Tagging.Tags)+len(o.Tagging.Resources) > 0 {
		logger.Info("--tags and --resources have no effect: --controllers does not name " + TaggingController)
	}
}
