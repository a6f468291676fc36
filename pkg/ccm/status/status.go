// Package status tells what a replica knows of its work: Nodes, load balancers and the state of its calls to the cloud, as a page
// and as JSON. It reads the informers' caches and the metrics; neither the cloud nor the API server is asked.
package status

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	// maxRows is how many rows a list shows, those that wait first; the others are counted.
	maxRows = 500
	// maxText is how many bytes of a name or an address are shown.
	maxText = 256
)

// Source is where a snapshot is taken from.
type Source struct {
	// Leader returns the identity of the replica that leads, as far as is known, and whether it is this one.
	Leader func() (identity string, leads bool)
	// Nodes and Services are caches; nil where they are not watched.
	Nodes    corelisters.NodeLister
	Services corelisters.ServiceLister
	// Metrics are those that Isthmus counts.
	Metrics prometheus.Gatherer
}

// snapshot is what one replica knew at one time.
type snapshot struct {
	Version       string           `json:"version"`
	Leader        string           `json:"leader"`
	Leads         bool             `json:"leads"`
	Nodes         list[node]       `json:"nodes"`
	LoadBalancers list[balancer]   `json:"loadBalancers"`
	Cloud         list[cloudState] `json:"cloud"`
}

// list is bounded: Total counts all, Waiting those that are not done, More those that are not among the Items.
type list[T any] struct {
	Total   int `json:"total"`
	Waiting int `json:"waiting"`
	More    int `json:"more"`
	Items   []T `json:"items"`
}

type node struct {
	Name       string `json:"name"`
	ProviderID string `json:"providerID"`
	State      string `json:"state"`
	waits      bool
}

type balancer struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Address   string `json:"address"`
	State     string `json:"state"`
	waits     bool
}

type cloudState struct {
	Metric string  `json:"metric"`
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// shown are the metrics that a snapshot has, where they are not zero.
var shown = []string{
	"isthmus_cloud_calls_in_flight", "isthmus_cloud_node_deletion_brake", "isthmus_cloud_nodes_held", "isthmus_cloud_retries_total",
	"isthmus_cloud_routes_held", "isthmus_cloud_throttle_wait_seconds_total", "isthmus_cloud_credential_reload_pending",
	"isthmus_webhook_certificate_expiration_timestamp_seconds", "isthmus_webhook_registration_errors_total",
	"isthmus_webhook_registration_up_to_date",
}

// take returns a snapshot. What fails is left out: a page in need shows what there is.
func (s Source) take(version string) snapshot {
	out := snapshot{Version: version, Nodes: s.nodes(), LoadBalancers: s.balancers(), Cloud: s.cloud()}
	out.Leader, out.Leads = s.Leader()
	out.Leader = text.Clip(out.Leader, maxText)
	return out
}

func (s Source) nodes() list[node] {
	if s.Nodes == nil {
		return bounded[node](nil, nil)
	}
	all, _ := s.Nodes.List(labels.Everything()) // a cache has no error
	rows := make([]node, 0, len(all))
	for _, n := range all {
		row := node{Name: text.Clip(n.Name, maxText), ProviderID: text.Clip(n.Spec.ProviderID, maxText), State: "initialized"}
		for _, t := range n.Spec.Taints {
			switch t.Key {
			case cloudproviderapi.TaintExternalCloudProvider:
				row.State, row.waits = "waits for the cloud's data", true
			case cloudproviderapi.TaintNodeShutdown:
				row.State = "shut down"
			}
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b node) int { return cmp.Or(waitsFirst(a.waits, b.waits), strings.Compare(a.Name, b.Name)) })
	return bounded(rows, func(n node) bool { return n.waits })
}

func (s Source) balancers() list[balancer] {
	if s.Services == nil {
		return bounded[balancer](nil, nil)
	}
	all, _ := s.Services.List(labels.Everything()) // a cache has no error
	var rows []balancer
	for _, v := range all {
		if v.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		row := balancer{Namespace: text.Clip(v.Namespace, maxText), Name: text.Clip(v.Name, maxText), State: "has an address"}
		if in := v.Status.LoadBalancer.Ingress; len(in) > 0 {
			row.Address = text.Clip(cmp.Or(in[0].IP, in[0].Hostname), maxText)
		} else {
			row.State, row.waits = "waits for an address", true
		}
		if v.DeletionTimestamp != nil {
			row.State, row.waits = "is being deleted", true
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b balancer) int {
		return cmp.Or(waitsFirst(a.waits, b.waits), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return bounded(rows, func(b balancer) bool { return b.waits })
}

func (s Source) cloud() list[cloudState] {
	families, _ := s.Metrics.Gather() // what could be gathered is returned beside an error
	var rows []cloudState
	for _, f := range families {
		if !slices.Contains(shown, f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue(); v != 0 {
				rows = append(rows, cloudState{Metric: f.GetName(), Labels: text.Clip(labelText(m), maxText), Value: v})
			}
		}
	}
	return bounded(rows, func(cloudState) bool { return false })
}

func labelText(m *dto.Metric) string {
	var parts []string
	for _, l := range m.GetLabel() {
		parts = append(parts, l.GetName()+"="+l.GetValue())
	}
	return strings.Join(parts, " ")
}

func waitsFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func bounded[T any](rows []T, waits func(T) bool) list[T] {
	out := list[T]{Total: len(rows), Items: []T{}}
	for _, r := range rows {
		if waits(r) {
			out.Waiting++
		}
	}
	out.Items = append(out.Items, rows[:min(len(rows), maxRows)]...)
	out.More = out.Total - len(out.Items)
	return out
}
