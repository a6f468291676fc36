package ec2

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// SecurityGroup is a security group.
type SecurityGroup struct {
	store.Record
	ID, Name, Description string
	// VPCID is the default VPC by default.
	VPCID string
	Rules []Rule
	Tags  map[string]string
}

// Key is the ID.
func (g *SecurityGroup) Key() string { return g.ID }

func (g *SecurityGroup) clone() *SecurityGroup {
	out := *g
	out.Tags, out.Rules = maps.Clone(g.Tags), slices.Clone(g.Rules)
	return &out
}

// newGroup stores a group with the rules that new ones have: all may go out. Locked.
func (r *Region) newGroup(g SecurityGroup) *SecurityGroup {
	out := g.clone()
	out.Record = r.clock.Record()
	if out.ID == "" {
		out.ID = r.newID("sg")
	}
	if out.VPCID == "" {
		out.VPCID = r.vpcs.Where(func(v *VPC) bool { return v.Default })[0].ID
	}
	out.Rules = append(out.Rules, Rule{ID: r.newID("sgr"), Egress: true, Protocol: "-1", CIDR: "0.0.0.0/0"})
	if vpc := r.vpcs.Get(out.VPCID); vpc != nil && vpc.IPv6CIDR != "" {
		out.Rules = append(out.Rules, Rule{ID: r.newID("sgr"), Egress: true, Protocol: "-1", CIDR6: "::/0"})
	}
	r.groups.Put(out)
	return out
}

// AddSecurityGroup adds a group with its rules, and the rules that new ones have for what goes out. ID is made when it is empty.
// It returns the group.
func (r *Region) AddSecurityGroup(g SecurityGroup) *SecurityGroup {
	r.lock()
	defer r.mu.Unlock()
	rules := g.Rules
	g.Rules = nil
	out := r.newGroup(g)
	for _, rule := range rules {
		if rule.ID == "" {
			rule.ID = r.newID("sgr")
		}
		out.Rules = append(out.Rules, rule) // nobody has seen it yet
	}
	return out
}

// defaultGroup is a VPC's. Locked.
func (r *Region) defaultGroup(vpcID string) *SecurityGroup {
	return r.groups.Where(func(g *SecurityGroup) bool { return g.VPCID == vpcID && g.Name == "default" })[0]
}

// hiddenGroup reports whether a group cannot be seen yet. A VPC is never seen without its default one.
func (r *Region) hiddenGroup(g *SecurityGroup) bool { return g.Name != "default" && !r.visible(g) }

// SecurityGroups are those with these IDs, or all that can be seen.
func (r *Region) SecurityGroups(ids []string) ([]*SecurityGroup, error) {
	r.lock()
	defer r.mu.Unlock()
	return lookUp(&r.groups, "sg", ids, r.hiddenGroup)
}

// GroupName is a group's name, "" if there is none.
func (r *Region) GroupName(id string) string {
	r.lock()
	defer r.mu.Unlock()
	if g := r.groups.Get(id); g != nil {
		return g.Name
	}
	return ""
}

var groupText = regexp.MustCompile(`^[a-zA-Z0-9 ._:/()#,@\[\]+=&;{}!$*-]{1,255}$`)

// CreateSecurityGroup adds a group as the API does.
func (r *Region) CreateSecurityGroup(g SecurityGroup) (*SecurityGroup, error) {
	r.lock()
	defer r.mu.Unlock()
	for _, p := range [][2]string{{"groupName", g.Name}, {"groupDescription", g.Description}} {
		switch {
		case p[1] == "":
			return nil, query.Errorf("MissingParameter", "The request must contain the parameter %s", p[0])
		case !groupText.MatchString(p[1]): // unverified message
			return nil, query.Errorf("InvalidParameterValue",
				"Value (%s) for parameter %s is invalid. Character sets beyond ASCII are not supported.", p[1], p[0])
		}
	}
	if strings.HasPrefix(g.Name, "sg-") {
		return nil, query.Errorf("InvalidParameterValue",
			"Value (%s) for parameter groupName is invalid. Group names may not be in the format sg-*", g.Name)
	}
	if g.VPCID == "" {
		g.VPCID = r.vpcs.Where(func(v *VPC) bool { return v.Default })[0].ID
	}
	if _, err := get(&r.vpcs, "vpc", g.VPCID, nil); err != nil {
		return nil, err
	}
	same := r.groups.Where(func(o *SecurityGroup) bool { return o.VPCID == g.VPCID && strings.EqualFold(o.Name, g.Name) })
	if len(same) > 0 {
		return nil, query.Errorf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", g.Name, g.VPCID)
	}
	if len(r.groups.Where(func(o *SecurityGroup) bool { return o.VPCID == g.VPCID })) >= r.opts.GroupsPerVPC {
		return nil, query.Errorf("SecurityGroupLimitExceeded", "The maximum number of security groups for VPC '%s' has been reached.",
			g.VPCID)
	}
	if err := checkTags(g.Tags, nil); err != nil {
		return nil, err
	}
	return r.newGroup(g), nil
}

// DeleteSecurityGroup deletes a group that no interface has and no other group's rule names.
func (r *Region) DeleteSecurityGroup(id string) error {
	r.lock()
	defer r.mu.Unlock()
	g, err := get(&r.groups, "sg", id, r.hiddenGroup)
	if err != nil {
		return err
	}
	if g.Name == "default" {
		return query.Errorf("CannotDelete", "the specified group: \"%s\" name: \"%s\" cannot be deleted by a user", g.ID, g.Name)
	}
	used := r.interfaces.Any(func(n *NetworkInterface) bool { return slices.Contains(n.Groups, id) }) ||
		r.groups.Any(func(o *SecurityGroup) bool {
			return o.ID != id && slices.ContainsFunc(o.Rules, func(rule Rule) bool { return rule.Group == id })
		})
	if used {
		return query.Errorf("DependencyViolation", "resource %s has a dependent object", id)
	}
	r.groups.Remove(id)
	return nil
}
