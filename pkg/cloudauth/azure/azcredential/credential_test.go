package azcredential

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/azure"
	azuresim "github.com/isthmus-cloud/isthmus/test/cloudsim/azure"
)

const tenant, other = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"

// sim is the one simulator: the process takes its proxy and CAs once.
var sim *azuresim.Sim

func TestMain(m *testing.M) {
	var err error
	if sim, err = azuresim.Start(azuresim.Options{}); err == nil {
		for _, v := range sim.Env() {
			name, value, _ := strings.Cut(v, "=")
			err = errors.Join(err, os.Setenv(name, value))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	sim.Close()
	os.Exit(code)
}

func TestCredential(t *testing.T) {
	for _, name := range []string{"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_AUTHORITY_HOST"} {
		t.Setenv(name, "")
	}
	sim.SetSystemIdentity(azuresim.Application{})
	app := sim.AddApplication(azuresim.Application{Tenant: tenant, Secrets: map[string]time.Time{"s3cret": {}}})
	t.Run("options", func(t *testing.T) { testOptions(t, app) })
	t.Run("concurrency", func(t *testing.T) { testConcurrency(t) })
}

func testOptions(t *testing.T, app azuresim.Identity) {
	t.Setenv("AZURE_CLIENT_ID", app.ClientID)
	t.Setenv("AZURE_TENANT_ID", tenant)
	t.Setenv("AZURE_CLIENT_SECRET", "s3cret")
	session, err := azure.New(azure.Config{}, azure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := New(session, other)
	arm := []string{"https://management.azure.com/.default"}
	for _, tt := range []struct {
		name     string
		o        policy.TokenRequestOptions
		requests int
		want     string // error; "" is none
	}{
		{"a token", policy.TokenRequestOptions{Scopes: arm}, 1, ""},
		{"again", policy.TokenRequestOptions{Scopes: arm}, 0, ""},
		{"its own tenant", policy.TokenRequestOptions{Scopes: arm, TenantID: strings.ToUpper(tenant)}, 0, ""},
		{"claims", policy.TokenRequestOptions{Scopes: arm, Claims: `{"access_token":{"nbf":{"essential":true}}}`}, 1, ""},
		{"claims again: the token for them was refused, too", policy.TokenRequestOptions{Scopes: arm, Claims: `{"access_token":{"nbf":{"essential":true}}}`}, 1, ""},
		{"without claims", policy.TokenRequestOptions{Scopes: arm}, 0, ""},
		{"CAE", policy.TokenRequestOptions{Scopes: arm, EnableCAE: true}, 1, ""},
		{"CAE with claims", policy.TokenRequestOptions{Scopes: arm, EnableCAE: true, Claims: `{"access_token":{"nbf":{}}}`}, 1, ""},
		{"CAE again", policy.TokenRequestOptions{Scopes: arm, EnableCAE: true}, 0, ""},
		{"CAE with claims again", policy.TokenRequestOptions{Scopes: arm, EnableCAE: true, Claims: `{"access_token":{"nbf":{}}}`}, 1, ""},
		{"another tenant", policy.TokenRequestOptions{Scopes: arm, TenantID: other}, 1, "Entra ID at login.microsoftonline.com refuses"},
		{"a tenant that is not allowed", policy.TokenRequestOptions{Scopes: arm, TenantID: "evil.example"}, 0, "which is none of those that application"},
		{"claims that are none", policy.TokenRequestOptions{Scopes: arm, EnableCAE: true, Claims: "x"}, 0, "are no JSON"},
		{"no scope", policy.TokenRequestOptions{}, 0, "one at a time"},
		{"two scopes", policy.TokenRequestOptions{Scopes: []string{"a/.default", "b/.default"}}, 0, "one at a time"},
		{"a delegated scope", policy.TokenRequestOptions{Scopes: []string{"https://graph.microsoft.com/User.Read"}}, 0, "ends in /.default"},
	} {
		sim.ResetRequests()
		got, err := c.GetToken(t.Context(), tt.o)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && (got.Token == "" || time.Until(got.ExpiresOn) < 50*time.Minute) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		requests := sim.Requests()
		if len(requests) != tt.requests {
			t.Errorf("%s: %+v, want %d", tt.name, requests, tt.requests)
		}
	}
	if text, err := claims(policy.TokenRequestOptions{EnableCAE: true, Claims: `{"access_token":{"nbf":{"essential":true}}}`}); err != nil || text != `{"access_token":{"nbf":{"essential":true},"xms_cc":{"values":["cp1"]}}}` {
		t.Errorf("claims %s, %v", text, err)
	}
}

// A hundred clients of a server that hangs wait together, for as long as one request.
func testConcurrency(t *testing.T) {
	session, err := azure.New(azure.Config{}, azure.Options{RequestTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	c := New(session)
	hundred := func(want bool) {
		t.Helper()
		sim.ResetRequests()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				// What a managed identity has none of is ignored.
				if _, err := c.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://vault.azure.net/.default"}, EnableCAE: true, TenantID: other}); (err == nil) != want {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
	}
	remove := sim.AddFault(azuresim.Fault{Service: "imds", Hang: true, Times: 1})
	hundred(false)
	if n := len(sim.Requests()); n > 2 {
		t.Errorf("%d requests: they wait one after the other", n)
	}
	remove()
}
