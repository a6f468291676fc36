package tokensource

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/gcp"
	gcpsim "github.com/isthmus-cloud/isthmus/test/cloudsim/gcp"
)

func open(t *testing.T) (*gcpsim.Sim, *gcp.Session) {
	t.Helper()
	sim, err := gcpsim.Start(gcpsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
	for _, v := range sim.Env() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "GCE_") {
			t.Setenv(name, value)
		}
	}
	sim.AddAccount("node@project.iam.gserviceaccount.com")
	sim.SetInstance("node@project.iam.gserviceaccount.com", gcpsim.ScopePlatform)
	session, err := gcp.New(gcp.Config{Scopes: []string{gcpsim.ScopeStorage}}, gcp.Options{RequestTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return sim, session
}

// A client of Google's libraries sends the Session's token, which is got once.
func TestClient(t *testing.T) {
	sim, session := open(t)
	var sent sync.Map
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent.Store(r.Header.Get("Authorization"), true) }))
	defer service.Close()
	client := oauth2.NewClient(t.Context(), New(t.Context(), session))
	for range 3 {
		response, err := client.Get(service.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	token, err := session.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := sent.Load("Bearer " + token.Value.Reveal()); !ok {
		t.Error("the token is not sent")
	}
	tokens := 0
	for _, r := range sim.Requests() {
		if strings.HasSuffix(r.Action, "/token") {
			tokens++
		}
	}
	if tokens != 1 {
		t.Errorf("%d tokens were got", tokens)
	}
}

// A hundred clients of a server that hangs wait together, for as long as one request, and end with their context.
func TestConcurrency(t *testing.T) {
	sim, session := open(t)
	remove := sim.AddFault(gcpsim.Fault{Service: "metadata", Hang: true})
	defer remove()
	ctx, cancel := context.WithCancel(t.Context())
	s := New(ctx, session)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			var own *cloudauth.Error
			if _, err := s.Token(); !errors.As(err, &own) {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	if n := len(sim.Requests()); n > 2 {
		t.Errorf("%d requests: they wait one after the other", n)
	}
	cancel()
	if _, err := s.Token(); err == nil {
		t.Error("a token of a server that hangs")
	}
}
