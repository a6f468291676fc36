package openstack_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func TestAuthenticate(t *testing.T) {
	sim := ossim.ForTest(t)
	cred := sim.AddApplicationCredential("ccm")
	base := password(sim)
	first := login(t, sim, base)
	user, err := first.GetAuthResult().(tokens.CreateResult).ExtractUser()
	if err != nil {
		t.Fatal(err)
	}
	project, err := first.GetAuthResult().(tokens.CreateResult).ExtractProject()
	if err != nil {
		t.Fatal(err)
	}
	url := sim.AuthURL()
	tests := []struct {
		name string
		opts gophercloud.AuthOptions
		want int // status of the refusal; 0 for success
	}{
		{"names", base, 0},
		{"user id and project id", gophercloud.AuthOptions{IdentityEndpoint: url, UserID: user.ID, Password: ossim.UserPassword, TenantID: project.ID}, 0},
		{"no scope: default project", gophercloud.AuthOptions{IdentityEndpoint: url, UserID: user.ID, Password: ossim.UserPassword}, 0},
		{"domain by id", gophercloud.AuthOptions{IdentityEndpoint: url, Username: ossim.UserName, Password: ossim.UserPassword, DomainID: "default", TenantName: ossim.ProjectName}, 0},
		{"application credential by id", gophercloud.AuthOptions{IdentityEndpoint: url, ApplicationCredentialID: cred.ID, ApplicationCredentialSecret: cred.Secret}, 0},
		{"application credential by name", gophercloud.AuthOptions{IdentityEndpoint: url, Username: ossim.UserName, DomainName: "Default", ApplicationCredentialName: "ccm", ApplicationCredentialSecret: cred.Secret}, 0},
		{"token", gophercloud.AuthOptions{IdentityEndpoint: url, TokenID: first.Token(), TenantID: project.ID}, 0},
		{"wrong password", gophercloud.AuthOptions{IdentityEndpoint: url, Username: ossim.UserName, Password: "x", DomainName: "Default", TenantName: ossim.ProjectName}, http.StatusUnauthorized},
		{"unknown user", gophercloud.AuthOptions{IdentityEndpoint: url, Username: "nobody", Password: "x", DomainName: "Default"}, http.StatusUnauthorized},
		{"wrong domain", gophercloud.AuthOptions{IdentityEndpoint: url, Username: ossim.UserName, Password: ossim.UserPassword, DomainName: "Other", TenantName: ossim.ProjectName}, http.StatusUnauthorized},
		{"unknown project", gophercloud.AuthOptions{IdentityEndpoint: url, UserID: user.ID, Password: ossim.UserPassword, TenantID: "nope"}, http.StatusUnauthorized},
		{"project without a role", gophercloud.AuthOptions{IdentityEndpoint: url, Username: ossim.UserName, Password: ossim.UserPassword, DomainName: "Default", TenantName: ossim.AdminName}, http.StatusUnauthorized},
		{"wrong secret", gophercloud.AuthOptions{IdentityEndpoint: url, ApplicationCredentialID: cred.ID, ApplicationCredentialSecret: "x"}, http.StatusUnauthorized},
		{"unknown application credential", gophercloud.AuthOptions{IdentityEndpoint: url, ApplicationCredentialID: "nope", ApplicationCredentialSecret: "x"}, http.StatusNotFound},
		{"invalid token", gophercloud.AuthOptions{IdentityEndpoint: url, TokenID: "bad", TenantID: project.ID}, http.StatusUnauthorized},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := newClient(t, sim)
			err := openstack.Authenticate(t.Context(), client, tt.opts)
			if tt.want != 0 {
				if !gophercloud.ResponseCodeIs(err, tt.want) {
					t.Fatalf("got %v, want status %d", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.GetAuthResult().(interface {
				ExtractProject() (*tokens.Project, error)
			}).ExtractProject()
			if err != nil || got == nil || got.ID != project.ID {
				t.Fatalf("scoped to %+v, %v; want project %s", got, err, project.ID)
			}
		})
	}
}

func TestCatalog(t *testing.T) {
	sim := ossim.ForTest(t)
	client := login(t, sim, password(sim))
	for _, service := range []string{"identity", "compute", "network", "load-balancer", "block-storage", "volumev3", "key-manager", "image"} {
		for _, iface := range []gophercloud.Availability{gophercloud.AvailabilityPublic, gophercloud.AvailabilityInternal, gophercloud.AvailabilityAdmin} {
			opts := gophercloud.EndpointOpts{Type: service, Region: ossim.Region, Availability: iface}
			url, err := client.EndpointLocator(opts)
			if err != nil || url == "" {
				t.Errorf("%s %s: %q, %v", service, iface, url, err)
			}
			opts.Region = "Elsewhere"
			if url, err := client.EndpointLocator(opts); err == nil {
				t.Errorf("%s %s in an unknown region: %q", service, iface, url)
			}
		}
	}
}

func listServers(t *testing.T, c *gophercloud.ServiceClient, opts servers.ListOpts) ([]servers.Server, error) {
	t.Helper()
	pages, err := servers.List(c, opts).AllPages(t.Context())
	if err != nil {
		return nil, err
	}
	return servers.ExtractServers(pages)
}

func TestTokensEnd(t *testing.T) {
	t.Run("expired tokens are renewed", func(t *testing.T) {
		sim := ossim.ForTest(t)
		c := compute(t, sim, "")
		sim.ExpireTokens()
		sim.ResetRequests()
		if _, err := listServers(t, c, servers.ListOpts{}); err != nil {
			t.Fatal(err)
		}
		if got := sim.Count("identity", http.MethodPost); got != 1 {
			t.Errorf("%d tokens asked for, want 1", got)
		}
	})
	t.Run("by their lifetime", func(t *testing.T) {
		sim := ossim.ForTest(t, ossim.Options{TokenLifetime: 50 * time.Millisecond})
		c := compute(t, sim, "")
		c.ReauthFunc = nil
		eventually.True(t, "the token ends", func() bool {
			_, err := listServers(t, c, servers.ListOpts{})
			return gophercloud.ResponseCodeIs(err, http.StatusUnauthorized)
		})
	})
	t.Run("with a new password", func(t *testing.T) {
		sim := ossim.ForTest(t)
		c := compute(t, sim, "")
		if !sim.SetPassword(ossim.UserName, "new") {
			t.Fatal("no such user")
		}
		c.ReauthFunc = nil
		if _, err := listServers(t, c, servers.ListOpts{}); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
			t.Fatalf("got %v, want 401", err)
		}
	})
	t.Run("with the application credential", func(t *testing.T) {
		sim := ossim.ForTest(t)
		cred := sim.AddApplicationCredential("ccm")
		opts := gophercloud.AuthOptions{IdentityEndpoint: sim.AuthURL(), ApplicationCredentialID: cred.ID, ApplicationCredentialSecret: cred.Secret}
		c, err := openstack.NewComputeV2(login(t, sim, opts), gophercloud.EndpointOpts{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := listServers(t, c, servers.ListOpts{}); err != nil {
			t.Fatal(err)
		}
		if !sim.DeleteApplicationCredential(cred.ID) {
			t.Fatal("the credential is not there")
		}
		if _, err := listServers(t, c, servers.ListOpts{}); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
			t.Fatalf("got %v, want 401", err)
		}
	})
}

func TestApplicationCredentials(t *testing.T) {
	sim := ossim.ForTest(t)
	client := login(t, sim, password(sim))
	user, err := client.GetAuthResult().(tokens.CreateResult).ExtractUser()
	if err != nil {
		t.Fatal(err)
	}
	keystone, err := openstack.NewIdentityV3(client, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := applicationcredentials.Create(t.Context(), keystone, user.ID, applicationcredentials.CreateOpts{Name: "one"}).Extract()
	if err != nil || made.Secret == "" {
		t.Fatalf("create: %+v, %v", made, err)
	}
	_, err = applicationcredentials.Create(t.Context(), keystone, user.ID, applicationcredentials.CreateOpts{Name: "one"}).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		t.Errorf("same name again: got %v, want 409", err)
	}
	byCred := login(t, sim, gophercloud.AuthOptions{IdentityEndpoint: sim.AuthURL(), ApplicationCredentialID: made.ID, ApplicationCredentialSecret: made.Secret})
	restricted, err := openstack.NewIdentityV3(byCred, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = applicationcredentials.Create(t.Context(), restricted, user.ID, applicationcredentials.CreateOpts{Name: "two"}).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("create with a restricted credential: got %v, want 403", err)
	}
	got, err := applicationcredentials.Get(t.Context(), keystone, user.ID, made.ID).Extract()
	if err != nil || got.Name != "one" || got.Secret != "" {
		t.Errorf("get: %+v, %v", got, err)
	}
	if diff := cmp.Diff([]ossim.Item{{ID: made.ID, Name: "one"}}, sim.Snapshot().AppCredentials); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if err := applicationcredentials.Delete(t.Context(), keystone, user.ID, made.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := applicationcredentials.Get(t.Context(), keystone, user.ID, made.ID).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("get after delete: got %v, want 404", err)
	}
}

func TestTrust(t *testing.T) {
	sim := ossim.ForTest(t)
	trust := sim.AddTrust()
	opts := gophercloud.AuthOptions{
		IdentityEndpoint: sim.AuthURL(), UserID: trust.TrusteeID, Password: trust.TrusteePassword, Scope: &gophercloud.AuthScope{TrustID: trust.ID},
	}
	client := login(t, sim, opts)
	user, err := client.GetAuthResult().(tokens.CreateResult).ExtractUser()
	if err != nil || user.Name != ossim.UserName {
		t.Errorf("the trustee acts as %+v, %v; want %s", user, err, ossim.UserName)
	}
	c, err := openstack.NewComputeV2(client, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	sim.SeedServers(ossim.Seed{Count: 2})
	if got, err := listServers(t, c, servers.ListOpts{}); err != nil || len(got) != 2 {
		t.Errorf("%d servers, %v", len(got), err)
	}
	stranger := password(sim)
	stranger.TenantName, stranger.Scope = "", &gophercloud.AuthScope{TrustID: trust.ID}
	if err := openstack.Authenticate(t.Context(), newClient(t, sim), stranger); !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("another user: got %v, want 403", err)
	}
	if !sim.DeleteTrust(trust.ID) {
		t.Error("the trust is not there")
	}
	if _, err := listServers(t, c, servers.ListOpts{}); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("after the trust's end: got %v, want 401", err)
	}
	if err := openstack.Authenticate(t.Context(), newClient(t, sim), opts); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("new token after the trust's end: got %v, want 401", err)
	}
}
