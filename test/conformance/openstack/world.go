package openstack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	sdk "github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	provider "github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
)

// Access is how a cloud is reached: a user of domain Default who is a member of the project
// and may use Octavia and Barbican.
type Access struct {
	AuthURL, Region, User, Password, Project string
}

// World is a project with a dual-stack network, a router and a certificate.
type World struct {
	access   Access
	provider string // of Octavia
	dir      string // of cloud.conf
	throttle func() (undo func(), reason string)
	patience time.Duration
	cidr4    netip.Prefix

	compute, neutron, octavia, cinder, barbican *gophercloud.ServiceClient

	suffix                         string
	network, subnet4, subnet6      string
	router, external               string
	flavor, image                  string
	certificate, certPart, certKey string
}

var _ cloudtest.World = (*World)(nil)

// Options configures a World.
type Options struct {
	// Provider is Octavia's: amphora or ovn.
	Provider string
	// Dir is for the provider's configuration.
	Dir string
	// Throttle has the cloud refuse requests; see cloudtest.World.
	Throttle func() (undo func(), reason string)
	// CIDR is the range of the servers' IPv4 addresses, 10.96.0.0/16 by default.
	CIDR netip.Prefix
	// Patience is the suite's; see cloudtest.Setup.
	Patience time.Duration
}

// New makes the World; Close takes it down.
func New(ctx context.Context, a Access, o Options) (*World, error) {
	b := make([]byte, 3)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	w := &World{access: a, provider: o.Provider, dir: o.Dir, throttle: o.Throttle, patience: o.Patience, cidr4: o.CIDR, suffix: hex.EncodeToString(b)}
	if !w.cidr4.IsValid() {
		w.cidr4 = netip.MustParsePrefix("10.96.0.0/16")
	}
	client, err := sdk.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: a.AuthURL, Username: a.User, Password: a.Password, DomainName: "Default", TenantName: a.Project, AllowReauth: true,
	})
	if err != nil {
		return nil, fmt.Errorf("log in to project %s: %w", a.Project, err)
	}
	where := gophercloud.EndpointOpts{Region: a.Region}
	for _, s := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&w.compute, sdk.NewComputeV2}, {&w.neutron, sdk.NewNetworkV2}, {&w.octavia, sdk.NewLoadBalancerV2}, {&w.cinder, sdk.NewBlockStorageV3},
		{&w.barbican, sdk.NewKeyManagerV1},
	} {
		if *s.to, err = s.make(client, where); err != nil {
			return nil, err
		}
	}
	if err := w.furnish(ctx); err != nil {
		return nil, errors.Join(err, w.Close(ctx))
	}
	return w, nil
}

// Setup is the suite's setup of this World; unsupported is what the cloud lacks.
func (w *World) Setup(unsupported map[cloudtest.Feature]string) cloudtest.Setup {
	return cloudtest.Setup{
		New:         func(o cloud.Options) (*cloud.Provider, func(), error) { return w.start(o, w.access) },
		NewDenied:   w.startDenied,
		World:       w,
		Unsupported: unsupported,
		Patience:    w.patience,
	}
}

func (w *World) startDenied(o cloud.Options) (*cloud.Provider, func(), error) {
	a := w.access
	a.Password = "not-" + a.Password
	return w.start(o, a)
}

// start makes the provider as the program does.
func (w *World) start(o cloud.Options, a Access) (*cloud.Provider, func(), error) {
	f, err := os.CreateTemp(w.dir, "cloud-*.conf")
	if err != nil {
		return nil, nil, err
	}
	conf := fmt.Sprintf("[Global]\nauth-url=%s\nregion=%s\nusername=%s\npassword=%s\ntenant-name=%s\nuser-domain-name=Default\ntenant-domain-name=Default\n"+
		"[LoadBalancer]\nlb-provider=%s\nsubnet-id=%s\nfloating-network-id=%s\n[Route]\nrouter-id=%s\n",
		a.AuthURL, a.Region, a.User, a.Password, a.Project, w.provider, w.subnet4, w.external, w.router)
	_, err = f.WriteString(conf)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, nil, err
	}
	o.RequestTimeout = 30 * time.Second
	p, _, err := provider.New(context.Background(), filepath.Clean(f.Name()), o)
	if err != nil {
		return nil, nil, err
	}
	policy := caller.Policy{Attempts: 2, BackoffBase: 100 * time.Millisecond}
	d, err := decorate.New(p, caller.Options{Reads: policy, Mutations: policy})
	if err != nil {
		return nil, nil, err
	}
	// The contract is the cloud's; the guard on deletions, which decorate puts before it, answers for many Nodes.
	d.Instances = p.Instances
	return &d.Provider, d.Close, nil
}

// Throttle implements cloudtest.World.
func (w *World) Throttle() (undo func(), reason string) { return w.throttle() }

// gone takes "not found" for success.
func gone(err error) error {
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// until asks until the answer is yes or an error.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for delay := 10 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		ok, err := done()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if ok {
			return nil
		}
		if err := pause(ctx, delay); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
