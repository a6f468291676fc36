// Package paper is the small cloud of docs/add-a-cloud.md: files in a folder. No binary that is released has it.
package paper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	api "github.com/isthmus-cloud/isthmus/docs/examples/paperapi"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Name is the value of --cloud-provider, scheme what provider IDs begin with.
const Name, scheme = "paper", "paper:///"

type config struct {
	Folder, Region   string
	Key              cloudauth.Secret
	Public, Internal []netip.Prefix // of load balancers' addresses
}

// New implements cloud.Factory.
func New(_ context.Context, file string, o cloud.Options) (*cloud.Provider, []string, error) {
	c := &client{options: o}
	data, err := cloudauth.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalStrict(data, &c.config)
	}
	if err == nil && (c.Folder == "" || c.Region == "" || c.Key.IsEmpty()) {
		err = errors.New("folder, region and key are required")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("configuration %s: %w", file, err)
	}
	c.api = &api.Client{Folder: c.Folder, Key: c.Key.Reveal(), Around: c.call}
	return &cloud.Provider{
		Name: Name, Ready: cloud.ReadyOnce(c.check), Instances: instances{c}, GivesPodCIDRs: true,
		LoadBalancers: balancers{c}, Annotations: annotations,
		LoadBalancing: cloud.LoadBalancerTraits{NodePorts: true, Classes: cloud.OwnClasses(Name)},
		Routes:        routes{c}, Routing: cloud.RouteTraits{ToInstance: true, OneHop: true},
	}, nil, nil
}

type client struct {
	config
	api     *api.Client
	options cloud.Options
}

// call stands around every request to the cloud.
func (c *client) call(ctx context.Context, r api.Request, send func() error) error {
	if r.Mutates && c.options.DryRun {
		klog.FromContext(ctx).Info("Dry run: the cloud would be changed", "operation", r.Op, "object", r.Object, "content", string(r.Content))
		return nil
	}
	end, err := c.options.Begin(ctx, cloud.Request{Family: Name, Place: c.Folder, Op: r.Op, Object: r.Object, Mutates: r.Mutates})
	if err != nil {
		return err
	}
	err = send()
	end(cloud.Outcome{Throttled: errors.Is(err, api.ErrBusy)})
	return explain(r.Op+" "+r.Object, err)
}

// kinds are what the cloud's errors mean. All others are of KindUnknown.
var kinds = map[error]cloud.Kind{
	api.ErrAway: cloud.KindUnavailable, api.ErrKey: cloud.KindDenied, api.ErrBusy: cloud.KindThrottled,
	api.ErrNone: cloud.KindNotFound, api.ErrExists: cloud.KindStale, os.ErrPermission: cloud.KindDenied,
}

// explain gives an error its kind.
func explain(op string, err error) error {
	if err == nil {
		return nil
	}
	kind := cloud.KindUnknown
	for is, k := range kinds {
		if errors.Is(err, is) {
			kind = k
		}
	}
	return &cloud.Error{Kind: kind, Op: op, Err: err}
}

func (c *client) check(ctx context.Context) error {
	_, err := api.List[api.Instance](ctx, c.api, api.Instances)
	return err
}

type instances struct{ *client }

// Find implements cloud.Instances.
func (c instances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	all, failed := api.List[api.Instance](ctx, c.api, api.Instances)
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	for n, ref := range refs {
		out[n].Value, out[n].Err = c.instance(ref, func(id string) (api.Instance, error) {
			if i, found := all[id]; found || failed != nil {
				return i, failed
			}
			return api.Instance{}, cloud.Errorf(cloud.KindNotFound, "there is no instance %s", id)
		})
	}
	return out
}

// Get implements cloud.Instances.
func (c instances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	return c.instance(ref, func(id string) (api.Instance, error) { return api.Get[api.Instance](ctx, c.api, api.Instances, id) })
}

// instance is what read, by its ID, says about ref's. The ID is also its name and the Node's.
func (c instances) instance(ref cloud.InstanceRef, read func(id string) (api.Instance, error)) (*cloud.Instance, error) {
	id, ours := strings.CutPrefix(ref.ProviderID, scheme)
	if ref.ProviderID == "" {
		id, ours = ref.NodeName, true
	}
	if !ours || !api.ValidID(id) {
		return nil, cloud.Errorf(cloud.KindInvalid, "%.100q is not of the form %sNAME", ref.ProviderID, scheme)
	}
	i, err := read(id)
	if err != nil {
		return nil, err
	}
	out := &cloud.Instance{ProviderID: scheme + id, Name: id, Type: i.Type, Zone: i.Zone, Region: c.Region, Scope: c.Folder,
		MachineIDs: []string{i.MachineID}, PodCIDRs: i.PodCIDRs, Shutdown: i.Off}
	for _, a := range i.Addresses {
		out.Addresses = append(out.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	return out, nil
}

const (
	annID       = "paper.example.com/load-balancer-id"
	annInternal = "paper.example.com/internal"
	annHostname = "paper.example.com/hostname"
	annProxy    = "paper.example.com/proxy-protocol"
)

var annotations = []cloud.Annotation{
	{Name: annID, Type: cloud.TypeString, Written: true, Doc: "The ID of the load balancer."},
	{Name: annInternal, Type: cloud.TypeBool, Doc: "Take an address of `internal` in place of `public`."},
	{Name: annHostname, Type: cloud.TypeHostname, Doc: "What is published in place of the addresses."},
	{Name: annProxy, Type: cloud.TypeBool, Doc: "Tell the nodes by the PROXY protocol, version 2, who the client is."},
}

// owned are the IDs of those that are the Service's.
func owned(spec *cloud.LoadBalancerSpec, all map[string]api.Balancer) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(id string) bool {
		return cloud.Judge(cloud.Mark(all[id].Owner), cloud.Evidence{}, spec.LoadBalancerRef) != cloud.Ours
	})
}

type balancers struct{ *client }

// Ensure implements cloud.LoadBalancers.
func (c balancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	all, err := api.List[api.Balancer](ctx, c.api, api.Balancers)
	if err != nil {
		return nil, err
	}
	id, own := spec.Settings.String(annID, ""), owned(spec, all)
	if _, found := all[id]; found && !slices.Contains(own, id) {
		return nil, cloud.Errorf(cloud.KindUnsupported, "load balancer %s is another's, and none can be shared", id)
	}
	if id = api.NewID(); len(own) > 0 {
		id = own[0]
	}
	taken, err := api.List[api.Balancer](ctx, c.api, api.Addresses)
	if err != nil {
		return nil, err
	}
	want, out := desired(spec), &cloud.LoadBalancerStatus{ID: id, Annotations: map[string]string{annID: id}}
	for _, family := range spec.IPFamilies {
		a, err := c.address(ctx, spec, family, taken)
		if err != nil {
			return nil, err
		}
		want.Addresses, out.Ingress = append(want.Addresses, a), append(out.Ingress, corev1.LoadBalancerIngress{IP: a.String()})
	}
	if name := spec.Settings.String(annHostname, ""); name != "" {
		out.Ingress = []corev1.LoadBalancerIngress{{Hostname: name}}
	}
	if err := c.set(ctx, id, all[id], want); err != nil {
		return nil, err
	}
	return out, c.release(ctx, spec, api.Addresses, taken, want.Addresses...)
}

// desired is the load balancer that the Service wants, without addresses.
func desired(spec *cloud.LoadBalancerSpec) api.Balancer {
	out := api.Balancer{Owner: api.Owner(spec.Mark())}
	for _, p := range spec.Ports {
		out.Listeners = append(out.Listeners, api.Listener{Protocol: string(p.Protocol), Port: p.Port, NodePort: p.NodePort,
			Members: spec.Targets(p.NodePort, nil), Clients: spec.SourceRanges, Affinity: spec.SessionAffinityTimeout,
			Check: (*api.Check)(spec.HealthCheck), Proxy: spec.Settings.Bool(annProxy, false)})
	}
	return out
}

// address is the Service's of an IP family: one that it has, or else one that it takes.
func (c balancers) address(ctx context.Context, spec *cloud.LoadBalancerSpec, family corev1.IPFamily, taken map[string]api.Balancer) (netip.Addr, error) {
	ranges, kind := c.Public, cloud.KindQuota
	if spec.Settings.Bool(annInternal, false) {
		ranges = c.Internal
	}
	if ip := spec.LoadBalancerIP; ip.IsValid() && cloud.FamilyOf(ip) == family { // the user's own
		ranges, kind = []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}, cloud.KindConflict
	}
	own := owned(spec, taken)
	fits := func(a netip.Addr) bool {
		return cloud.FamilyOf(a) == family && slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
	}
	if i := slices.IndexFunc(own, func(id string) bool { a, _ := netip.ParseAddr(id); return fits(a) }); i >= 0 {
		return netip.ParseAddr(own[i])
	}
	for _, r := range ranges {
		for a := r.Addr(); fits(a) && r.Contains(a); a = a.Next() {
			if _, found := taken[a.String()]; found {
				continue
			}
			if err := api.Make(ctx, c.api, api.Addresses, a.String(), api.Balancer{Owner: api.Owner(spec.Mark())}); cloud.KindOf(err) != cloud.KindStale {
				return a, err
			}
		}
	}
	return netip.Addr{}, cloud.Errorf(kind, "no %s address of %v is free", family, ranges)
}

// set gives the load balancer what it is to have.
func (c balancers) set(ctx context.Context, id string, have, want api.Balancer) error {
	if reflect.DeepEqual(have, want) {
		return nil
	}
	return api.Set(ctx, c.api, api.Balancers, id, want)
}

// release deletes what is the Service's but for what it keeps.
func (c balancers) release(ctx context.Context, spec *cloud.LoadBalancerSpec, kind string, all map[string]api.Balancer, keep ...netip.Addr) error {
	for _, id := range owned(spec, all) {
		if slices.ContainsFunc(keep, func(a netip.Addr) bool { return a.String() == id }) {
			continue
		}
		if err := cloud.IgnoreNotFound(api.Delete(ctx, c.api, kind, id)); err != nil {
			return err
		}
	}
	return nil
}

// UpdateMembers implements cloud.LoadBalancers.
func (c balancers) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	all, err := api.List[api.Balancer](ctx, c.api, api.Balancers)
	if err == nil && len(owned(spec, all)) == 0 {
		return cloud.Errorf(cloud.KindNotFound, "Service %s/%s has no load balancer", spec.Namespace, spec.Name)
	}
	for _, id := range owned(spec, all) {
		want := all[id]
		want.Listeners = slices.Clone(want.Listeners)
		for n, l := range want.Listeners {
			want.Listeners[n].Members = spec.Targets(l.NodePort, l.Members)
		}
		if err := c.set(ctx, id, all[id], want); err != nil {
			return err
		}
	}
	return err
}

// Delete implements cloud.LoadBalancers. An address is given up when nothing serves there any more.
func (c balancers) Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	for _, kind := range []string{api.Balancers, api.Addresses} {
		all, err := api.List[api.Balancer](ctx, c.api, kind)
		if err == nil {
			err = c.release(ctx, spec, kind, all)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type routes struct{ *client }

// table returns all routes; those to an instance that is gone have no Target. It reads them before the instances, as else
// one to a new instance might seem to be such a one.
func (c routes) table(ctx context.Context) (map[string]api.Route, error) {
	all, err := api.List[api.Route](ctx, c.api, api.Routes)
	if err != nil {
		return nil, err
	}
	alive, err := api.List[api.Instance](ctx, c.api, api.Instances)
	for id, r := range all {
		if _, found := alive[strings.TrimPrefix(r.Target, scheme)]; !found {
			r.Target = ""
			all[id] = r
		}
	}
	return all, err
}

// List implements cloud.Routes.
func (c routes) List(ctx context.Context, cluster cloud.Cluster) ([]cloud.Route, error) {
	all, err := c.table(ctx)
	var out []cloud.Route
	for id, r := range all {
		inside := slices.ContainsFunc(cluster.PodCIDRs, func(p netip.Prefix) bool { return p.Overlaps(r.Destination) && p.Bits() <= r.Destination.Bits() })
		if ours := r.ClusterUID == cluster.UID; ours || inside {
			out = append(out, cloud.Route{Destination: r.Destination, Target: r.Target, Blackhole: r.Target == "", ID: id, Ours: ours})
		}
	}
	return out, err
}

// Apply implements cloud.Routes. What is somebody else's and leads somewhere stays.
func (c routes) Apply(ctx context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	all, failed := c.table(ctx)
	out := make([]error, len(add)+len(remove))
	for n, r := range slices.Concat(add, remove) {
		id := strings.ReplaceAll(r.Destination.String(), "/", "_")
		have, found := all[id]
		want := api.Route{Destination: r.Destination, Target: r.Target, ClusterUID: cluster.UID}
		same := found && have.Target == want.Target
		switch adds := n < len(add); {
		case failed != nil:
			out[n] = failed
		case adds && have == want, !adds && !same: // done
		case have.Target != "" && have.ClusterUID != cluster.UID && (have.ClusterUID != "" || !same):
			out[n] = cloud.Errorf(cloud.KindConflict, "the route to %s is somebody else's and leads to %s", r.Destination, have.Target)
		case !adds:
			out[n] = cloud.IgnoreNotFound(api.Delete(ctx, c.api, api.Routes, id))
		case found:
			out[n] = api.Set(ctx, c.api, api.Routes, id, want)
		default:
			out[n] = api.Make(ctx, c.api, api.Routes, id, want)
		}
	}
	return out
}
