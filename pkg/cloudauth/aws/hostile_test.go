package aws

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
)

// hostileCases are all ways in which a secret goes out, each with the service that gets it.
func hostileCases() map[string]func(*testing.T, *world) (Config, string) {
	return map[string]func(*testing.T, *world) (Config, string){
		"web identity that is given": func(t *testing.T, w *world) (Config, string) {
			return Config{WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(w.token(t, "app")), RoleARN: w.pod}}, "sts"
		},
		"web identity of the environment": func(t *testing.T, w *world) (Config, string) {
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", w.write(t, "token", w.token(t, "app")))
			t.Setenv("AWS_ROLE_ARN", w.pod)
			return Config{}, "sts"
		},
		"call": func(t *testing.T, w *world) (Config, string) { w.setUser(t); return Config{}, "ecr" },
		"role": func(t *testing.T, w *world) (Config, string) {
			w.setUser(t)
			return Config{Role: w.targetRole()}, "sts"
		},
		"instance": func(_ *testing.T, w *world) (Config, string) {
			w.SetInstanceRole(w.instance)
			return Config{}, "imds"
		},
		"container": func(t *testing.T, w *world) (Config, string) {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", w.SetContainer(w.instance, "s3cret"))
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "s3cret")
			return Config{}, "container"
		},
	}
}

// ask does what needs credentials, with two of the SDK's clients.
func ask(t *testing.T, cfg Config) error {
	t.Helper()
	s, err := New(t.Context(), cfg, Options{maxBackoff: time.Millisecond})
	if err != nil {
		return err
	}
	if _, err := s.Check(t.Context()); err != nil {
		return err
	}
	_, err = ecr.NewFromConfig(s.AWS()).GetAuthorizationToken(t.Context(), &ecr.GetAuthorizationTokenInput{})
	return s.Explain(err)
}

// The SDK's client sends requests on to wherever an answer of 307 or 308 says.
func TestDefectRedirectsAreNotFollowed(t *testing.T) {
	for name, prepare := range hostileCases() {
		for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				var robbed atomic.Int32
				thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { robbed.Add(1) }))
				defer thief.Close()
				w := newWorld(t)
				cfg, service := prepare(t, w)
				w.AddFault(awssim.Fault{Service: service, Status: status, Code: "x", Header: http.Header{"Location": {thief.URL}}})
				if err := ask(t, cfg); err == nil || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got %v", err)
				} else if service == "ecr" && status != http.StatusFound && !strings.Contains(err.Error(), "redirects to "+thief.URL+", which is not followed") {
					t.Errorf("got %v", err)
				}
				if n := robbed.Load(); n != 0 {
					t.Errorf("the request was sent on %d times", n)
				}
			})
		}
	}
}

// The SDK reads answers of any length into memory, and logs about them.
func TestDefectEndlessAnswers(t *testing.T) {
	for name, prepare := range hostileCases() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cfg, service := prepare(t, w)
			long := map[bool]string{true: "<a>", false: `{"a":"`}[service == "sts"] + strings.Repeat("x", wire.MaxAnswer)
			w.AddFault(awssim.Fault{Service: service, Body: &long})
			if err := ask(t, cfg); err == nil || !strings.Contains(err.Error(), "answers with more than 1024 KiB") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The SDK takes half of the credentials in the environment for none, and becomes the instance.
func TestDefectHalfOfTheEnvironment(t *testing.T) {
	for name, tt := range map[string]struct{ set, missing string }{
		"key without a secret":        {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
		"secret without a key":        {"AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"},
		"session token alone":         {"AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
		"role without a token":        {"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"},
		"token without a role":        {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"},
		"endpoint's token by itself":  {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_CREDENTIALS_FULL_URI"},
		"endpoint's token file alone": {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.SetInstanceRole(w.instance)
			t.Setenv(tt.set, "s3cret")
			err := check(t, Config{})
			var own *cloudauth.Error
			if !errors.As(err, &own) || own.Reason != cloudauth.Misconfigured || !strings.Contains(err.Error(), tt.set+" is set, but not "+tt.missing) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v", err)
			}
			if n := len(w.Requests()); n != 0 {
				t.Errorf("%d requests", n)
			}
			// Where the environment is not looked at, it does not matter.
			if err := check(t, Config{WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(w.token(t, "app")), RoleARN: w.pod}}); err != nil {
				t.Errorf("with a web identity: %v", err)
			}
		})
	}
}

// The SDK passes over files that it cannot read, those that the environment names included, and becomes
// the instance.
func TestDefectUnreadableFiles(t *testing.T) {
	for _, variable := range []string{"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"} {
		for name, file := range map[string]func(*world) string{
			"missing": func(w *world) string { return w.dir + "/missing" },
			"a loop": func(w *world) string {
				_ = os.Symlink("loop", w.dir+"/loop") // or it is there already
				return w.dir + "/loop"
			},
		} {
			t.Run(variable+" "+name, func(t *testing.T) {
				w := newWorld(t)
				w.SetInstanceRole(w.instance)
				t.Setenv(variable, file(w))
				err := check(t, Config{})
				var own *cloudauth.Error
				if !errors.As(err, &own) || own.Reason != cloudauth.Misconfigured || !strings.Contains(err.Error(), file(w)+": ") || !strings.Contains(err.Error(), "; correct the path ("+variable+")") {
					t.Errorf("got %v", err)
				}
				if err := check(t, Config{WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(w.token(t, "app")), RoleARN: w.pod}}); err != nil {
					t.Errorf("with a web identity: %v", err)
				}
			})
		}
	}
}

// What is not encrypted goes through no proxy, to whatever address it is.
func TestDefectUnencryptedThroughProxy(t *testing.T) {
	proxy := newHTTPClient(Options{}).GetTransport().Proxy
	for address, through := range map[string]bool{"https://sts.amazonaws.com": true, "http://169.254.170.23/": false, "http://[fd00:ec2::23]/": false} {
		t.Setenv("HTTPS_PROXY", "http://proxy.example:3128")
		t.Setenv("HTTP_PROXY", "http://proxy.example:3128")
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := proxy(&http.Request{URL: u}); err != nil || !through && got != nil {
			t.Errorf("%s: through %v, %v", address, got, err)
		}
	}
}
