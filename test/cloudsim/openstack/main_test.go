package openstack_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"go.uber.org/goleak"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// password are the auth options of the seeded user.
func password(sim *ossim.Sim) gophercloud.AuthOptions {
	return gophercloud.AuthOptions{
		IdentityEndpoint: sim.AuthURL(), Username: ossim.UserName, Password: ossim.UserPassword,
		DomainName: "Default", TenantName: ossim.ProjectName, AllowReauth: true,
	}
}

// newClient is an unauthenticated gophercloud client whose connections end with the test.
func newClient(t *testing.T, sim *ossim.Sim) *gophercloud.ProviderClient {
	t.Helper()
	client, err := openstack.NewClient(sim.AuthURL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	if file := sim.CAFile(); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client.HTTPClient = http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return client
}

// login is a client authenticated as opts say.
func login(t *testing.T, sim *ossim.Sim, opts gophercloud.AuthOptions) *gophercloud.ProviderClient {
	t.Helper()
	client := newClient(t, sim)
	if err := openstack.Authenticate(t.Context(), client, opts); err != nil {
		t.Fatalf("authenticate: %v", err)
	}
	return client
}

type newService func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)

// serviceClient is a client of one service, logged in as the seeded user.
func serviceClient(t *testing.T, sim *ossim.Sim, make newService) *gophercloud.ServiceClient {
	t.Helper()
	client, err := make(login(t, sim, password(sim)), gophercloud.EndpointOpts{Region: ossim.Region})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func compute(t *testing.T, sim *ossim.Sim, microversion string) *gophercloud.ServiceClient {
	c := serviceClient(t, sim, openstack.NewComputeV2)
	c.Microversion = microversion
	return c
}
