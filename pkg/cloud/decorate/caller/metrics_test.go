package caller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestMetrics(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(r)
	if err != nil {
		t.Fatal(err)
	}
	traffic, err := NewTraffic("openstack", Options{Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{200, 200, 0} {
		end, err := traffic.Begin(t.Context(), cloud.Request{Family: "compute", Op: "GET"})
		if err != nil {
			t.Fatal(err)
		}
		end(cloud.Outcome{Status: status})
	}
	wantMetric(t, m.requests.WithLabelValues("openstack", "compute", "GET", "200"), 2)
	wantMetric(t, m.requests.WithLabelValues("openstack", "compute", "GET", "0"), 1)
	wantMetric(t, m.requestTime.WithLabelValues("openstack", "compute", "GET"), 3)
	reloaded := m.Reloaded("openstack")
	for gauge, told := range map[*prometheus.GaugeVec]func(time.Time){m.expires: m.Expires("openstack"), m.loginExpires: m.LoginExpires("openstack")} {
		told(time.Unix(1700000000, 5))
		wantMetric(t, gauge.WithLabelValues("openstack"), 1700000000)
		told(time.Time{})
		wantMetric(t, gauge.WithLabelValues("openstack"), 0)
	}
	kept := m.Kept("openstack")("router_subnets")
	wantMetric(t, m.kept.WithLabelValues("openstack", "router_subnets"), 0)
	if n, err := testutil.GatherAndCount(r, "isthmus_cloud_inventory_refresh_timestamp_seconds"); err != nil || n != 1 {
		t.Errorf("inventories: %d series, %v", n, err)
	}
	kept(time.Unix(1700000000, 5))
	wantMetric(t, m.kept.WithLabelValues("openstack", "router_subnets"), 1700000000)
	m.StartInstances("openstack")
	for name, want := range map[string]int{"credential_reloads_total": 2, "instance_lookups_total": 5, "instance_refreshes_total": 1,
		"instance_contradictions_total": 1, "throttle_wait_seconds_total": 1} { // alerts have a zero to start from
		if n, err := testutil.GatherAndCount(r, "isthmus_cloud_"+name); err != nil || n != want {
			t.Errorf("%s: %d series, %v", name, n, err)
		}
	}
	c := testCaller(t, Options{Metrics: m})
	c.Start(readOp, Operation{Ability: "routes", Name: "apply", Mutation: true, Batched: true})
	for name, want := range map[string]int{"calls_total": 2 * 13, "retries_total": 2 * 4, "call_duration_seconds": 2, "calls_in_flight": 2, "batch_size": 1} {
		if n, err := testutil.GatherAndCount(r, "isthmus_cloud_"+name); err != nil || n != want {
			t.Errorf("%s: %d series, %v; want %d", name, n, err, want)
		}
	}
	reloaded(errors.New("x"))
	wantMetric(t, m.reloadPending.WithLabelValues("openstack"), 1)
	reloaded(nil)
	wantMetric(t, m.reloads.WithLabelValues("openstack", "failure"), 1)
	wantMetric(t, m.reloads.WithLabelValues("openstack", "success"), 1)
	wantMetric(t, m.reloadPending.WithLabelValues("openstack"), 0)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "isthmus_cloud_") || f.GetHelp() == "" {
			t.Errorf("metric %s: %q", f.GetName(), f.GetHelp())
		}
	}
	if len(families) != 21 {
		t.Errorf("%d metrics have values, want 21", len(families))
	}
	if _, err := NewMetrics(r); err == nil {
		t.Error("the same metrics were registered twice")
	}
}
