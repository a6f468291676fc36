package ccm

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
)

const (
	// DeleteNodesUntil is the annotation of the namespace kube-system with which an operator
	// releases the brake on mass deletion, until the time that is its value.
	DeleteNodesUntil = "isthmus-cloud.github.io/delete-nodes-until"
	// releaseAtMost bounds how far ahead that time may be.
	releaseAtMost = 24 * time.Hour

	// brakeEvery is how often what the brake holds is looked at.
	brakeEvery = 5 * time.Second
	// brakeRemind is how often an Event says again that it holds.
	brakeRemind = 10 * time.Minute
	// brakeNodes is how many of the Nodes get an Event of their own.
	brakeNodes = 3

	reasonHeld    = "NodeDeletionHeld"
	reasonResumed = "NodeDeletionResumed"
)

// brakeOptions are the settings of the provider's brake. The informers need not run yet.
func (m *Manager) brakeOptions(provider string) decorate.BrakeOptions {
	nodes := m.informers.Core().V1().Nodes().Lister()
	return decorate.BrakeOptions{
		Nodes: &decorate.Peers{List: func() []cloud.InstanceRef {
			return refsOf(nodes, provider, func(*corev1.Node) bool { return true })
		}},
		Count: m.opts.NodeDeletion.LimitCount, Percent: m.opts.NodeDeletion.LimitPercentage, Settle: m.opts.NodeDeletion.SettleTime,
		Released: func(ctx context.Context) (bool, error) { return released(ctx, m.client, clock.RealClock{}) },
	}
}

// released reads the annotation DeleteNodesUntil.
func released(ctx context.Context, client kubernetes.Interface, now clock.PassiveClock) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, brakeEvery)
	defer cancel()
	ns, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("whether an operator lets them go could not be read: %w", err)
	}
	value, ok := ns.Annotations[DeleteNodesUntil]
	if !ok {
		return false, nil
	}
	until, err := time.Parse(time.RFC3339, value)
	switch left := until.Sub(now.Now()); {
	case err != nil:
		return false, fmt.Errorf("annotation %s of namespace %s: %.40q is not a time such as 2026-01-31T18:00:00Z", DeleteNodesUntil, metav1.NamespaceSystem, value)
	case left > releaseAtMost:
		return false, fmt.Errorf("annotation %s of namespace %s: %s is more than %s ahead; set an earlier time", DeleteNodesUntil, metav1.NamespaceSystem, value, releaseAtMost)
	default:
		return left > 0, nil
	}
}

// brakeCheck fails while the brake holds. It only warns: who takes the leader for not ready
// takes its webhooks away.
func brakeCheck(held func() *decorate.Hold) func(*http.Request) error {
	return func(*http.Request) error {
		h := held()
		if h == nil {
			return nil
		}
		return publicError{
			error:  fmt.Errorf("%d nodes whose instances were not found are kept: %s", len(h.Nodes), h.Reason),
			public: fmt.Sprintf("%d nodes whose instances were not found are kept; Events and the log say why", len(h.Nodes)),
		}
	}
}

// brakeReporter says in Events what the brake holds, on the namespace whose annotation
// releases it and on a few of the Nodes.
type brakeReporter struct {
	held     func() *decorate.Hold
	nodes    corelisters.NodeLister
	recorder record.EventRecorder
	clock    clock.WithTicker

	said    time.Time // when Events were last sent; zero while nothing is held
	count   int
	noticed []string
}

// run reports until ctx ends.
func (r *brakeReporter) run(ctx context.Context) {
	ticker := r.clock.NewTicker(brakeEvery)
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

func (r *brakeReporter) look(ctx context.Context) {
	logger := klog.FromContext(ctx)
	namespace := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceSystem,
	}
	h := r.held()
	now := r.clock.Now()
	switch {
	case h == nil && r.said.IsZero():
		return
	case h == nil:
		r.said, r.count, r.noticed = time.Time{}, 0, nil
		logger.Info("The brake on mass deletion holds nothing any more")
		r.recorder.Event(namespace, corev1.EventTypeNormal, reasonResumed, "No Nodes are kept any more whose instances were not found")
		return
	case !r.said.IsZero() && now.Sub(r.said) < brakeRemind && len(h.Nodes) < 2*r.count:
		return
	}
	if r.said.IsZero() {
		r.noticed = h.Nodes[:min(brakeNodes, len(h.Nodes))]
	}
	r.said, r.count = now, len(h.Nodes)
	logger.Info("The brake on mass deletion keeps Nodes whose instances were not found", "nodes", len(h.Nodes), "reason", h.Reason, "since", h.Since)
	r.recorder.Eventf(namespace, corev1.EventTypeWarning, reasonHeld,
		"%d Nodes whose instances were not found are kept: %s. If the instances are really gone, say so with: kubectl annotate --overwrite namespace %s %s=%s",
		len(h.Nodes), h.Reason, metav1.NamespaceSystem, DeleteNodesUntil, now.UTC().Add(time.Hour).Format(time.RFC3339))
	for _, name := range r.noticed {
		if node, err := r.nodes.Get(name); err == nil {
			r.recorder.Eventf(node, corev1.EventTypeWarning, reasonHeld, "The instance was not found, but the Node is kept: %s", h.Reason)
		}
	}
}
