package ccm

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/nodes"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/kubeletserving"
)

// kubeletServingController makes the controller and returns what runs it.
func (l *leaderControllers) kubeletServingController(ctx context.Context, client kubernetes.Interface, a *nodes.Adapter) (func(), error) {
	m, err := kubeletserving.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	recorder, shutdown := l.recorder(ctx, options.KubeletServingController)
	c := kubeletserving.New(kubeletserving.Config{
		Client: client, Nodes: l.informers.Core().V1().Nodes().Lister(), Owns: l.provider.Owns, Find: a.Find,
		Recorder: recorder, Metrics: m, Clock: clock.RealClock{},
	})
	return l.instrumented(ctx, options.KubeletServingController, "kubelet-serving-csr-approver", c.Run, shutdown), nil
}
