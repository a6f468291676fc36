package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"github.com/isthmus-cloud/isthmus/pkg/controllers/workers"
)

// conditionWorkers is how many Nodes are written at a time.
const conditionWorkers = 10

// conditions keeps the condition NetworkUnavailable of Nodes, beside the passes: thousands of
// Nodes take a busy API server, or a limit of requests, minutes.
type conditions struct {
	client kubernetes.Interface
	nodes  coreinformers.NodeInformer
	queue  workqueue.TypedRateLimitingInterface[string]

	mu     sync.Mutex
	wanted map[string]bool // that all routes are there, by the Node's name
}

func newConditions(client kubernetes.Interface, nodes coreinformers.NodeInformer) *conditions {
	return &conditions{client: client, nodes: nodes, wanted: map[string]bool{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute))}
}

// want sets what the Node's condition shall say.
func (c *conditions) want(node string, complete bool) {
	c.mu.Lock()
	before, known := c.wanted[node]
	c.wanted[node] = complete
	c.mu.Unlock()
	n, err := c.nodes.Lister().Get(node)
	if !known || before != complete || err == nil && !says(n, complete) {
		c.queue.Add(node)
	}
}

// keep forgets all other Nodes.
func (c *conditions) keep(nodes map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.wanted, func(name string, _ bool) bool { return !nodes[name] })
}

// run writes until ctx ends.
func (c *conditions) run(ctx context.Context) {
	workers.Run(ctx, c.queue, conditionWorkers, "Condition of a Node cannot be set, will try again", c.write)
}

func (c *conditions) write(ctx context.Context, name string) error {
	n, err := c.nodes.Lister().Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	c.mu.Lock()
	complete, wanted := c.wanted[name]
	c.mu.Unlock()
	if !wanted || says(n, complete) {
		return nil
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition(complete)}}})
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	if _, err := c.client.CoreV1().Nodes().PatchStatus(ctx, name, body); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("set condition of node %s: %w", name, err)
	}
	return nil
}

// condition is as the framework's route controller writes it.
func condition(complete bool) corev1.NodeCondition {
	now := metav1.Now()
	if complete {
		return corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RouteCreated",
			Message: "RouteController created a route", LastTransitionTime: now, LastHeartbeatTime: now}
	}
	return corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated",
		Message: "RouteController failed to create a route", LastTransitionTime: now, LastHeartbeatTime: now}
}

func says(n *corev1.Node, complete bool) bool {
	want := condition(complete)
	for _, x := range n.Status.Conditions {
		if x.Type == want.Type {
			return x.Status == want.Status && x.Reason == want.Reason
		}
	}
	return false
}
