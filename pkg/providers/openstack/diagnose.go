package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// diagnosis implements cloud.Provider.Diagnose, of one region.
type diagnosis struct {
	client *api.Client
	cfg    *config.Config
	// loginExpiry is the session's, nil in further regions, which have the same.
	loginExpiry func(context.Context) (auth.Expiry, error)
	// unseen is a Diagnosis' Unseen.
	unseen []string
}

// look is one part of a diagnosis.
type look func(context.Context, *diagnosis) ([]cloud.Problem, error)

func (d *diagnosis) run(ctx context.Context) (found cloud.Diagnosis, err error) {
	d = &diagnosis{client: d.client, cfg: d.cfg, loginExpiry: d.loginExpiry} // it may be called more than once
	looks := []look{lookAtLogin, lookAtServices, lookAtRoles, lookAtNetworkNames, lookAtRouters, lookAtQuotas}
	if d.cfg.LoadBalancer.Enabled {
		looks = append(looks, lookAtLoadBalancing, lookAtFlavor, lookAtOctaviaQuotas)
		d.unseen = append(d.unseen, "whether load balancers, their listeners and floating IPs may be made, changed and deleted: OpenStack tells only who tries")
	}
	var errs []error
	for _, l := range looks {
		problems, err := l(ctx, d)
		found.Problems, errs = append(found.Problems, problems...), append(errs, err)
	}
	found.Unseen = d.unseen
	return found, errors.Join(errs...)
}

// loginEndsSoon is when it is time to care for another login. The alert IsthmusLoginExpires has the same.
const loginEndsSoon = 14 * 24 * time.Hour

// lookAtLogin asks when the login ends.
func lookAtLogin(ctx context.Context, d *diagnosis) ([]cloud.Problem, error) {
	if d.loginExpiry == nil {
		return nil, nil
	}
	e, err := d.loginExpiry(ctx)
	if errors.Is(err, auth.ErrNotTold) {
		d.unseen = append(d.unseen, "when the login ends: "+err.Error())
		return nil, nil
	}
	if err != nil || e.At.IsZero() || time.Until(e.At) >= loginEndsSoon {
		return nil, err
	}
	return []cloud.Problem{{Object: e.Of, What: fmt.Sprintf("it expires at %s: from then on the cloud refuses the controller manager", e.At.Format(time.RFC3339)), Warning: true,
		Next: "make a new one and write it into cloud.conf: it is taken over without a restart"}}, nil
}

// read is a collection that is read by one of the abilities, and what does not work without.
type read struct{ service, collection, purpose string }

// lookAtServices asks for one element of each collection that is used: policies of OpenStack refuse a whole collection.
func lookAtServices(ctx context.Context, d *diagnosis) (problems []cloud.Problem, err error) {
	reads := []read{
		{api.Compute, "servers", "no Node is found"},
		{api.Network, "ports", "addresses of servers, load balancers and routes are not found"},
		{api.BlockStorage, "volumes", "PersistentVolumes are not labeled"},
	}
	if lb := &d.cfg.LoadBalancer; lb.Enabled {
		reads = append(reads, read{api.LoadBalancer, "lbaas/loadbalancers", "Services of type LoadBalancer are not served"},
			read{api.Network, "floatingips", "load balancers get no public address"})
		if lb.ManageSecurityGroups {
			reads = append(reads, read{api.Network, "security-groups", "node ports are not opened"})
		}
	}
	var errs []error
	for _, r := range reads {
		_, err := d.first(ctx, r.service, r.collection)
		p := cloud.Problem{Object: r.service + " " + r.collection, What: fmt.Sprint(err, ": ", r.purpose), Warning: r.service == api.BlockStorage}
		switch kind := cloud.KindOf(err); {
		case err == nil:
		case kind == cloud.KindUnavailable || ctx.Err() != nil:
			errs = append(errs, err)
		case kind == cloud.KindDenied:
			p.Next = "give the user of cloud.conf a role that may use the service in the project, such as member (load-balancer_member for Octavia)"
			problems = append(problems, p)
		default:
			p.Next = "look whether the service is in the catalog of the region: openstack catalog list; where it is not wanted, turn off in cloud.conf what uses it"
			problems = append(problems, p)
		}
	}
	return problems, errors.Join(errs...)
}

// named is what a list is asked for.
type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// first reads the first element of a collection, and no other.
func (d *diagnosis) first(ctx context.Context, service, collection string) (found []named, err error) {
	err = api.Pages(ctx, d.client.On(ctx, service, "read "+collection), collection, url.Values{"limit": {"1"}}, func(items []named) bool {
		found = items
		return false
	})
	return found, err
}

// lookAtNetworkNames: networks of [Networking] that do not exist leave Nodes without addresses.
func lookAtNetworkNames(ctx context.Context, d *diagnosis) (problems []cloud.Problem, err error) {
	n := &d.cfg.Networking
	for key, names := range map[string][]string{"public-network-name": n.PublicNetworkName, "internal-network-name": n.InternalNetworkName} {
		for _, name := range names {
			found, err := api.List[named](ctx, d.client.On(ctx, api.Network, "find network "+name), "networks", url.Values{"name": {name}})
			if err != nil {
				return problems, err
			}
			if len(found) == 0 {
				problems = append(problems, cloud.Problem{Object: "network " + name, What: "no network has this name, which is " + key + " in [Networking] of cloud.conf: Nodes get no address of it",
					Next: "correct the name: openstack network list"})
			}
		}
	}
	return problems, nil
}

func lookAtRouters(ctx context.Context, d *diagnosis) (problems []cloud.Problem, err error) {
	var errs []error
	for _, id := range d.cfg.Route.RouterID {
		_, err := api.Get[named](ctx, d.client.On(ctx, api.Network, "get router "+id), "router", "routers", id)
		found, err := absent(err, "router "+id, "router-id in [Route] of cloud.conf names it: there are no pod routes", "openstack router list")
		problems, errs = append(problems, found...), append(errs, err)
	}
	return problems, errors.Join(errs...)
}

// absent makes a problem of an object that is not there or may not be read, and leaves other errors as they are.
func absent(err error, object, role, command string) ([]cloud.Problem, error) {
	if kind := cloud.KindOf(err); kind != cloud.KindNotFound && kind != cloud.KindDenied && kind != cloud.KindInvalid {
		return nil, err
	}
	return []cloud.Problem{{Object: object, What: err.Error() + ": " + role, Next: "correct the ID, or let the project see the object: " + command}}, nil
}

// network and subnet are as much of them as is looked at.
type network struct {
	External bool `json:"router:external"`
}

type subnet struct {
	NetworkID string `json:"network_id"`
}

// place is a set of networks that load balancers use: [LoadBalancer] or a class.
type place struct {
	section                                                        string
	network, subnet, memberSubnet, externalNetwork, externalSubnet string
}

// lookAtLoadBalancing reads the networks and subnets that cloud.conf names for load balancers.
func lookAtLoadBalancing(ctx context.Context, d *diagnosis) (problems []cloud.Problem, err error) {
	lb := &d.cfg.LoadBalancer
	places := []place{{"[LoadBalancer]", lb.NetworkID, lb.SubnetID, lb.MemberSubnetID, lb.FloatingNetworkID, lb.FloatingSubnetID}}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.LoadBalancerClass)) {
		c := d.cfg.LoadBalancerClass[name]
		places = append(places, place{fmt.Sprintf("[LoadBalancerClass %q]", name), c.NetworkID, c.SubnetID, c.MemberSubnetID, c.FloatingNetworkID, c.FloatingSubnetID})
	}
	var errs []error
	for _, p := range places {
		found, err := d.networks(ctx, p)
		problems, errs = append(problems, found...), append(errs, err)
	}
	return problems, errors.Join(errs...)
}

func (d *diagnosis) networks(ctx context.Context, p place) (problems []cloud.Problem, err error) {
	var errs []error
	for _, x := range []struct {
		key, id  string
		external bool
	}{{"network-id", p.network, false}, {"floating-network-id", p.externalNetwork, true}} {
		if x.id == "" {
			continue
		}
		role := x.key + " in " + p.section + " of cloud.conf names it"
		n, err := api.Get[network](ctx, d.client.On(ctx, api.Network, "get network "+x.id), "network", "networks", x.id)
		found, failed := absent(err, "network "+x.id, role, "openstack network list")
		if err == nil && x.external && !n.External {
			found = append(found, cloud.Problem{Object: "network " + x.id, What: role + ", and it is no external network: load balancers get no floating IP of it",
				Next: "name an external network: openstack network list --external"})
		}
		problems, errs = append(problems, found...), append(errs, failed)
	}
	for _, x := range []struct{ key, id, network, networkKey string }{
		{"subnet-id", p.subnet, p.network, "network-id"}, {"member-subnet-id", p.memberSubnet, "", ""}, {"floating-subnet-id", p.externalSubnet, p.externalNetwork, "floating-network-id"},
	} {
		if x.id == "" {
			continue
		}
		role := x.key + " in " + p.section + " of cloud.conf names it"
		s, err := api.Get[subnet](ctx, d.client.On(ctx, api.Network, "get subnet "+x.id), "subnet", "subnets", x.id)
		found, failed := absent(err, "subnet "+x.id, role, "openstack subnet list")
		if err == nil && x.network != "" && s.NetworkID != x.network {
			found = append(found, cloud.Problem{Object: "subnet " + x.id, What: fmt.Sprintf("%s, and it is of network %s, not of %s (%s)", role, s.NetworkID, x.network, x.networkKey),
				Next: "name a subnet of that network, or leave one of the two keys out"})
		}
		problems, errs = append(problems, found...), append(errs, failed)
	}
	return problems, errors.Join(errs...)
}

func lookAtFlavor(ctx context.Context, d *diagnosis) ([]cloud.Problem, error) {
	id := d.cfg.LoadBalancer.FlavorID
	if id == "" {
		return nil, nil
	}
	all, err := api.List[named](ctx, d.client.On(ctx, api.LoadBalancer, "list flavors"), "lbaas/flavors", nil)
	if err != nil || slices.ContainsFunc(all, func(f named) bool { return f.ID == id }) {
		return nil, err
	}
	return []cloud.Problem{{Object: "load balancer flavor " + id, What: "it does not exist, and flavor-id in [LoadBalancer] of cloud.conf names it: no load balancer is made",
		Next: "correct the ID: openstack loadbalancer flavor list"}}, nil
}

// writers are the roles that may change what is their project's by the services' default policies.
func writers() []string {
	return []string{"admin", "manager", "member", "_member_", "load-balancer_member", "load-balancer_admin"}
}

// lookAtRoles reads the token's roles: one that has none of those that may write can be given rights by policies of the cloud's own alone.
func lookAtRoles(ctx context.Context, d *diagnosis) ([]cloud.Problem, error) {
	op := d.client.On(ctx, api.Network, "read the token's roles")
	if op.Client() == nil {
		return nil, nil // lookAtServices has told
	}
	roles := api.RolesOf(op.Client())
	if len(roles) == 0 || slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(writers(), strings.ToLower(r)) }) {
		return nil, nil
	}
	if !d.cfg.LoadBalancer.Enabled && len(d.cfg.Route.RouterID) == 0 {
		return nil, nil // nothing is changed
	}
	return []cloud.Problem{{Object: "roles of the token", What: fmt.Sprintf("they are %s: by the services' default policies none of them may change anything", strings.Join(roles, ", ")), Warning: true,
		Next: "give the user, or the application credential, the role member in the project"}}, nil
}

// quota is how much of something a project may have, and has.
type quota struct {
	Limit    int `json:"limit"` // -1 for no limit
	Used     int `json:"used"`
	Reserved int `json:"reserved"`
}

// hidden notes that a cloud does not tell a project its quotas, which is no fault: the extension is missing, or a policy hides them.
func (d *diagnosis) hidden(of string, err error) {
	d.unseen = append(d.unseen, fmt.Sprintf("quotas of %s: %v", of, err))
}

// lookAtQuotas reads what is left of Neutron's quotas.
func lookAtQuotas(ctx context.Context, d *diagnosis) (problems []cloud.Problem, err error) {
	kinds := []string{"port"}
	if lb := &d.cfg.LoadBalancer; lb.Enabled {
		kinds = append(kinds, "floatingip")
		if lb.ManageSecurityGroups {
			kinds = append(kinds, "security_group", "security_group_rule")
		}
	}
	op := d.client.On(ctx, api.Network, "read quotas")
	if op.Client() == nil {
		return nil, nil // lookAtServices has told
	}
	of, err := api.Get[map[string]quota](ctx, op, "quota", "quotas", api.ProjectOf(op.Client()), "details.json")
	if kind := cloud.KindOf(err); kind == cloud.KindUnavailable || ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		d.hidden("Neutron", err)
		return nil, nil
	}
	for _, kind := range kinds {
		if q, ok := (*of)[kind]; ok && q.Limit >= 0 && q.Used+q.Reserved >= q.Limit {
			problems = append(problems, cloud.Problem{Object: "quota " + kind, What: fmt.Sprintf("%d of %d are used: no further one can be made", q.Used+q.Reserved, q.Limit),
				Next: "delete what nobody needs, or have the quota raised", Warning: true})
		}
	}
	return problems, nil
}

// lookAtOctaviaQuotas counts what there is of what Octavia has limits on: it does not tell how much is used.
func lookAtOctaviaQuotas(ctx context.Context, d *diagnosis) (problems []cloud.Problem, err error) {
	op := d.client.On(ctx, api.LoadBalancer, "read quotas")
	if op.Client() == nil {
		return nil, nil // lookAtServices has told
	}
	project := api.ProjectOf(op.Client())
	of, err := api.Get[map[string]*int](ctx, op, "quota", "lbaas/quotas", project)
	if kind := cloud.KindOf(err); kind == cloud.KindUnavailable || ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		d.hidden("Octavia", err)
		return nil, nil
	}
	for _, kind := range []struct{ name, older, collection string }{ // older is the name up to Train
		{"load_balancer", "loadbalancer", "loadbalancers"}, {"listener", "", "listeners"}, {"pool", "", "pools"}, {"member", "", "pools"}, {"health_monitor", "healthmonitor", "healthmonitors"},
	} {
		limit := cmp.Or((*of)[kind.name], (*of)[kind.older])
		if limit == nil || *limit < 0 {
			continue
		}
		all, err := api.List[counted](ctx, d.client.On(ctx, api.LoadBalancer, "count "+kind.collection), "lbaas/"+kind.collection, url.Values{"project_id": {project}})
		if err != nil {
			return problems, err
		}
		used := len(all)
		if kind.name == "member" {
			used = 0
			for _, pool := range all {
				used += len(pool.Members)
			}
		}
		if used >= *limit {
			problems = append(problems, cloud.Problem{Object: "quota " + kind.name, What: fmt.Sprintf("%d of %d are used in Octavia: no further one can be made", used, *limit),
				Next: "delete what nobody needs, or have the quota raised: openstack loadbalancer quota show", Warning: true})
		}
	}
	return problems, nil
}

// counted is as much of Octavia's objects as counts. Pools have members.
type counted struct {
	Members []struct{} `json:"members"`
}
