package ccm

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/csitopology"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/pvlabel"
)

// labelsVolumes reports whether the controller has something to do.
func labelsVolumes(o *options.Options, p *decorate.Provider) bool {
	return p.Volumes != nil && len(p.Volumes.Sources()) > 0 && slices.Contains(o.EnabledControllers(), options.PersistentVolumeLabelController)
}

// backlogRate is how many times faster than others this controller may write: what was created
// during an outage comes at once, and each is written once in its life. So may its events.
const backlogRate = 5

// pvLabelController makes the controller, nil where there is nothing for it to do.
func (l *leaderControllers) pvLabelController(ctx context.Context) (func(), error) {
	if !labelsVolumes(l.opts, l.provider) {
		klog.FromContext(ctx).Info("PersistentVolumes are left alone: the cloud, or its configuration, has no zones for volumes", "controller", options.PersistentVolumeLabelController)
		return nil, nil
	}
	m, err := pvlabel.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	config := apiclient.Named(l.config, options.PersistentVolumeLabelController)
	config.QPS, config.Burst = config.QPS*backlogRate, config.Burst*backlogRate
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	events, err := kubernetes.NewForConfig(config) // its rate limit is another
	if err != nil {
		return nil, err
	}
	core := l.informers.Core().V1()
	recorder, shutdown := l.recorderTo(ctx, options.PersistentVolumeLabelController, events)
	c := pvlabel.New(pvlabel.Config{
		Volumes: l.provider.Volumes, Client: client, PersistentVolumes: core.PersistentVolumes(), Nodes: core.Nodes(),
		Recorder: recorder, Metrics: m, Clock: clock.RealClock{},
	})
	run := func(ctx context.Context) error {
		if l.topology != nil {
			l.topology.Wait(ctx) // node affinity cannot be changed later
		}
		return c.Run(ctx)
	}
	return l.instrumented(ctx, options.PersistentVolumeLabelController, "persistentvolume-label", run, shutdown), nil
}

// FollowCSITopology has p's volumes name a CSI driver's topology key only where the driver runs with it, which
// --persistentvolume-csi-topology can say instead. It is to be called before p's volumes are used.
func (m *Manager) FollowCSITopology(p *decorate.Provider) error {
	if p.Volumes == nil || !m.opts.LabelPersistentVolumes && !labelsVolumes(m.opts, p) {
		return nil
	}
	t, err := csitopology.New(p.Volumes, m.opts.CSITopology, m.client)
	if err != nil {
		return err
	}
	m.topology, p.Volumes = t, t
	return nil
}
