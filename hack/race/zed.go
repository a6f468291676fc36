package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
)

// realZed is the real OpenStack of hack/openstack, whose project k8s must have no load balancers. All
// contenders have the same one, one after the other. Its delays are its own.
func realZed() cloudKind {
	return cloudKind{name: "zed", provider: "openstack", other: "OCCM", open: func(delays) (world, error) {
		w := &zedWorld{members: map[string]string{}, gone: map[string]bool{}, lbs: map[string]bool{}}
		if err := w.login(context.Background()); err != nil {
			return nil, fmt.Errorf("no OpenStack to race on, `make openstack-up` starts one: %w", err)
		}
		for range 120 {
			if w.look().things == 0 {
				break
			}
			w.clean() // of a race that was ended
			time.Sleep(2 * time.Second)
		}
		return w, nil
	}}
}

type zedWorld struct {
	env                            map[string]string
	compute, network, loadBalancer *gophercloud.ServiceClient
	proxy                          *proxy
	joined                         int
	servers                        []string

	mu      sync.Mutex
	members map[string]string // what each pool's members were last set to, by its ID
	gone    map[string]bool   // machines that have left
	seen    time.Time         // when state was read
	state   zedState
	lbs     map[string]bool // that were asked for, by name; each has two pools
}

// zedState is what there is in the project.
type zedState struct {
	things int
	busy   bool
}

// login reads the credentials that the installer has left.
func (w *zedWorld) login(ctx context.Context) error {
	home := os.Getenv("ISTHMUS_OPENSTACK_HOME")
	if home == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		home = filepath.Join(cache, "isthmus", "openstack")
	}
	data, err := os.ReadFile(filepath.Join(home, "run", "k8s-openrc"))
	if err != nil {
		return err
	}
	w.env = map[string]string{}
	for _, field := range strings.Fields(string(data)) {
		if key, value, ok := strings.Cut(field, "="); ok {
			w.env[key] = value
		}
	}
	p, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: w.env["OS_AUTH_URL"], Username: w.env["OS_USERNAME"], Password: w.env["OS_PASSWORD"], DomainName: w.env["OS_USER_DOMAIN_NAME"],
		AllowReauth: true, Scope: &gophercloud.AuthScope{ProjectName: w.env["OS_PROJECT_NAME"], DomainName: w.env["OS_PROJECT_DOMAIN_NAME"]},
	})
	if err != nil {
		return err
	}
	at := gophercloud.EndpointOpts{Region: w.env["OS_REGION_NAME"]}
	var errs [3]error
	w.compute, errs[0] = openstack.NewComputeV2(p, at)
	w.network, errs[1] = openstack.NewNetworkV2(p, at)
	w.loadBalancer, errs[2] = openstack.NewLoadBalancerV2(p, at)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	w.proxy, err = startProxy(w.env["OS_AUTH_URL"], w.record, w.compute.Endpoint, w.network.Endpoint, w.loadBalancer.Endpoint)
	return err
}

func (w *zedWorld) config() string {
	external, err := w.externalID()
	if err != nil {
		external = ""
	}
	return fmt.Sprintf("[Global]\nauth-url = %s\nregion = %s\nusername = %s\npassword = %s\ntenant-name = %s\ndomain-name = %s\n[LoadBalancer]\nfloating-network-id = %s\n%s",
		w.proxy.keystone, w.env["OS_REGION_NAME"], w.env["OS_USERNAME"], w.env["OS_PASSWORD"], w.env["OS_PROJECT_NAME"], w.env["OS_USER_DOMAIN_NAME"],
		external, strings.ReplaceAll(os.Getenv("RACE_LOADBALANCER"), ";", "\n"))
}

func (w *zedWorld) environ() []string { return nil }

func (w *zedWorld) externalID() (string, error) {
	return w.networkID("public")
}

func (w *zedWorld) networkID(name string) (string, error) {
	pages, err := networks.List(w.network, networks.ListOpts{Name: name}).AllPages(context.Background())
	if err != nil {
		return "", err
	}
	all, err := networks.ExtractNetworks(pages)
	if err != nil || len(all) != 1 {
		return "", errors.Join(err, fmt.Errorf("%d networks are named %s", len(all), name))
	}
	return all[0].ID, nil
}

func (w *zedWorld) about() string {
	return "OpenStack Zed of Debian's packages (`make openstack-up`) with MariaDB, RabbitMQ and OVN, without hypervisors and amphorae's VMs"
}

func (w *zedWorld) join(n int) ([]machine, error) {
	ctx := context.Background()
	network, err := w.networkID("k8s-net")
	if err != nil {
		return nil, err
	}
	pages, err := flavors.ListDetail(w.compute, nil).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	all, err := flavors.ExtractFlavors(pages)
	if err != nil || len(all) == 0 {
		return nil, errors.Join(err, errors.New("there is no flavor"))
	}
	existing, err := w.anyServer(ctx)
	if err != nil {
		return nil, err
	}
	var out []machine
	for range n {
		w.joined++
		name := fmt.Sprintf("race-node-%d", w.joined)
		made, err := servers.Create(ctx, w.compute, servers.CreateOpts{Name: name, FlavorRef: all[0].ID, ImageRef: existing, Networks: []servers.Network{{UUID: network}}}, nil).Extract()
		if err != nil {
			return nil, err
		}
		w.servers = append(w.servers, made.ID)
		address, err := w.addressOf(ctx, made.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, machine{id: made.ID, name: name, uuid: made.ID, address: address})
	}
	return out, nil
}

// anyServer is the image of a server that there is.
func (w *zedWorld) anyServer(ctx context.Context) (string, error) {
	pages, err := servers.List(w.compute, servers.ListOpts{Name: "k8s-node"}).AllPages(ctx)
	if err != nil {
		return "", err
	}
	all, err := servers.ExtractServers(pages)
	if err != nil || len(all) == 0 {
		return "", errors.Join(err, errors.New("there is no server k8s-node-0"))
	}
	id, ok := all[0].Image["id"].(string)
	if !ok {
		return "", errors.New("server k8s-node-0 has no image")
	}
	return id, nil
}

// addressOf waits until a server runs.
func (w *zedWorld) addressOf(ctx context.Context, id string) (string, error) {
	for range 120 {
		s, err := servers.Get(ctx, w.compute, id).Extract()
		if err != nil {
			return "", err
		}
		for _, list := range s.Addresses {
			entries, _ := list.([]any)
			for _, e := range entries {
				if fields, _ := e.(map[string]any); s.Status == "ACTIVE" {
					if addr, err := netip.ParseAddr(fmt.Sprint(fields["addr"])); err == nil {
						return addr.String(), nil
					}
				}
			}
		}
		time.Sleep(time.Second)
	}
	return "", fmt.Errorf("server %s does not become ACTIVE", id)
}

func (w *zedWorld) leave(m machine) error {
	w.mu.Lock()
	w.gone[m.id] = true
	w.mu.Unlock()
	return servers.Delete(context.Background(), w.compute, m.id).ExtractErr()
}

func (w *zedWorld) calls() calls { return w.proxy.calls() }

// record notes what members a pool gets.
func (w *zedWorld) record(method, path string, body []byte, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if n := len(parts); method == "PUT" && status < 300 && n >= 3 && parts[n-1] == "members" {
		w.members[parts[n-2]] = string(body)
	}
	if method == "POST" && strings.HasSuffix(path, "/lbaas/loadbalancers") {
		if _, name, ok := strings.Cut(string(body), `"name":"kube_service`); ok {
			name, _, _ = strings.Cut(name, `"`)
			w.lbs[name] = true
		}
	}
}

// behind goes by what the contender has set; it does not count before Octavia has done it.
func (w *zedWorld) behind(m machine) (in, pools int) {
	w.mu.Lock()
	for _, members := range w.members {
		if strings.Contains(members, `"`+m.address+`"`) {
			in++
		}
	}
	pools, gone := 2*len(w.lbs), w.gone[m.id]
	w.mu.Unlock()
	switch {
	case gone && in == 0 && w.busy():
		return 1, pools
	case !gone && in == pools && in > 0 && w.busy():
		return in - 1, pools
	}
	return in, pools
}

func (w *zedWorld) left() int { return w.look().things }

func (w *zedWorld) busy() bool { return w.look().busy }

// look reads what there is, at most once a second.
func (w *zedWorld) look() zedState {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.seen) < time.Second {
		return w.state
	}
	ctx := context.Background()
	state := zedState{things: 1, busy: true}
	if pages, err := loadbalancers.List(w.loadBalancer, loadbalancers.ListOpts{}).AllPages(ctx); err == nil {
		if lbs, err := loadbalancers.ExtractLoadBalancers(pages); err == nil {
			state = zedState{things: len(lbs)}
			for _, lb := range lbs {
				state.busy = state.busy || strings.HasPrefix(lb.ProvisioningStatus, "PENDING")
			}
		}
	}
	if pages, err := floatingips.List(w.network, floatingips.ListOpts{}).AllPages(ctx); err == nil {
		if fips, err := floatingips.ExtractFloatingIPs(pages); err == nil {
			state.things += len(fips)
		}
	}
	w.state, w.seen = state, time.Now()
	return state
}

func (w *zedWorld) close() {
	w.proxy.close()
	w.clean()
	for _, id := range w.servers {
		_ = servers.Delete(context.Background(), w.compute, id).ExtractErr()
	}
}

// clean removes what a contender has left behind.
func (w *zedWorld) clean() {
	ctx := context.Background()
	if pages, err := loadbalancers.List(w.loadBalancer, loadbalancers.ListOpts{}).AllPages(ctx); err == nil {
		if lbs, err := loadbalancers.ExtractLoadBalancers(pages); err == nil {
			for _, lb := range lbs {
				_ = loadbalancers.Delete(ctx, w.loadBalancer, lb.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr()
			}
		}
	}
	if pages, err := floatingips.List(w.network, floatingips.ListOpts{}).AllPages(ctx); err == nil {
		if fips, err := floatingips.ExtractFloatingIPs(pages); err == nil {
			for _, f := range fips {
				_ = floatingips.Delete(ctx, w.network, f.ID).ExtractErr()
			}
		}
	}
}
