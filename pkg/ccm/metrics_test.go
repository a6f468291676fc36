package ccm

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// The metrics of a replica say which build it is, whatever it runs.
func TestBuildInfo(t *testing.T) {
	w := httptest.NewRecorder()
	metricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	want := fmt.Sprintf("\nisthmus_build_info{goversion=%q,version=%q} 1\n", runtime.Version(), version.String())
	if got := w.Body.String(); w.Code != 200 || strings.Count(got, want) != 1 {
		t.Errorf("%d without %s: %.500s", w.Code, want, got)
	}
}
