package wiretap

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestWhatPassesIsSeenAndTheCatalogNamesTheTap(t *testing.T) {
	var nova *httptest.Server
	keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "catalog: "+nova.URL+"/v2.1") }))
	defer keystone.Close()
	nova = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "it is "+r.Host)
	}))
	defer nova.Close()
	var seen []string
	tap, err := Start(keystone.URL+"/v3", []string{nova.URL + "/v2.1", nova.URL + "/volume"}, func(api string, forward http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a := &Answer{ResponseWriter: w, Status: http.StatusOK}
			forward.ServeHTTP(a, r)
			seen = append(seen, fmt.Sprint(strings.NewReplacer(keystone.URL, "keystone", nova.URL, "nova").Replace(api), " ", r.URL.Path, " ", a.Status))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	get := func(url string) string {
		t.Helper()
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	_, at, _ := strings.Cut(get(tap.Keystone), "catalog: ")
	if !strings.HasSuffix(at, "/v2.1") || strings.HasPrefix(at, nova.URL) {
		t.Fatalf("the catalog names %s", at)
	}
	if got := get(at); !strings.HasPrefix(at, "http://"+strings.TrimPrefix(got, "it is ")) {
		t.Errorf("Nova at %s says %q: links would not lead to the tap", at, got)
	}
	if want := []string{"keystone/v3 /v3 200", "nova/v2.1 /v2.1 418"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}
