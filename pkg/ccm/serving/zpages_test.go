package serving

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	theirflagz "k8s.io/apiserver/pkg/server/flagz"
	flagzv1beta1 "k8s.io/apiserver/pkg/server/flagz/api/v1beta1"
	theirstatusz "k8s.io/apiserver/pkg/server/statusz"
	statuszv1beta1 "k8s.io/apiserver/pkg/server/statusz/api/v1beta1"
	"k8s.io/component-base/compatibility"
	"sigs.k8s.io/yaml"
)

// Flags of a component, as the API server's package reads them.
type someFlags map[string]string

func (f someFlags) GetFlagz() map[string]string { return f }

// theirs serves both paths with the API server's packages.
func theirs(flags map[string]string) http.Handler {
	mux := http.NewServeMux()
	v := compatibility.NewEffectiveVersionFromString("1.37.0", "1.37.0", "1.37.0")
	theirstatusz.Install(mux, component, theirstatusz.NewRegistry(v, theirstatusz.WithListedPaths([]string{"/metrics", "/healthz"})))
	theirflagz.Install(mux, component, someFlags(flags))
	return mux
}

func ours(flags map[string]string) http.Handler {
	mux := http.NewServeMux()
	start := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	mux.Handle("/statusz", handleStatusz(start, func() time.Time { return start.Add(26*time.Hour + 3*time.Minute + 4*time.Second) }, []string{"/healthz", "/metrics"}))
	mux.Handle("/flagz", handleFlagz(flags))
	return mux
}

func read(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	h.ServeHTTP(w, r)
	return w
}

// TestZpagesAnswerAsTheAPIServers: the same formats are served to the same headers.
func TestZpagesAnswerAsTheAPIServers(t *testing.T) {
	flags := map[string]string{"cloud-config": "/etc/cloud.conf", "v": "2"}
	a, b := ours(flags), theirs(flags)
	for path, kind := range map[string]string{"/statusz": "Statusz", "/flagz": "Flagz"} {
		object := ";g=config.k8s.io;v=v1beta1;as=" + kind
		for _, accept := range []string{
			"", "*/*", "text/plain", "text/*", "text/html", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json", "application/yaml", "application/*",
			"application/json" + object, "application/yaml" + object, "application/json" + object + ";q=0.1, text/plain", "application/vnd.kubernetes.protobuf" + object,
			"application/json;g=config.k8s.io;v=v9;as=" + kind, "application/json;g=other;v=v1beta1;as=" + kind, "text/plain" + object, "nonsense", ";;;,,,",
			"application/xml, application/json" + object, "*/*" + object,
		} {
			got, want := read(a, path, accept), read(b, path, accept)
			if got.Code != want.Code {
				t.Errorf("%s, Accept %q: %d, the API server's answer %d", path, accept, got.Code, want.Code)
			}
			if got.Code == http.StatusOK && format(got) != format(want) {
				t.Errorf("%s, Accept %q: %s, the API server's %s", path, accept, format(got), format(want))
			}
		}
	}
}

func format(r *httptest.ResponseRecorder) string {
	media, _, _ := strings.Cut(r.Header().Get("Content-Type"), ";")
	return media
}

// TestZpagesAreTheAPIsObjects: they decode strictly into the API's types.
func TestZpagesAreTheAPIsObjects(t *testing.T) {
	flags := map[string]string{"cloud-config": "/etc/cloud.conf", "v": "2"}
	h := ours(flags)
	for _, format := range []string{"json", "yaml"} {
		var f flagzv1beta1.Flagz
		if err := yaml.UnmarshalStrict(read(h, "/flagz", "application/"+format+";g=config.k8s.io;v=v1beta1;as=Flagz").Body.Bytes(), &f); err != nil {
			t.Fatal(err)
		}
		if f.Kind != "Flagz" || f.APIVersion != flagzv1beta1.SchemeGroupVersion.String() || f.Name != component || !cmp.Equal(f.Flags, flags) {
			t.Errorf("%s: %+v", format, f)
		}
		var s statuszv1beta1.Statusz
		if err := yaml.UnmarshalStrict(read(h, "/statusz", "application/"+format+";g=config.k8s.io;v=v1beta1;as=Statusz").Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		if s.Kind != "Statusz" || s.APIVersion != statuszv1beta1.SchemeGroupVersion.String() || s.Name != component || s.UptimeSeconds != 26*3600+184 ||
			s.StartTime.UTC() != time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) || s.BinaryVersion == "" || !strings.HasPrefix(s.GoVersion, "go") || !cmp.Equal(s.Paths, []string{"/healthz", "/metrics"}) {
			t.Errorf("%s: %+v", format, s)
		}
	}
}

func TestZpagesAsText(t *testing.T) {
	h := ours(map[string]string{"v": "2", "cloud-config": "/etc/cloud.conf"})
	for path, want := range map[string]string{
		"/statusz": `(?s)^\ncloud-controller-manager statusz\nWarning: .*\nStarted: Fri Jan  2 03:04:05 UTC 2026\nUp: 26 hr 03 min 04 sec\nGo version: go\S+\nBinary version: \S+\n\nPaths: /healthz /metrics\n$`,
		"/flagz":   `(?s)^\ncloud-controller-manager flagz\nWarning: .*\ncloud-config=/etc/cloud.conf\nv=2\n$`,
	} {
		if got := read(h, path, "").Body.String(); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: %q, want %s", path, got, want)
		}
	}
}
