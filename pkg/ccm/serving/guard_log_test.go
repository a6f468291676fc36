package serving

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// TestTokensAreNotLogged: however much is logged, what clients of the secure port identify
// themselves with is not.
func TestTokensAreNotLogged(t *testing.T) {
	const token = "s3cret-token-of-a-client"
	asked := ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &authenticationv1.TokenReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			t.Error(err)
		}
		asked = review.Spec.Token
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGuard(options.Auth{RequestTimeout: 10 * time.Second}, client.AuthenticationV1().TokenReviews(), client.AuthorizationV1().SubjectAccessReviews())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(10), textlogger.Output(&log)))
	r := httptest.NewRequestWithContext(klog.NewContext(t.Context(), logger), http.MethodGet, "https://x/metrics", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	g.wrap(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized || asked != token {
		t.Fatalf("status %d, the API server was asked about %q: this test would check nothing", w.Code, asked)
	}
	if strings.Contains(log.String(), token) {
		t.Errorf("the token is in the log:\n%s", log.String())
	}
}
