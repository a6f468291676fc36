package openstack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// logInto returns a context whose logger writes into out.
func logInto(t *testing.T, out *strings.Builder) context.Context {
	return klog.NewContext(testContext(t), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out))))
}

func catalogOf(endpoints ...string) string {
	var entries []string
	for _, e := range endpoints {
		f := strings.Fields(e)
		entries = append(entries, fmt.Sprintf(`{"type": %q, "endpoints": [{"interface": "public", "region": %q, "url": "http://127.0.0.1:1/"}]}`, f[0], f[1]))
	}
	return `{"token": {"expires_at": "2100-01-01T00:00:00.000000Z", "catalog": [` + strings.Join(entries, ",") + `]}}`
}

// What does not fit the cloud is said at the start, in one line, with what to do.
func TestReadySaysWhatIsMissing(t *testing.T) {
	all := []string{"compute RegionOne", "network RegionOne", "load-balancer RegionOne", "block-storage RegionOne"}
	for name, tt := range map[string]struct {
		catalog []string
		change  func(conf string) string
		err     []string // none: it is ready
		logged  []string // none: nothing
	}{
		"all there": {catalog: all},
		"wrong region": {catalog: append(all, "compute Two"), change: func(c string) string { return strings.Replace(c, "RegionOne", "regionOne", 1) },
			err: []string{`no public endpoint of service "compute" in region "regionOne"`, "only RegionOne, Two", "correct the region"}},
		"wrong interface": {catalog: all, change: func(c string) string { return strings.Replace(c, "region", "os-endpoint-type = internal\nregion", 1) },
			err: []string{`no internal endpoint of service "compute"`, "RegionOne (public)", "os-endpoint-type"}},
		"no Nova":    {catalog: all[1:], err: []string{`no public endpoint of service "compute"`, "does not offer it"}},
		"no Octavia": {catalog: append([]string{all[3]}, all[:2]...), logged: []string{"Services of type LoadBalancer cannot be served", "enabled = false", "does not offer it"}},
		"no Octavia, none wanted": {catalog: append([]string{all[3]}, all[:2]...), change: func(c string) string {
			return strings.Replace(c, "[LoadBalancer]", "[LoadBalancer]\nenabled = false", 1)
		}},
		"no Cinder": {catalog: all[:3], logged: []string{"PersistentVolumes cannot be labeled"}},
		"several regions, none chosen": {catalog: append(all, "compute Two"), change: func(c string) string { return strings.Replace(c, "region = RegionOne", "", 1) },
			logged: []string{"several regions and none is configured", "RegionOne", "Two"}},
	} {
		t.Run(name, func(t *testing.T) {
			sim := ossim.ForTest(t)
			sim.AddFault(ossim.Fault{Service: "identity", Body: catalogOf(tt.catalog...)})
			conf := sim.CloudConf()
			if tt.change != nil {
				conf = tt.change(conf)
			}
			file := filepath.Join(t.TempDir(), "cloud.conf")
			writeConf(t, file, conf)
			p, _, err := New(t.Context(), file, cloud.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			ctx := logInto(t, &out)
			for range 3 { // what is logged, is logged once
				err = p.Ready(ctx)
			}
			if (err != nil) != (tt.err != nil) {
				t.Fatalf("Ready: %v", err)
			}
			for _, w := range tt.err {
				if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q is not one line that says %q", err, w)
				}
			}
			for _, w := range tt.logged {
				if strings.Count(out.String(), w) != 1 {
					t.Errorf("the log %q does not say %q once", out.String(), w)
				}
			}
			if tt.logged == nil && out.Len() > 0 {
				t.Errorf("it logs %q", out.String())
			}
			if n := sim.Count("", ""); n != 1 {
				t.Errorf("%d requests, want 1 (the token)", n)
			}
		})
	}
}

func writeConf(t *testing.T, file, conf string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Sections that are read only at the start need a restart; the session's own and those of others do not.
func TestChangedSectionsNeedARestart(t *testing.T) {
	cfg, _, err := config.Parse("cloud.conf", []byte("[Global]"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	conf := (&keeper{file: "cloud.conf", cfg: cfg}).conf()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		if name := conf.Section(f); name != "" {
			got = append(got, name)
		}
	}
	if want := "[LoadBalancer] [LoadBalancerClass] [Route] [Metadata] [Networking] [BlockStorage] [Region]"; strings.Join(got, " ") != want {
		t.Errorf("compared are %s, want %s", got, want)
	}
	if _, err := conf.Parse([]byte("[LoadBalancer]\nmax-shared-lb = many\n")); err == nil || !strings.Contains(err.Error(), "max-shared-lb") {
		t.Errorf("a mistake: %v", err)
	}
	if again, err := conf.Parse([]byte("[Global]")); err != nil || !reflect.DeepEqual(again, cfg) {
		t.Errorf("the same again: %v, %v", again, err)
	}
}
