package nodes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
)

const (
	// confirmAtMost bounds how far ahead the time of options.DeleteNodesUntil may be.
	confirmAtMost = 24 * time.Hour

	// reportEvery is how often what the guard holds is looked at.
	reportEvery = 5 * time.Second
	// remindEvery is how often an Event says again that it holds.
	remindEvery = 10 * time.Minute
	// reportNodes is how many of the Nodes get an Event of their own.
	reportNodes = 3
)

// Reasons of events. The comments are what docs/reference/events.md says of each.
const (
	// Warning on Node and Namespace kube-system: instances were not found, but the Nodes are kept, as too many would go or nothing proves
	// that the credentials are this cluster's. Next: look at the credentials, and at docs/guides/operations.md.
	reasonHeld = "NodeDeletionHeld"
	// Normal on Namespace kube-system: no Nodes are kept any more whose instances were not found.
	reasonResumed = "NodeDeletionResumed"
)

// Guard turns on p's deletion guard for the Nodes that nodes lists. The informer need not run yet.
func Guard(p *decorate.Provider, nodes corelisters.NodeLister, limits deletionguard.Limits, client kubernetes.Interface) {
	all := func() []cloud.InstanceRef { return refsOf(nodes, p, func(*corev1.Node) bool { return true }) }
	p.Nodes.Guard(&instancecache.Peers{List: all}, limits, func(ctx context.Context) deletionguard.Operator {
		return Operator(ctx, client, clock.RealClock{})
	})
}

// Operator reads the annotation options.DeleteNodesUntil.
func Operator(ctx context.Context, client kubernetes.Interface, now clock.PassiveClock) deletionguard.Operator {
	problem := func(format string, args ...any) deletionguard.Operator {
		return deletionguard.Operator{Problem: fmt.Sprintf(format, args...)}
	}
	ctx, cancel := context.WithTimeout(ctx, reportEvery)
	defer cancel()
	ns, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return problem("whether an operator lets them go could not be read: %v", err)
	}
	value, ok := ns.Annotations[options.DeleteNodesUntil]
	if !ok {
		return deletionguard.Operator{}
	}
	until, err := time.Parse(time.RFC3339, value)
	switch left := until.Sub(now.Now()); {
	case err != nil:
		return problem("annotation %s of namespace %s: %.40q is not a time such as 2026-01-31T18:00:00Z", options.DeleteNodesUntil, metav1.NamespaceSystem, value)
	case left > confirmAtMost:
		return problem("annotation %s of namespace %s: %s is more than %s ahead; set an earlier time", options.DeleteNodesUntil, metav1.NamespaceSystem, value, confirmAtMost)
	default:
		return deletionguard.Operator{Confirmed: left > 0}
	}
}

// HeldReporter says in Events what the guard holds, on the namespace whose annotation lets it
// go and on a few of the Nodes.
type HeldReporter struct {
	Held     func() *deletionguard.Hold
	Nodes    corelisters.NodeLister
	Recorder record.EventRecorder
	Clock    clock.WithTicker

	said    time.Time // when Events were last sent; zero while nothing is held
	count   int
	noticed []string
}

// Run reports until ctx ends.
func (r *HeldReporter) Run(ctx context.Context) {
	ticker := r.Clock.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			r.look(ctx)
		}
	}
}

func (r *HeldReporter) look(ctx context.Context) {
	logger := klog.FromContext(ctx)
	namespace := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceSystem,
	}
	h := r.Held()
	now := r.Clock.Now()
	switch {
	case h == nil && r.said.IsZero():
		return
	case h == nil:
		r.said, r.count, r.noticed = time.Time{}, 0, nil
		logger.Info("The deletion guard holds nothing any more")
		r.Recorder.Event(namespace, corev1.EventTypeNormal, reasonResumed, "No Nodes are kept any more whose instances were not found")
		return
	case !r.said.IsZero() && now.Sub(r.said) < remindEvery && len(h.Nodes) < 2*r.count:
		return
	}
	if r.said.IsZero() {
		r.noticed = h.Nodes[:min(reportNodes, len(h.Nodes))]
	}
	r.said, r.count = now, len(h.Nodes)
	logger.Info("The deletion guard keeps Nodes whose instances were not found", "nodes", len(h.Nodes), "reason", h.Verdict.Reason, "message", h.Verdict.Message)
	r.Recorder.Eventf(namespace, corev1.EventTypeWarning, reasonHeld,
		"%d Nodes whose instances were not found are kept: %s. If the instances are really gone, say so with: kubectl annotate --overwrite namespace %s %s=%s",
		len(h.Nodes), h.Verdict.Message, metav1.NamespaceSystem, options.DeleteNodesUntil, now.UTC().Add(time.Hour).Format(time.RFC3339))
	for _, name := range r.noticed {
		if node, err := r.Nodes.Get(name); err == nil {
			r.Recorder.Eventf(node, corev1.EventTypeWarning, reasonHeld, "The instance was not found, but the Node is kept: %s", h.Verdict.Message)
		}
	}
}
