package ccm

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/nodes"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/nodeipam"
)

// startNodeIPAMMetrics gives the controller's metrics their zeros where it is on and has some.
func startNodeIPAMMetrics(o *options.Options) error {
	if !o.NodeIPAMEnabled() || o.FromCloud() {
		return nil
	}
	config, err := o.NodeIPAMConfig()
	if err != nil {
		return err
	}
	m, err := nodeipam.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	m.Start(config)
	return nil
}

// nodeIPAMController makes the controller and returns what runs it.
func (l *leaderControllers) nodeIPAMController(ctx context.Context, client kubernetes.Interface, a *nodes.Adapter) (func(), error) {
	if l.opts.FromCloud() {
		recorder, shutdown := l.recorder(ctx, "cidrAllocator")
		c := nodeipam.NewFromCloud(nodeipam.Cluster{Client: client, Nodes: l.informers.Core().V1().Nodes(), Recorder: recorder}, l.provider.Owns, a.WithPodCIDRs)
		return l.instrumented(ctx, options.NodeIPAMController, "nodeipam", c.Run, shutdown), nil
	}
	config, err := l.opts.NodeIPAMConfig()
	if err != nil {
		return nil, err
	}
	m, err := nodeipam.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	recorder, shutdown := l.recorder(ctx, "cidrAllocator")
	c := nodeipam.New(nodeipam.Cluster{Client: client, Nodes: l.informers.Core().V1().Nodes(), Recorder: recorder}, config, m)
	return l.instrumented(ctx, options.NodeIPAMController, "nodeipam", c.Run, shutdown), nil
}
