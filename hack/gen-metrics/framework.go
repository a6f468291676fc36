package main

import (
	"context"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/workqueue"
	cloudnode "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
)

// needed are the families of the libraries that the document has, and from when a replica has them: those of controllers once they run.
var needed = map[string]string{
	"cloud_node_lifecycle_controller_": fromLeading, "leader_election_master_status": fromStart, "node_controller_": fromLeading,
	"rest_client_requests_total": fromRequest, "running_managed_controllers": fromLeading, "workqueue_": fromLeading,
}

// framework are the libraries' metrics, which can be read only once they have a value.
func framework() ([]metric, error) {
	if err := exercise(); err != nil {
		return nil, err
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, err
	}
	var out []metric
	for _, f := range families {
		for name, from := range needed {
			if strings.HasPrefix(f.GetName(), name) {
				m := ofFamily(f)
				m.from = from
				out = append(out, m)
			}
		}
	}
	return out, nil
}

// exercise gives each of them a value, without a network.
func exercise() error {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		return err
	}
	nodes := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes()
	cloud := &fake.Cloud{EnableInstancesV2: true}
	if _, err := cloudnode.NewCloudNodeController(nodes, client, cloud, time.Minute, 1, 1); err != nil {
		return err
	}
	if _, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, client, cloud, time.Minute, 1); err != nil {
		return err
	}
	if _, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: "lease", Lock: &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "me"}},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	}); err != nil {
		return err
	}
	controllersmetrics.Register()
	controllersmetrics.NewControllerManagerMetrics("cloud-controller-manager").ControllerStarted("service")
	q := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "service"})
	q.Add("a")
	key, _ := q.Get()
	q.Done(key)
	q.ShutDown()
	ctx := context.Background()
	metrics.RequestResult.Increment(ctx, "200", "GET", "host")
	metrics.RequestLatency.Observe(ctx, "GET", url.URL{Scheme: "https", Host: "host"}, time.Second)
	return nil
}
