package neutron

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// SecurityGroup is a security group with its rules, as Neutron answers it.
type SecurityGroup struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	ProjectID string   `json:"project_id"`
	Tags      []string `json:"tags"`
	Rules     []Rule   `json:"security_group_rules"`
}

// Rule is one rule of a group as Neutron answers it; null is the zero value.
type Rule struct {
	ID          string `json:"id"`
	Direction   string `json:"direction"`
	EtherType   string `json:"ethertype"`
	Protocol    string `json:"protocol"`
	Min         int    `json:"port_range_min"`
	Max         int    `json:"port_range_max"`
	Prefix      string `json:"remote_ip_prefix"`
	RemoteGroup string `json:"remote_group_id"`
}

// Key is all that makes two rules the same.
func (r Rule) Key() string {
	prefix := r.Prefix
	if p, err := netip.ParsePrefix(prefix); err == nil {
		prefix = p.Masked().String()
	}
	return strings.Join([]string{r.Direction, r.EtherType, strings.ToLower(r.Protocol), fmt.Sprint(r.Min), fmt.Sprint(r.Max), prefix, r.RemoteGroup}, "|")
}

// SecurityGroups reads and changes security groups, and which ports have them. Whose they are is not
// its matter, and it remembers nothing of them.
type SecurityGroups struct {
	c          *api.Client
	ports      *joint.Objects[Membership, Placement]
	extensions Extensions
}

// NewSecurityGroups makes the security groups of a region. Options say how changes of ports are
// gathered.
func NewSecurityGroups(c *api.Client, o joint.Options) *SecurityGroups {
	s := &SecurityGroups{c: c}
	s.ports = joint.New(s.place, o)
	return s
}

// Named are the project's groups of a name, in the order of their IDs.
func (s *SecurityGroups) Named(ctx context.Context, name string) ([]SecurityGroup, error) {
	op := s.c.On(ctx, api.Network, "find security group "+name)
	all, err := api.List[SecurityGroup](ctx, op, "security-groups", url.Values{"name": {name}})
	if err != nil {
		return nil, err
	}
	project := api.ProjectOf(op.Client())
	all = slices.DeleteFunc(all, func(g SecurityGroup) bool {
		return g.Name != name || project != "" && g.ProjectID != "" && g.ProjectID != project
	})
	slices.SortFunc(all, func(a, b SecurityGroup) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Names are those of all groups.
func (s *SecurityGroups) Names(ctx context.Context) (map[string]bool, error) {
	all, err := api.List[SecurityGroup](ctx, s.c.On(ctx, api.Network, "list security groups"), "security-groups", url.Values{"fields": {"id", "name"}})
	names := map[string]bool{}
	for _, g := range all {
		names[g.Name] = true
	}
	return names, err
}

// Create makes a group, with the rules that Neutron gives each one.
func (s *SecurityGroups) Create(ctx context.Context, name, description string) (*SecurityGroup, error) {
	var doc struct {
		Group SecurityGroup `json:"security_group"`
	}
	err := s.c.On(ctx, api.Network, "create security group "+name).Call(func(sc *gophercloud.ServiceClient) error {
		err := groups.Create(ctx, sc, groups.CreateOpts{Name: name, Description: description}).ExtractInto(&doc)
		if err == nil && doc.Group.ID == "" {
			err = errors.New("the answer has no ID")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(2).Info("Created security group", "securityGroup", doc.Group.ID, "name", name)
	return &doc.Group, nil
}

// AddRules makes rules of a group, all or none.
func (s *SecurityGroups) AddRules(ctx context.Context, group string, add []Rule) error {
	opts := make([]rules.CreateOpts, 0, len(add))
	for _, r := range add {
		opts = append(opts, rules.CreateOpts{SecGroupID: group, Direction: rules.RuleDirection(r.Direction), EtherType: rules.RuleEtherType(r.EtherType),
			Protocol: rules.RuleProtocol(r.Protocol), PortRangeMin: r.Min, PortRangeMax: r.Max, RemoteIPPrefix: r.Prefix})
	}
	klog.FromContext(ctx).V(2).Info("Creating rules of security group", "securityGroup", group, "rules", len(opts))
	return s.c.On(ctx, api.Network, "create rules of security group "+group).Call(func(sc *gophercloud.ServiceClient) error {
		_, err := rules.CreateBulk(ctx, sc, opts).Extract()
		return err
	})
}

// DeleteRule deletes a rule of a group; one that is gone is deleted.
func (s *SecurityGroups) DeleteRule(ctx context.Context, group string, r Rule) error {
	klog.FromContext(ctx).V(2).Info("Deleting rule of security group", "securityGroup", group, "rule", r.Key())
	return cloud.IgnoreNotFound(s.c.On(ctx, api.Network, "delete security group rule "+r.ID).Call(func(sc *gophercloud.ServiceClient) error {
		return rules.Delete(ctx, sc, r.ID).ExtractErr()
	}))
}

// Delete deletes a group; one that is gone is deleted. KindConflict while a port has it.
func (s *SecurityGroups) Delete(ctx context.Context, g SecurityGroup) error {
	klog.FromContext(ctx).V(2).Info("Deleting security group", "securityGroup", g.ID, "name", g.Name)
	return cloud.IgnoreNotFound(s.c.On(ctx, api.Network, "delete security group "+g.ID).Call(func(sc *gophercloud.ServiceClient) error {
		return groups.Delete(ctx, sc, g.ID).ExtractErr()
	}))
}
