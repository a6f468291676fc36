package ccm

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/pvlabel"
)

// labelsVolumes reports whether the controller has something to do.
func (o *Options) labelsVolumes(p *decorate.Provider) bool {
	return p.Volumes != nil && len(p.Volumes.Sources()) > 0 && slices.Contains(o.enabledControllers(), PersistentVolumeLabelController)
}

// backlogRate is how many times faster than others this controller may write: what was created
// during an outage comes at once, and each is written once in its life. So may its events.
const backlogRate = 5

// pvLabelController makes the controller, nil where there is nothing for it to do.
func (t *term) pvLabelController(ctx context.Context) (func(), error) {
	if !t.opts.labelsVolumes(t.provider) {
		klog.FromContext(ctx).Info("PersistentVolumes are left alone: the cloud, or its configuration, has no zones for volumes", "controller", PersistentVolumeLabelController)
		return nil, nil
	}
	m, err := pvlabel.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	config := named(t.config, PersistentVolumeLabelController)
	config.QPS, config.Burst = config.QPS*backlogRate, config.Burst*backlogRate
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	events, err := kubernetes.NewForConfig(config) // its rate limit is another
	if err != nil {
		return nil, err
	}
	core := t.informers.Core().V1()
	recorder, shutdown := t.recorderTo(ctx, PersistentVolumeLabelController, events)
	c := pvlabel.New(pvlabel.Config{
		Volumes: t.provider.Volumes, Client: client, PersistentVolumes: core.PersistentVolumes(), Nodes: core.Nodes(),
		Recorder: recorder, Metrics: m, Clock: clock.RealClock{},
	})
	run := func(ctx context.Context) error {
		if t.topology != nil {
			t.topology.wait(ctx) // node affinity cannot be changed later
		}
		return c.Run(ctx)
	}
	return t.ours(ctx, PersistentVolumeLabelController, "persistentvolume-label", run, shutdown), nil
}
