package paper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	api "github.com/isthmus-cloud/isthmus/docs/examples/paperapi"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// world is a folder, seen through the cloud's own library.
type world struct {
	api  *api.Client
	dir  string
	made atomic.Int32 // instances, and addresses of the user
}

var _ cloudtest.World = (*world)(nil)

const key = "top-secret"

// newWorld makes the folder.
func newWorld(dir string) (*world, error) {
	w := &world{dir: dir, api: &api.Client{Folder: filepath.Join(dir, "cloud"), Key: key,
		Around: func(_ context.Context, _ api.Request, send func() error) error { return send() }}}
	errs := []error{os.Mkdir(w.api.Folder, 0o700), os.WriteFile(w.file("key"), []byte(key+"\n"), 0o600), os.Mkdir(w.file("reserved"), 0o700)}
	for _, kind := range api.Kinds() {
		errs = append(errs, os.Mkdir(w.file(kind), 0o700))
	}
	return w, errors.Join(errs...)
}

func (w *world) file(name string) string { return filepath.Join(w.api.Folder, name) }

// config writes a configuration and returns the file's name.
func (w *world) config(key string) (string, error) {
	f, err := os.CreateTemp(w.dir, "paper-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, "folder: %s\nkey: %s\nregion: desk\npublic: [203.0.113.0/24, 2001:db8:1::/64]\ninternal: [192.168.7.0/24, fd00:7::/64]\n", w.api.Folder, key)
	return f.Name(), errors.Join(err, f.Close())
}

// start returns cloudtest.Setup's New with a key.
func (w *world) start(key string) func(cloud.Options) (*cloud.Provider, func(), error) {
	return func(o cloud.Options) (*cloud.Provider, func(), error) {
		file, err := w.config(key)
		if err != nil {
			return nil, nil, err
		}
		p, _, err := New(context.Background(), file, o)
		return p, nil, err
	}
}

func (w *world) MakeInstance(ctx context.Context, name string) (cloudtest.Instance, error) {
	n := byte(w.made.Add(1))
	i := api.Instance{Type: "sheet", Zone: "drawer-1", MachineID: uuid.NewString(),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, n}), netip.AddrFrom16([16]byte{0: 0xfd, 15: n})},
		PodCIDRs:  []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 245, n, 0}), 24)}}
	return cloudtest.Instance{Ref: cloud.InstanceRef{NodeName: name, ProviderID: scheme + name}, Addresses: i.Addresses, Zone: i.Zone,
		MachineID: i.MachineID, PodCIDRs: i.PodCIDRs}, api.Make(ctx, w.api, api.Instances, name, i)
}

func (w *world) StopInstance(ctx context.Context, i cloudtest.Instance) error {
	now, err := api.Get[api.Instance](ctx, w.api, api.Instances, i.Ref.NodeName)
	now.Off = true
	return errors.Join(err, api.Set(ctx, w.api, api.Instances, i.Ref.NodeName, now))
}

func (w *world) DeleteInstance(ctx context.Context, i cloudtest.Instance) error {
	return gone(api.Delete(ctx, w.api, api.Instances, i.Ref.NodeName))
}

func gone(err error) error {
	if errors.Is(err, api.ErrNone) {
		return nil
	}
	return err
}

func (w *world) UnknownID() string { return scheme + "nobody" }
func (w *world) ForeignID() string { return "aws:///eu-central-1a/i-0123456789abcdef0" }

func (w *world) Settings(_ context.Context, f cloudtest.Feature) (cloud.Settings, error) {
	switch f {
	case cloudtest.LoadBalancerPROXY:
		return cloud.Settings{annProxy: "true"}, nil
	case cloudtest.LoadBalancerInternal:
		return cloud.Settings{annInternal: "true"}, nil
	case cloudtest.LoadBalancerHostname:
		return cloud.Settings{annHostname: cloudtest.HostName}, nil
	case cloudtest.LoadBalancerIPv6, cloudtest.LoadBalancerDual:
		return nil, nil
	}
	return nil, cloudtest.ErrNoAnnotation
}

func (w *world) UseLoadBalancer(id string) cloud.Settings { return cloud.Settings{annID: id} }

func (w *world) LoadBalancerID(s *cloud.LoadBalancerStatus) string { return s.Annotations[annID] }

func (w *world) MakeLoadBalancer(ctx context.Context, _ string) (string, error) {
	id := api.NewID()
	return id, api.Make(ctx, w.api, api.Balancers, id, api.Balancer{Listeners: []api.Listener{{Protocol: "TCP", Port: 7000}}})
}

func (w *world) LoadBalancer(ctx context.Context, id string) (*cloudtest.LoadBalancer, error) {
	lb, err := api.Get[api.Balancer](ctx, w.api, api.Balancers, id)
	if err != nil {
		return nil, gone(err)
	}
	out := &cloudtest.LoadBalancer{ID: id}
	for _, a := range lb.Addresses {
		if a.IsPrivate() {
			out.Private = append(out.Private, a)
		} else {
			out.Public = append(out.Public, a)
		}
	}
	for _, l := range lb.Listeners {
		v := cloudtest.Listener{Port: l.Port, Protocol: corev1.Protocol(l.Protocol), Clients: l.Clients, Affinity: l.Affinity > 0, Members: l.Members}
		if l.Proxy {
			v.Proxy = 2
		}
		if l.Check != nil {
			v.CheckPath, v.CheckPort = l.Check.Path, l.Check.Port
		}
		out.Listeners = append(out.Listeners, v)
	}
	return out, nil
}

func (w *world) DeleteLoadBalancer(ctx context.Context, id string) error {
	return gone(api.Delete(ctx, w.api, api.Balancers, id))
}

// ReserveAddress writes down an address that is in none of the ranges of the configuration.
func (w *world) ReserveAddress(context.Context) (cloudtest.Address, error) {
	a := netip.AddrFrom4([4]byte{198, 51, 100, byte(w.made.Add(1))})
	file := w.file("reserved/" + a.String())
	return cloudtest.Address{IP: a, Release: func(context.Context) error { return os.Remove(file) }}, os.WriteFile(file, nil, 0o600)
}

// MakeForeign makes a load balancer and an address of a Service whose name begins alike, and an address of nobody.
func (w *world) MakeForeign(ctx context.Context, ref cloud.LoadBalancerRef, _ string) (intact, remove func(context.Context) error, err error) {
	next := ref
	next.Name, next.UID = ref.Name+"-next", uuid.NewString()
	lb, id := api.Balancer{Owner: api.Owner(next.Mark())}, api.NewID()
	objects := []struct {
		kind, id string
		object   api.Balancer
	}{{api.Balancers, id, lb}, {api.Addresses, "203.0.113.200", lb}, {api.Addresses, "203.0.113.201", api.Balancer{}}}
	for _, o := range objects {
		err = errors.Join(err, api.Make(ctx, w.api, o.kind, o.id, o.object))
	}
	intact = func(ctx context.Context) error {
		for _, o := range objects {
			now, err := api.Get[api.Balancer](ctx, w.api, o.kind, o.id)
			if err != nil || !reflect.DeepEqual(now, o.object) {
				return fmt.Errorf("%s/%s was %+v and is %+v (%w)", o.kind, o.id, o.object, now, err)
			}
		}
		return nil
	}
	remove = func(ctx context.Context) error {
		var errs []error
		for _, o := range objects {
			errs = append(errs, gone(api.Delete(ctx, w.api, o.kind, o.id)))
		}
		return errors.Join(errs...)
	}
	return intact, remove, err
}

func routeID(r cloud.Route) string { return strings.ReplaceAll(r.Destination.String(), "/", "_") }

func (w *world) AddRoute(ctx context.Context, r cloud.Route) error {
	return api.Make(ctx, w.api, api.Routes, routeID(r), api.Route{Destination: r.Destination, Target: r.Target})
}

func (w *world) RemoveRoute(ctx context.Context, r cloud.Route) error {
	return gone(api.Delete(ctx, w.api, api.Routes, routeID(r)))
}

func (w *world) Routes(ctx context.Context) ([]cloud.Route, error) {
	all, err := api.List[api.Route](ctx, w.api, api.Routes)
	alive, err2 := api.List[api.Instance](ctx, w.api, api.Instances)
	var out []cloud.Route
	for _, r := range all {
		if _, found := alive[strings.TrimPrefix(r.Target, scheme)]; !found {
			r.Target = ""
		}
		out = append(out, cloud.Route{Destination: r.Destination, Target: r.Target, Blackhole: r.Target == ""})
	}
	return out, errors.Join(err, err2)
}

func (w *world) MakeVolume(context.Context) (*corev1.PersistentVolume, string, error) {
	return nil, "", errors.New("there are no volumes")
}

func (w *world) DeleteVolume(context.Context, *corev1.PersistentVolume) error { return nil }

func (w *world) Throttle() (undo func(), reason string) {
	file := w.file("throttled")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err.Error()
	}
	return func() { _ = os.Remove(file) }, ""
}

func (w *world) Left(ctx context.Context, ref cloud.LoadBalancerRef) ([]string, error) {
	var out []string
	var errs []error
	for _, kind := range []string{api.Balancers, api.Addresses} {
		all, err := api.List[api.Balancer](ctx, w.api, kind)
		errs = append(errs, err)
		for id, o := range all {
			if o.Owner.ServiceUID == ref.UID {
				out = append(out, kind+"/"+id)
			}
		}
	}
	return out, errors.Join(errs...)
}

func (w *world) Everything(ctx context.Context) ([]string, error) {
	var out []string
	var errs []error
	for _, kind := range api.Kinds() {
		all, err := api.List[any](ctx, w.api, kind)
		errs = append(errs, err)
		for _, id := range slices.Sorted(maps.Keys(all)) {
			out = append(out, kind+"/"+id)
		}
	}
	return out, errors.Join(errs...)
}
