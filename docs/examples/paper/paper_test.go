package paper

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/isthmus-cloud/isthmus/docs/examples/paperapi"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

var update = flag.Bool("update", false, "write the golden file")

// unsupported is what paper lacks.
var unsupported = map[cloudtest.Feature]string{
	cloudtest.LoadBalancerTraffic: "not tried: paper carries no traffic",
	cloudtest.LoadBalancerHTTP:    "paper balances connections, not requests",
	cloudtest.LoadBalancerTLS:     "paper balances connections, not requests",
	cloudtest.LoadBalancerPROXYv1: "paper speaks version 2 of the PROXY protocol alone",
	cloudtest.LoadBalancerShared:  "a load balancer of paper has one owner",
	cloudtest.LoadBalancerOwn:     "a load balancer of paper has one owner",
	cloudtest.VolumesZone:         "paper has no volumes",
	cloudtest.VolumesNotFound:     "paper has no volumes",
}

// TestConformance is step 7 of docs/add-a-cloud.md.
func TestConformance(t *testing.T) {
	w, err := newWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	results := cloudtest.Run(t, cloudtest.Setup{New: w.start(key), NewDenied: w.start("not-" + key), World: w, Unsupported: unsupported, Patience: 20 * time.Second})
	if !results.Complete() || t.Failed() {
		return
	}
	const golden = "testdata/paper.golden"
	if *update {
		if err := os.WriteFile(golden, results.Marshal(), 0o644); err != nil { //nolint:gosec // for everyone
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(want, results.Marshal()) {
		t.Errorf("%s is stale (%v): run the test with -update, then make generate", golden, err)
	}
}

// start makes a provider of a new folder, with what to do to it afterwards.
func start(t *testing.T, o cloud.Options, change ...func(*world) error) (*world, *cloud.Provider) {
	t.Helper()
	w, err := newWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := w.start(key)(o)
	for _, f := range change {
		err = errors.Join(err, f(w))
	}
	if err != nil {
		t.Fatal(err)
	}
	return w, p
}

// Each error of the cloud has its kind. Only that of an object that is not there is KindNotFound.
func TestErrors(t *testing.T) {
	remove := func(name string) func(*world) error { return func(w *world) error { return os.Remove(w.file(name)) } }
	write := func(name, text string) func(*world) error {
		return func(w *world) error { return os.WriteFile(w.file(name), []byte(text), 0o600) }
	}
	for name, tt := range map[string]struct {
		change func(*world) error
		kind   cloud.Kind
	}{
		"no such instance":        {change: func(*world) error { return nil }, kind: cloud.KindNotFound},
		"no folder":               {change: func(w *world) error { return os.RemoveAll(w.api.Folder) }, kind: cloud.KindUnavailable},
		"no folder of instances":  {change: remove("instances"), kind: cloud.KindUnavailable},
		"no key in the folder":    {change: remove("key"), kind: cloud.KindUnavailable},
		"another key":             {change: write("key", "other"), kind: cloud.KindDenied},
		"too many requests":       {change: write("throttled", ""), kind: cloud.KindThrottled},
		"an instance half there":  {change: write("instances/node", "{"), kind: cloud.KindUnknown},
		"an instance of no shape": {change: write("instances/node", "[]"), kind: cloud.KindUnknown},
	} {
		_, p := start(t, cloud.Options{}, tt.change)
		ref := cloud.InstanceRef{NodeName: "node"}
		_, err := p.Instances.Get(t.Context(), ref)
		if found := p.Instances.Find(t.Context(), []cloud.InstanceRef{ref})[0].Err; cloud.KindOf(err) != tt.kind || cloud.KindOf(found) != tt.kind {
			t.Errorf("%s: Get says %v (%v), Find %v (%v), want %v", name, err, cloud.KindOf(err), found, cloud.KindOf(found), tt.kind)
		}
	}
	_, p := start(t, cloud.Options{})
	for _, id := range []string{"paper:///", "paper:///../key", "paper:///a/b", "paper://node", "openstack:///node"} {
		if _, err := p.Instances.Get(t.Context(), cloud.InstanceRef{ProviderID: id}); cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("provider ID %s: %v, want KindInvalid", id, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"folder: /f\nkey: k\nregion: r\npublik: []":         "publik",
		"folder: /f\nregion: r":                             "required",
		"folder: /f\nkey: k\nregion: r\npublic: [10.0.0.1]": "10.0.0.1",
		"[": "paper.yaml",
	} {
		file := filepath.Join(t.TempDir(), "paper.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := New(t.Context(), file, cloud.Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v, want an error with %q that names the file", text, err, want)
		}
	}
}

// A dry run changes nothing, and goes on as if it had.
func TestDryRun(t *testing.T) {
	w, p := start(t, cloud.Options{DryRun: true})
	spec := &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{UID: "u"}, Namespace: "default", Name: "web", UID: "s"},
		Ports: []cloud.LoadBalancerPort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}
	status, err := p.LoadBalancers.Ensure(t.Context(), spec)
	if err != nil || len(status.Ingress) != 1 || status.Ingress[0].IP != "203.0.113.0" {
		t.Errorf("Ensure: %+v, %v", status, err)
	}
	route := cloud.Route{Destination: netip.MustParsePrefix("10.244.1.0/24"), Target: scheme + "node"}
	if err := errors.Join(p.Routes.Apply(t.Context(), cloud.Cluster{UID: "u"}, []cloud.Route{route}, nil)...); err != nil {
		t.Error(err)
	}
	if all, err := w.Everything(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("after a dry run there is %q, %v", all, err)
	}
}

// Whoever comes second to the last address is told, and to an address of somebody else's, too.
func TestAddresses(t *testing.T) {
	w, p := start(t, cloud.Options{})
	ask := func(uid string, wish string) (*cloud.LoadBalancerStatus, error) {
		spec := &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{UID: "u"}, Namespace: "default", Name: uid, UID: uid},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}
		if wish != "" {
			spec.LoadBalancerIP = netip.MustParseAddr(wish)
		}
		return p.LoadBalancers.Ensure(t.Context(), spec)
	}
	if status, err := ask("first", "198.51.100.1"); err != nil || status.Ingress[0].IP != "198.51.100.1" {
		t.Errorf("an address of the user's own: %+v, %v", status, err)
	}
	if _, err := ask("second", "198.51.100.1"); cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("an address that another Service has: %v, want KindConflict", err)
	}
	for n := range 255 {
		if err := api.Make(t.Context(), w.api, api.Addresses, fmt.Sprint("203.0.113.", n), api.Balancer{}); err != nil {
			t.Fatal(err)
		}
	}
	if status, err := ask("third", ""); err != nil || status.Ingress[0].IP != "203.0.113.255" {
		t.Errorf("the last address: %+v, %v", status, err)
	}
	if _, err := ask("last", ""); cloud.KindOf(err) != cloud.KindQuota {
		t.Errorf("one Service more than there are addresses: %v, want KindQuota", err)
	}
}
