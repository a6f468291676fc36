package ccm

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/serving"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

// Only what is meant for everyone is served without authentication.
func TestReadyzSaysOnlyWhatIsPublicWhenNodesAreHeld(t *testing.T) {
	hold := &deletionguard.Hold{Nodes: []string{"node-1"}, Verdict: deletionguard.Verdict{Message: "not seen in project 4711"}}
	check := heldCheck(func() *deletionguard.Hold { return hold })
	if err := check(nil); err == nil || !strings.Contains(err.Error(), "4711") {
		t.Errorf("logged: %v", err)
	}
	c := serving.NewChecks("readyz", klog.Background())
	if err := c.AddWarning("node-deletion", check); err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for path, want := range map[string]string{
		"/readyz":               "200 ok\n[!]node-deletion warns: 1 nodes whose",
		"/readyz?verbose":       "200 [!]node-deletion warns: 1 nodes whose",
		"/readyz/node-deletion": "500 [-]node-deletion failed: 1 nodes whose",
	} {
		code, body := get(path)
		if got := fmt.Sprintf("%d %s", code, body); strings.Contains(body, "4711") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: served %s, want %s", path, got, want)
		}
	}
	hold = nil
	if _, body := get("/readyz"); body != "ok" {
		t.Error("it fails though nothing is held")
	}
}
