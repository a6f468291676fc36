package serving

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestChecks(t *testing.T) {
	c := NewChecks("readyz", klog.Background())
	var failure error
	for name, check := range map[string]func(*http.Request) error{
		"good":  func(*http.Request) error { return nil },
		"moody": func(*http.Request) error { return failure },
	} {
		if err := c.Add(name, check); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"good", "", "a/b"} {
		if c.Add(bad, func(*http.Request) error { return nil }) == nil {
			t.Errorf("a check named %q can be added", bad)
		}
	}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for _, test := range []struct {
		path    string
		failure error
		code    int
		want    string
	}{
		{"/readyz", nil, 200, "ok"},
		{"/readyz?verbose", nil, 200, "[+]moody ok"},
		{"/readyz", errors.New("https://secret.example"), 500, "[-]moody failed: the reason is in the log"},
		{"/readyz/good", errors.New("x"), 200, "ok"},
		{"/readyz/moody", errors.New("x"), 500, "[-]moody failed"},
		{"/readyz/other", nil, 404, "not found"},
	} {
		failure = test.failure
		code, body := get(test.path)
		if code != test.code || !strings.Contains(body, test.want) || strings.Contains(body, "secret.example") {
			t.Errorf("%s: got %d %q, want %d %q", test.path, code, body, test.code, test.want)
		}
	}
}
