package ccm

import (
	"context"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/tagging"
)

// taggingController makes the controller and returns what runs it, nil where the cloud tags no instances.
func (l *leaderControllers) taggingController(ctx context.Context, client kubernetes.Interface) func() {
	p := l.provider
	if p.InstanceTags == nil {
		klog.FromContext(ctx).Info("Instances are not tagged: the cloud has no tags for them, or none that are set here", "controller", options.TaggingController)
		return nil
	}
	c := tagging.New(tagging.Config{
		Client: client, Nodes: l.informers.Core().V1().Nodes(), Instances: p.InstanceTags, Label: p.TagsLabel, Owns: p.Owns, Newborn: p.Newborn,
		Tags: l.opts.Tagging.Tags, Clock: clock.RealClock{},
	})
	return l.instrumented(ctx, options.TaggingController, options.TaggingController, c.Run, func() {})
}
