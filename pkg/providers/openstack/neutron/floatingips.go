package neutron

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
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
type FloatingIPs struct{ c *api.Client }

// NewFloatingIPs makes the floating IPs of a region.
func NewFloatingIPs(c *api.Client) *FloatingIPs { return &FloatingIPs{c: c} }

// OfPorts are the floating IPs of ports, by port.
func (s *FloatingIPs) OfPorts(ctx context.Context, ports map[string]bool) (map[string][]FloatingIP, error) {
	sc, err := s.c.Network(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.Sorted(maps.Keys(ports))
	fips, err := api.ListIn[FloatingIP](ctx, sc, "floatingips", "floatingips", "port_id", all, nil)
	if err != nil {
		return nil, api.WrapError("list floating IPs with port_id "+strings.Join(all[:min(len(all), api.FewIDs)], ", "), err)
	}
	out := map[string][]FloatingIP{}
	for _, f := range fips {
		out[f.PortID] = append(out[f.PortID], f)
	}
	return out, nil
}

// Own are the project's floating IPs whose field has the value: an administrator sees those of
// others as well.
func (s *FloatingIPs) Own(ctx context.Context, field, value string) ([]FloatingIP, error) {
	sc, err := s.c.Network(ctx)
	if err != nil {
		return nil, err
	}
	fips, err := api.ListAll[FloatingIP](ctx, sc, "floatingips", url.Values{field: {value}}, "floatingips")
	project := api.ProjectOf(sc)
	return slices.DeleteFunc(fips, func(f FloatingIP) bool { return project != "" && f.ProjectID != "" && f.ProjectID != project }),
		api.WrapError("list floating IPs with "+field+" "+value, err)
}

// Create makes one. With a port it is attached from its first moment on, so that a crash cannot
// leave one that nothing points to.
func (s *FloatingIPs) Create(ctx context.Context, opts floatingips.CreateOpts) (*FloatingIP, error) {
	sc, err := s.c.Network(ctx)
	if err != nil {
		return nil, err
	}
	made := FloatingIP{}
	if err = floatingips.Create(ctx, sc, opts).ExtractInto(&made); err == nil && made.Address == "" {
		err = errors.New("the answer has none")
	}
	if err != nil {
		op := "create floating IP in network " + opts.FloatingNetworkID
		if opts.SubnetID != "" {
			op += ", subnet " + opts.SubnetID
		}
		return nil, api.WrapError(op, err)
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
	return ignoreNotFound(s.update(ctx, "detach floating IP "+f.Address, f, ""))
}

func (s *FloatingIPs) update(ctx context.Context, op string, f *FloatingIP, portID string) error {
	sc, err := s.c.Network(ctx)
	if err != nil {
		return err
	}
	return api.WrapError(op, floatingips.Update(ctx, sc, f.ID, floatingips.UpdateOpts{PortID: &portID}).Err)
}

// Delete gives it back; one that is gone is.
func (s *FloatingIPs) Delete(ctx context.Context, f *FloatingIP) error {
	klog.FromContext(ctx).V(2).Info("Deleting floating IP", "floatingIP", f.Address)
	sc, err := s.c.Network(ctx)
	if err != nil {
		return err
	}
	return ignoreNotFound(api.WrapError("delete floating IP "+f.Address, floatingips.Delete(ctx, sc, f.ID).Err))
}

func ignoreNotFound(err error) error {
	if cloud.IsNotFound(err) {
		return nil
	}
	return err
}
