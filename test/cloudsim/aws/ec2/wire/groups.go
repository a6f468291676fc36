package wire

import (
	"slices"
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

func (c *Call) groupFields() query.Fields[*ec2.SecurityGroup] {
	type group = *ec2.SecurityGroup
	fields := withTags(func(g group) map[string]string { return g.Tags }, query.Fields[group]{
		"description": is(func(g group) string { return g.Description }),
		"group-id":    is(func(g group) string { return g.ID }),
		"group-name":  is(func(g group) string { return g.Name }),
		"owner-id":    is(func(group) string { return c.Region.Account() }),
		"vpc-id":      is(func(g group) string { return g.VPCID }),
	})
	for name, get := range map[string]func(ec2.Rule) string{
		"cidr":           func(u ec2.Rule) string { return u.CIDR },
		"from-port":      func(u ec2.Rule) string { return portText(u, u.FromPort) },
		"group-id":       func(u ec2.Rule) string { return u.Group },
		"group-name":     func(u ec2.Rule) string { return c.Region.GroupName(u.Group) },
		"ipv6-cidr":      func(u ec2.Rule) string { return u.CIDR6 },
		"prefix-list-id": func(u ec2.Rule) string { return u.PrefixList },
		"protocol":       func(u ec2.Rule) string { return u.Protocol },
		"to-port":        func(u ec2.Rule) string { return portText(u, u.ToPort) },
		"user-id":        func(u ec2.Rule) string { return u.GroupOwner },
	} {
		for prefix, egress := range map[string]bool{"": false, "egress.": true} {
			fields[prefix+"ip-permission."+name] = of(func(g group) []string {
				return gather(g.Rules, func(u ec2.Rule) []string {
					if value := get(u); u.Egress == egress && value != "" {
						return []string{value}
					}
					return nil
				})
			})
		}
	}
	return fields
}

func portText(u ec2.Rule, port int) string {
	if !u.HasPorts() {
		return ""
	}
	return strconv.Itoa(port)
}

func (c *Call) describeSecurityGroups() error {
	names := c.In.Strings("GroupName")
	return list(c, "securityGroupInfo", listing[*ec2.SecurityGroup]{
		ids: "GroupId", set: "groupIdSet", least: 5, most: 1000, fields: c.groupFields(), // unverified: whether IDs go with MaxResults
		find: func(ids []string) ([]*ec2.SecurityGroup, error) {
			all, err := c.Region.SecurityGroups(ids)
			if err != nil || len(names) == 0 {
				return all, err
			}
			vpc := c.Region.DefaultVPC().ID // names are for the default VPC alone
			for _, name := range names {
				if !slices.ContainsFunc(all, func(g *ec2.SecurityGroup) bool { return g.Name == name && g.VPCID == vpc }) {
					return nil, query.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist in default VPC '%s'", name, vpc)
				}
			}
			return slices.DeleteFunc(all, func(g *ec2.SecurityGroup) bool {
				return g.VPCID != vpc || !slices.Contains(names,
					g.Name)
			}), nil
		},
	}, func(g *ec2.SecurityGroup) {
		w := c.Out
		w.Text("ownerId", c.Region.Account())
		w.Text("groupId", g.ID)
		w.Text("groupName", g.Name)
		w.Text("groupDescription", g.Description)
		w.Text("vpcId", g.VPCID)
		w.Text("securityGroupArn", "arn:aws:ec2:"+c.Region.Name()+":"+c.Region.Account()+":security-group/"+g.ID)
		c.writePermissions("ipPermissions", g.Rules, false)
		c.writePermissions("ipPermissionsEgress", g.Rules, true)
		c.writeTags(g.Tags)
	})
}

// writePermissions gathers rules of the same protocol and ports, as EC2 does.
func (c *Call) writePermissions(name string, rules []ec2.Rule, egress bool) {
	var permissions [][]ec2.Rule
	for _, u := range rules {
		if u.Egress != egress {
			continue
		}
		i := slices.IndexFunc(permissions, func(p []ec2.Rule) bool {
			return p[0].Protocol == u.Protocol && p[0].FromPort == u.FromPort && p[0].ToPort == u.ToPort
		})
		if i < 0 {
			i = len(permissions)
			permissions = append(permissions, nil)
		}
		permissions[i] = append(permissions[i], u)
	}
	w := c.Out
	query.List(w, name, permissions, func(p []ec2.Rule) {
		w.Text("ipProtocol", p[0].Protocol)
		if p[0].HasPorts() {
			w.Int("fromPort", p[0].FromPort)
			w.Int("toPort", p[0].ToPort)
		}
		for _, s := range sources {
			of := slices.DeleteFunc(slices.Clone(p), func(u ec2.Rule) bool { return *s.of(&u) == "" })
			query.List(w, s.element, of, func(u ec2.Rule) {
				if s.owned {
					w.Text("userId", u.GroupOwner)
				}
				w.Text(s.name, *s.of(&u))
				w.Text("description", u.Description)
			})
		}
	})
}

// sources are the four kinds of a rule's source.
var sources = []struct {
	element, name    string // of answers
	parameter, field string // of requests
	owned            bool
	of               func(*ec2.Rule) *string
}{
	{"groups", "groupId", "Groups", "GroupId", true, func(u *ec2.Rule) *string { return &u.Group }},
	{"ipRanges", "cidrIp", "IpRanges", "CidrIp", false, func(u *ec2.Rule) *string { return &u.CIDR }},
	{"ipv6Ranges", "cidrIpv6", "Ipv6Ranges", "CidrIpv6", false, func(u *ec2.Rule) *string { return &u.CIDR6 }},
	{"prefixListIds", "prefixListId", "PrefixListIds", "PrefixListId", false, func(u *ec2.Rule) *string { return &u.PrefixList }},
}

// rules are what a request says of rules: permissions, or one of them in parameters of its own.
func (c *Call) rules() ([]ec2.Rule, error) {
	var out []ec2.Rule
	for _, p := range c.In.Structs("IpPermissions") {
		base, err := ruleOf(p)
		if err != nil {
			return nil, err
		}
		before := len(out)
		for _, s := range sources {
			for _, item := range p.Structs(s.parameter) {
				u := base
				u.Description, u.GroupOwner, *s.of(&u) = item.Get("Description"), item.Get("UserId"), item.Get(s.field)
				out = append(out, u)
			}
		}
		if len(out) == before { // unverified code and message
			return nil, query.Errorf("InvalidRequest", "The request received was invalid.")
		}
	}
	if c.In.Get("CidrIp") != "" {
		u, err := ruleOf(c.In)
		if err != nil {
			return nil, err
		}
		u.CIDR = c.In.Get("CidrIp")
		out = append(out, u)
	}
	return out, nil
}

func ruleOf(p *query.Form) (ec2.Rule, error) {
	from, err := p.Int("FromPort", -1)
	if err != nil {
		return ec2.Rule{}, err
	}
	to, err := p.Int("ToPort", -1)
	if err != nil {
		return ec2.Rule{}, err
	}
	if p.Get("IpProtocol") == "" {
		return ec2.Rule{}, query.Errorf("MissingParameter", "The request must contain the parameter ipProtocol") // unverified message
	}
	return ec2.Rule{Protocol: p.Get("IpProtocol"), FromPort: from, ToPort: to}, nil
}

func (c *Call) authorizeIngress() error {
	id, err := c.required("GroupId")
	if err != nil {
		return err
	}
	rules, err := c.rules()
	if err != nil {
		return err
	}
	if len(rules) == 0 { // unverified message
		return query.Errorf("MissingParameter", "The request must contain the parameter ipPermissions")
	}
	added, err := c.Region.Authorize(id, rules)
	if err != nil {
		return err
	}
	c.Out.Bool("return", true)
	query.List(c.Out, "securityGroupRuleSet", added, func(u ec2.Rule) {
		w := c.Out
		w.Text("securityGroupRuleId", u.ID)
		w.Text("groupId", id)
		w.Text("groupOwnerId", c.Region.Account())
		w.Bool("isEgress", u.Egress)
		w.Text("ipProtocol", u.Protocol)
		from, to := u.FromPort, u.ToPort
		if !u.HasPorts() {
			from, to = -1, -1
		}
		w.Int("fromPort", from)
		w.Int("toPort", to)
		w.Text("cidrIpv4", u.CIDR)
		w.Text("cidrIpv6", u.CIDR6)
		w.Text("prefixListId", u.PrefixList)
		if u.Group != "" {
			w.Open("referencedGroupInfo")
			w.Text("groupId", u.Group)
			w.Text("userId", u.GroupOwner)
			w.Close()
		}
		w.Text("description", u.Description)
	})
	return nil
}

func (c *Call) revokeIngress() error {
	id, err := c.required("GroupId")
	if err != nil {
		return err
	}
	rules, err := c.rules()
	if err != nil {
		return err
	}
	for _, id := range c.In.Strings("SecurityGroupRuleId") {
		rules = append(rules, ec2.Rule{ID: id})
	}
	if len(rules) == 0 { // unverified message
		return query.Errorf("MissingParameter", "Either 'ipPermissions' or 'securityGroupRuleIds' should be provided.")
	}
	unknown, err := c.Region.Revoke(id, rules)
	if err != nil {
		return err
	}
	c.Out.Bool("return", true)
	if len(unknown) > 0 {
		c.writePermissions("unknownIpPermissionSet", unknown, false)
	}
	return nil
}

func (c *Call) createSecurityGroup() error {
	g, err := c.Region.CreateSecurityGroup(ec2.SecurityGroup{
		Name: c.In.Get("GroupName"), Description: c.In.Get("GroupDescription"), VPCID: c.In.Get("VpcId"),
		Tags: c.newTags("security-group"),
	})
	if err != nil {
		return err
	}
	c.Out.Bool("return", true)
	c.Out.Text("groupId", g.ID)
	c.writeTags(g.Tags)
	return nil
}

func (c *Call) deleteSecurityGroup() error {
	id, err := c.required("GroupId")
	if err != nil {
		return err
	}
	if err := c.Region.DeleteSecurityGroup(id); err != nil {
		return err
	}
	c.Out.Bool("return", true)
	c.Out.Text("groupId", id)
	return nil
}
