package routes

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/supervisor"
)

// start makes routes of a Supervisor that shows one RouteSet, ready from the n-th list on, and counts requests by method.
func start(t *testing.T, readyAt int) (*Routes, map[string]int) {
	t.Helper()
	calls := map[string]int{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls[r.Method]++
		ready := "False"
		if calls[http.MethodGet] >= readyAt {
			ready = "True"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "nsx.vmware.com/v1alpha1", "kind": "RouteSetList", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{map[string]any{
			"apiVersion": "nsx.vmware.com/v1alpha1", "kind": "RouteSet", "metadata": map[string]any{"name": "node-1", "namespace": "ns", "labels": map[string]any{"clusterName": "guest"},
				"ownerReferences": []any{map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "guest", "uid": "u"}}},
			"spec":   map[string]any{"routes": []any{map[string]any{"name": "x", "destination": "10.244.1.0/24", "target": "10.0.0.1"}}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": "Busy"}}}}}})
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "t", "namespace": "ns", "ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
		"ownerref.json": `{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "guest", "uid": "u"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := supervisor.New(t.Context(), &config.Supervisor{Server: server.URL, CredentialsDirectory: dir, OwnerReferenceFile: filepath.Join(dir, "ownerref.json")}, cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := New(c, &config.Cluster{})
	r.after = func(time.Duration) <-chan time.Time {
		now := make(chan time.Time)
		close(now)
		return now
	}
	return r, calls
}

var (
	guest = cloud.Cluster{Name: "guest", UID: "uid-of-kube-system", ID: "u", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
	route = cloud.Route{Destination: netip.MustParsePrefix("10.244.1.0/24"), NextHop: netip.MustParseAddr("10.0.0.1"), Node: cloud.InstanceRef{NodeName: "node-1"}}
)

// A route is there when NSX says so, which is waited for, though not for ever; meanwhile it is partial.
func TestRoutesAreAwaited(t *testing.T) {
	r, calls := start(t, 4)
	if list, err := r.List(t.Context(), guest); err != nil || len(list) != 1 || !list[0].Partial || !list[0].Ours {
		t.Errorf("before: %+v, %v", list, err)
	}
	if err := r.Apply(t.Context(), guest, []cloud.Route{route}, nil)[0]; err != nil || calls[http.MethodGet] != 4 || len(calls) != 1 {
		t.Errorf("%v after %v", err, calls)
	}
	if list, err := r.List(t.Context(), guest); err != nil || len(list) != 1 || list[0].Partial {
		t.Errorf("then: %+v, %v", list, err)
	}
	r, calls = start(t, 1000)
	if err := r.Apply(t.Context(), guest, []cloud.Route{route}, nil)[0]; cloud.KindOf(err) != cloud.KindRetryAfter || calls[http.MethodGet] != 1+looks || len(calls) != 1 {
		t.Errorf("never ready: %v after %v", err, calls)
	}
}

// What contradicts itself is refused without a request that changes something.
func TestRefusals(t *testing.T) {
	r, calls := start(t, 1)
	wrong := []cloud.Route{route, route, route}
	wrong[0].NextHop = netip.MustParseAddr("fd00::1")
	wrong[1].Node = cloud.InstanceRef{}
	wrong[2].NextHop = netip.Addr{}
	for _, err := range r.Apply(t.Context(), guest, wrong, nil) {
		if cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("%v", err)
		}
	}
	other := guest
	other.ID = "another"
	moved := route
	moved.NextHop = netip.MustParseAddr("10.0.0.2")
	for _, err := range r.Apply(t.Context(), other, []cloud.Route{moved}, []cloud.Route{route}) {
		if cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("another cluster's: %v", err)
		}
	}
	if list, err := r.List(t.Context(), other); err != nil || slices.ContainsFunc(list, func(r cloud.Route) bool { return r.Ours }) || len(list) != 1 {
		t.Errorf("another cluster's: %+v, %v", list, err)
	}
	if len(calls) != 1 {
		t.Errorf("%v", calls)
	}
}
