package neutron

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inflight"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// FloatingIP is a floating IP as Neutron answers it.
type FloatingIP struct {
	ID          string `json:"id"`
	Address     string `json:"floating_ip_address"`
	PortID      string `json:"port_id"`
	Description string `json:"description"`
	ProjectID   string `json:"project_id"`
}

// FloatingIPs reads and changes floating IPs. Whose they are is not its matter, and it remembers
// nothing of them.
type FloatingIPs struct {
	c       *api.Client
	lookUps *batcher.Batcher[string, cloud.Result[[]FloatingIP]]
	// creates bounds how many are asked for at a time: Neutron has to repeat what others' changes of the
	// same router and pool come in between.
	creates inflight.Limit
}

// lookUpDeadline bounds one read of what several operations ask for.
const lookUpDeadline = time.Minute

// NewFloatingIPs makes the floating IPs of a region.
func NewFloatingIPs(c *api.Client) *FloatingIPs {
	return &FloatingIPs{c: c, lookUps: batcher.New[string, cloud.Result[[]FloatingIP]](batcher.Options{Deadline: lookUpDeadline})}
}

// OfPort are the floating IPs of a port, read together with those that others ask for.
func (s *FloatingIPs) OfPort(ctx context.Context, port string) ([]FloatingIP, error) {
	all, err := s.lookUps.Do(ctx, []string{port}, s.ofPorts)
	if err != nil {
		return nil, fmt.Errorf("wait for the floating IPs of port %s: %w", port, err)
	}
	return slices.Clone(all[port].Value), all[port].Err
}

// OfPorts are the floating IPs of ports, each with its PortID, in as few calls as keep the URL short.
func (s *FloatingIPs) OfPorts(ctx context.Context, ports []string) ([]FloatingIP, error) {
	ports = slices.Sorted(slices.Values(ports))
	op := s.c.On(ctx, api.Network, "list floating IPs with port_id "+strings.Join(ports[:min(len(ports), api.FewIDs)], ", "))
	return api.ListBy[FloatingIP](ctx, op, "floatingips", "port_id", url.Values{"port_id": ports})
}

func (s *FloatingIPs) ofPorts(ctx context.Context, ports []string) map[string]cloud.Result[[]FloatingIP] {
	fips, err := s.OfPorts(ctx, ports)
	out := make(map[string]cloud.Result[[]FloatingIP], len(ports))
	for _, port := range ports {
		out[port] = cloud.Result[[]FloatingIP]{Err: err}
	}
	for _, f := range fips {
		r := out[f.PortID]
		r.Value = append(r.Value, f)
		out[f.PortID] = r
	}
	return out
}

// Own are the project's floating IPs whose field has the value: an administrator sees those of
// others as well.
func (s *FloatingIPs) Own(ctx context.Context, field, value string) ([]FloatingIP, error) {
	op := s.c.On(ctx, api.Network, "list floating IPs with "+field+" "+value)
	fips, err := api.List[FloatingIP](ctx, op, "floatingips", url.Values{field: {value}})
	if err != nil {
		return nil, err
	}
	project := api.ProjectOf(op.Client())
	return slices.DeleteFunc(fips, func(f FloatingIP) bool { return project != "" && f.ProjectID != "" && f.ProjectID != project }), nil
}

// Create makes one. With a port it is attached from its first moment on, so that a crash cannot
// leave one that nothing points to.
func (s *FloatingIPs) Create(ctx context.Context, opts floatingips.CreateOpts) (*FloatingIP, error) {
	op := "create floating IP in network " + opts.FloatingNetworkID
	if opts.SubnetID != "" {
		op += ", subnet " + opts.SubnetID
	}
	made := FloatingIP{}
	err := s.c.On(ctx, api.Network, op).Call(func(sc *gophercloud.ServiceClient) error {
		err := s.creates.Do(ctx, func() error { return floatingips.Create(ctx, sc, opts).ExtractInto(&made) })
		if err == nil && made.Address == "" {
			err = errors.New("the answer has none")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(2).Info("Created floating IP", "floatingIP", made.Address, "port", opts.PortID)
	return &FloatingIP{ID: made.ID, Address: made.Address, PortID: opts.PortID, Description: opts.Description}, nil
}

// Attach has it lead to a port.
func (s *FloatingIPs) Attach(ctx context.Context, f *FloatingIP, portID string) error {
	klog.FromContext(ctx).V(2).Info("Attaching floating IP", "floatingIP", f.Address, "port", portID)
	return s.update(ctx, "attach floating IP "+f.Address+" to port "+portID, f, portID)
}

// Detach has it lead nowhere; one that is gone does.
func (s *FloatingIPs) Detach(ctx context.Context, f *FloatingIP) error {
	klog.FromContext(ctx).V(2).Info("Detaching floating IP", "floatingIP", f.Address)
	return cloud.IgnoreNotFound(s.update(ctx, "detach floating IP "+f.Address, f, ""))
}

func (s *FloatingIPs) update(ctx context.Context, op string, f *FloatingIP, portID string) error {
	return s.c.On(ctx, api.Network, op).Call(func(sc *gophercloud.ServiceClient) error {
		return floatingips.Update(ctx, sc, f.ID, floatingips.UpdateOpts{PortID: &portID}).Err
	})
}

// Delete gives it back; one that is gone is.
func (s *FloatingIPs) Delete(ctx context.Context, f *FloatingIP) error {
	klog.FromContext(ctx).V(2).Info("Deleting floating IP", "floatingIP", f.Address)
	return cloud.IgnoreNotFound(s.c.On(ctx, api.Network, "delete floating IP "+f.Address).Call(func(sc *gophercloud.ServiceClient) error {
		return floatingips.Delete(ctx, sc, f.ID).Err
	}))
}
