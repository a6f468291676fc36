//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// What hack/openstack makes in the cloud, by name.
const (
	externalName          = "public"
	flavorName, imageName = "k8s.small", "dummy"
	ovnNorthbound         = "tcp:127.0.0.1:6641"
)

var zones = []string{"az1", "az2", "az3"}

// appCred is an application credential, and the Keystone to use it at, as hack/openstack
// writes its own into appcred.json.
type appCred struct {
	ID      string `json:"id"`
	Secret  string `json:"secret"`
	AuthURL string `json:"auth_url"`
}

// osClients are one user's clients of every service.
type osClients struct {
	provider                                                                    *gophercloud.ProviderClient
	compute, network, loadBalancer, blockStorage, keyManager, identity, imaging *gophercloud.ServiceClient
	userID, projectID                                                           string
	catalog                                                                     *tokens.ServiceCatalog
}

// realCloud is the running OpenStack as the tests see it, with a project of this run's own;
// theCloud returns the only one.
type realCloud struct {
	run             string // the folder of its credentials and logs
	region, authURL string
	member, admin   *osClients
	cred            appCred // the member's
	// The project's network behind its router, and what the operator offers.
	networkID, subnetID, routerID, externalID, flavorID, imageID string

	undo []func(context.Context) error // removes the project, last first
}

var cloudOnce struct {
	sync.Once
	cloud *realCloud
	err   error
}

// theCloud returns the running cloud and fails t when there is none.
func theCloud(t testing.TB) *realCloud {
	t.Helper()
	cloudOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		cloudOnce.cloud, cloudOnce.err = findCloud(ctx)
	})
	if cloudOnce.err != nil {
		t.Fatalf("no OpenStack to test against: %v (`make openstack-up` starts one)", cloudOnce.err)
	}
	return cloudOnce.cloud
}

// runDir is where the installer keeps the credentials.
func runDir() (string, error) {
	if dir := os.Getenv("ISTHMUS_OPENSTACK_HOME"); dir != "" {
		return filepath.Join(dir, "run"), nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "isthmus", "openstack", "run"), err
}

func findCloud(ctx context.Context) (*realCloud, error) {
	run, err := runDir()
	if err != nil {
		return nil, err
	}
	c := &realCloud{run: run}
	if c.admin, c.region, err = openrc(ctx, filepath.Join(run, "admin-openrc")); err != nil {
		return nil, err
	}
	c.authURL = strings.TrimSuffix(c.admin.identity.Endpoint, "/")
	if err := c.findOffers(ctx); err != nil {
		return nil, err
	}
	if err := c.makeProject(ctx); err != nil {
		return nil, errors.Join(err, c.removeProject(ctx))
	}
	return c, nil
}

// openrc logs in with the variables of an openrc file.
func openrc(ctx context.Context, file string) (*osClients, string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	env := map[string]string{}
	for _, field := range strings.Fields(string(data)) {
		if key, value, ok := strings.Cut(field, "="); ok {
			env[key] = value
		}
	}
	clients, err := login(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: env["OS_AUTH_URL"], Username: env["OS_USERNAME"], Password: env["OS_PASSWORD"],
		DomainName: env["OS_USER_DOMAIN_NAME"], AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectName: env["OS_PROJECT_NAME"], DomainName: env["OS_PROJECT_DOMAIN_NAME"]},
	}, env["OS_REGION_NAME"])
	if err != nil {
		return nil, "", fmt.Errorf("log in with %s: %w", file, err)
	}
	return clients, env["OS_REGION_NAME"], nil
}

func login(ctx context.Context, auth gophercloud.AuthOptions, region string) (*osClients, error) {
	provider, err := openstack.AuthenticatedClient(ctx, auth)
	if err != nil {
		return nil, err
	}
	c := &osClients{provider: provider}
	where := gophercloud.EndpointOpts{Region: region}
	for _, s := range []struct {
		client **gophercloud.ServiceClient
		make   func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&c.compute, openstack.NewComputeV2}, {&c.network, openstack.NewNetworkV2}, {&c.loadBalancer, openstack.NewLoadBalancerV2},
		{&c.blockStorage, openstack.NewBlockStorageV3}, {&c.keyManager, openstack.NewKeyManagerV1}, {&c.identity, openstack.NewIdentityV3},
		{&c.imaging, openstack.NewImageV2},
	} {
		if *s.client, err = s.make(provider, where); err != nil {
			return nil, err
		}
	}
	c.compute.Microversion = "2.90"
	result, ok := provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return nil, fmt.Errorf("the login answered %T", provider.GetAuthResult())
	}
	user, err := result.ExtractUser()
	if err != nil {
		return nil, err
	}
	project, err := result.ExtractProject()
	if err != nil {
		return nil, err
	}
	c.userID, c.projectID = user.ID, project.ID
	c.catalog, err = result.ExtractServiceCatalog()
	return c, err
}

// findOffers finds what hack/openstack made for every project.
func (c *realCloud) findOffers(ctx context.Context) error {
	pages, err := networks.List(c.admin.network, networks.ListOpts{Name: externalName}).AllPages(ctx)
	if err != nil {
		return err
	}
	if c.externalID, err = only(networks.ExtractNetworks(pages))(func(n networks.Network) string { return n.ID }); err != nil {
		return err
	}
	if pages, err = images.List(c.admin.imaging, images.ListOpts{Name: imageName}).AllPages(ctx); err != nil {
		return err
	}
	if c.imageID, err = only(images.ExtractImages(pages))(func(i images.Image) string { return i.ID }); err != nil {
		return err
	}
	if pages, err = flavors.ListDetail(c.admin.compute, nil).AllPages(ctx); err != nil {
		return err
	}
	all, err := flavors.ExtractFlavors(pages)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(f flavors.Flavor) bool { return f.Name != flavorName })
	c.flavorID, err = only(all, nil)(func(f flavors.Flavor) string { return f.ID })
	return err
}

// only returns the ID of the single element of a list.
func only[T any](list []T, err error) func(id func(T) string) (string, error) {
	return func(id func(T) string) (string, error) {
		if err == nil && len(list) != 1 {
			err = fmt.Errorf("%d objects of type %T where one is expected", len(list), *new(T))
		}
		if err != nil {
			return "", err
		}
		return id(list[0]), nil
	}
}

// conf is a cloud.conf with the cloud's application credential, and with more sections and
// keys ("[LoadBalancer]\nlb-provider = ovn").
func (c *realCloud) conf(more ...string) string { return confFor(c.cred, c.region, more...) }

func confFor(cred appCred, region string, more ...string) string {
	return fmt.Sprintf("[Global]\nauth-url = %s\nregion = %s\napplication-credential-id = %s\napplication-credential-secret = %s\n%s\n",
		cred.AuthURL, region, cred.ID, cred.Secret, strings.Join(more, "\n"))
}

// writeConf writes a cloud.conf into a folder of the test's own.
func writeConf(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// server is a server of the cloud with one port on the cluster's network.
type server struct {
	id, name, zone, portID string
	address                netip.Addr
}

// boot makes servers with these names, spread over the zones, and removes them and their
// ports when t ends.
func (c *realCloud) boot(t testing.TB, names ...string) []server {
	t.Helper()
	out := make([]server, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			s, err := c.bootOne(t, name, zones[i%len(zones)])
			if err != nil {
				t.Errorf("boot server %s: %v", name, err)
			}
			out[i] = s
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return out
}

func (c *realCloud) bootOne(t testing.TB, name, zone string) (server, error) {
	ctx := t.Context()
	port, err := ports.Create(ctx, c.member.network, ports.CreateOpts{NetworkID: c.networkID, Name: name}).Extract()
	if err != nil {
		return server{}, err
	}
	t.Cleanup(func() {
		err := c.cleanup(func(ctx context.Context) error { return ports.Delete(ctx, c.member.network, port.ID).ExtractErr() })
		if err != nil {
			t.Errorf("delete the port of server %s: %v", name, err)
		}
	})
	made, err := servers.Create(ctx, c.member.compute, servers.CreateOpts{
		Name: name, FlavorRef: c.flavorID, ImageRef: c.imageID, AvailabilityZone: zone, Networks: []servers.Network{{Port: port.ID}},
	}, nil).Extract()
	if err != nil {
		return server{}, err
	}
	s := server{id: made.ID, name: name, zone: zone, portID: port.ID}
	t.Cleanup(func() {
		if err := c.deleteServer(s.id); err != nil {
			t.Errorf("delete server %s: %v", name, err)
		}
	})
	if s.address, err = netip.ParseAddr(port.FixedIPs[0].IPAddress); err != nil {
		return s, err
	}
	return s, c.awaitServer(ctx, s.id, "ACTIVE")
}

// awaitServer waits for a status of the server.
func (c *realCloud) awaitServer(ctx context.Context, id, status string) error {
	return poll(ctx, patience, func(ctx context.Context) error {
		s, err := servers.Get(ctx, c.member.compute, id).Extract()
		if err == nil && s.Status != status {
			err = fmt.Errorf("server %s is %s, want %s", s.Name, s.Status, status)
		}
		return err
	})
}

// deleteServer deletes a server and waits until it is gone; that it is gone already is fine.
func (c *realCloud) deleteServer(id string) error {
	err := c.cleanup(func(ctx context.Context) error { return servers.Delete(ctx, c.member.compute, id).ExtractErr() })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return poll(ctx, patience, func(ctx context.Context) error {
		s, err := servers.Get(ctx, c.member.compute, id).Extract()
		switch {
		case gophercloud.ResponseCodeIs(err, 404):
			return nil
		case err == nil:
			err = fmt.Errorf("server %s is still %s", id, s.Status)
		}
		return err
	})
}

// cleanup runs f outside of any test's context; that the object is gone already is fine.
func (c *realCloud) cleanup(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f(ctx); err != nil && !gophercloud.ResponseCodeIs(err, 404) {
		return err
	}
	return nil
}

// poll calls check every 200 ms until it returns nil; after within its last error is returned.
func poll(ctx context.Context, within time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", within, last)
		case <-tick.C:
		}
	}
}
