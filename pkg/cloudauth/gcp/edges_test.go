package gcp

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	gcpsim "github.com/isthmus-cloud/isthmus/test/cloudsim/gcp"
)

// Who asks for an account of the instance, or is a service account, has no use for a file, whatever the environment names.
func TestFilesAreNotLookedAtWhenTheyAreNotWanted(t *testing.T) {
	w := newWorld(t)
	t.Setenv(fileVariable, w.write(t, "env.json", []byte("broken")))
	for name, cfg := range map[string]Config{"account": {Account: node}, "federation": {Federation: w.federation(t)}} {
		s, err := w.session(t, cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if s.file != "" {
			t.Errorf("%s: %s is looked at", name, s.file)
		}
	}
	s, err := w.session(t, Config{Account: node})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.who(t, s); got != gcpsim.Account(node) {
		t.Errorf("it is %s", got)
	}
}

// The name of the metadata server may come to be wrong while the program runs.
func TestMetadataServerIsNamedWrongly(t *testing.T) {
	w := newWorld(t)
	s, err := w.session(t, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(hostVariable, "metadata.example")
	w.ResetRequests()
	token, err := s.Token(t.Context())
	var own *cloudauth.Error
	if !errors.As(err, &own) || own.Reason != cloudauth.Misconfigured || !token.Value.IsEmpty() || len(w.Requests()) > 0 {
		t.Errorf("got %v after %d requests", err, len(w.Requests()))
	}
}

// Without an answer about its scopes a token is given all the same, and that is asked once.
func TestScopesAreAskedOnce(t *testing.T) {
	w := newWorld(t)
	s, err := w.session(t, Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.ResetRequests()
	if _, err := s.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	action := ""
	for _, r := range w.Requests() {
		if strings.HasSuffix(r.Action, "/scopes") {
			action = r.Action
		}
	}
	if action == "" {
		t.Fatalf("the scopes are not asked: %+v", w.Requests())
	}
	w.AddFault(gcpsim.Fault{Action: action, Status: 503})
	if s, err = w.session(t, Config{}); err != nil {
		t.Fatal(err)
	}
	w.ResetRequests()
	if _, err := s.Token(t.Context()); err != nil {
		t.Errorf("no token: %v", err)
	}
	asked := 0
	for _, r := range w.Requests() {
		if r.Action == action {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("the scopes are asked %d times", asked)
	}
}

// What answers in the metadata server's place is not it, however well it answers.
func TestWhatAnswersIsNotTheMetadataServer(t *testing.T) {
	for name, want := range map[string]bool{"Google": true, "google": false, "": false} {
		w := newWorld(t)
		server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
			if name != "" {
				answer.Header().Set("Metadata-Flavor", name)
			}
			if strings.HasSuffix(r.URL.Path, "/token") {
				_, _ = answer.Write([]byte(`{"access_token":"s3cret","expires_in":3600,"token_type":"Bearer"}`)) // the client reads it
			}
		}))
		defer server.Close()
		t.Setenv(hostVariable, strings.TrimPrefix(server.URL, "http://"))
		s, err := w.session(t, Config{})
		if err != nil {
			t.Fatal(err)
		}
		token, err := s.Token(t.Context())
		var own *cloudauth.Error
		if want != (err == nil) || want != (token.Value.Reveal() == "s3cret") || !want && (!errors.As(err, &own) || own.Reason != cloudauth.NoCredentials || !strings.Contains(err.Error(), "is not Google's metadata server")) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Credentials go nowhere but to Google, and to the universe that they are of.
func TestFilesThatLeadElsewhere(t *testing.T) {
	w := newWorld(t)
	external := `{"type":"external_account","audience":"` + w.audience + `","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","credential_source":{"file":"/nowhere"}`
	for content, want := range map[string]string{
		external + "}": "",
		external + `,"universe_domain":"googleapis.com"}`:                  "",
		external + `,"universe_domain":"evil.example"}`:                    "is for the universe \"evil.example\", but googleapis.com is to be used",
		external + `,"token_url":"https://sts.googleapis.com/v1/token"}`:   "",
		external + `,"token_url":"https://sts.evil.example/v1/token"}`:     "token_url: ",
		external + `,"token_url":"http://sts.googleapis.com/v1/token"}`:    "token_url: ",
		external + `,"service_account_impersonation_url":"https://x.com"}`: "service_account_impersonation_url: ",
	} {
		_, err := w.session(t, Config{CredentialsFile: w.write(t, "file.json", []byte(content))})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

// When the token of an account ends that is impersonated is by Google's clock; the machine's may be wrong.
func TestImpersonatedTokenEndsByGooglesClock(t *testing.T) {
	w := newWorld(t)
	w.AllowActAs(pull, gcpsim.Account(node))
	life := func() (left, ahead time.Duration) {
		t.Helper()
		s, err := w.session(t, Config{Impersonate: pull})
		if err != nil {
			t.Fatal(err)
		}
		token, err := s.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(token.Expires), token.Ahead
	}
	right, _ := life()
	w.AddFault(gcpsim.Fault{Service: "iamcredentials", Header: http.Header{"Date": {time.Now().Add(30 * time.Minute).UTC().Format(http.TimeFormat)}}})
	left, ahead := life()
	if (ahead-30*time.Minute).Abs() > 5*time.Minute || (right-left-ahead).Abs() > 5*time.Minute {
		t.Errorf("by a clock that is %s ahead a token lives for %s, else for %s", ahead, left, right)
	}
}
