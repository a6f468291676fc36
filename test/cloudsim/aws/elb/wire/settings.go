package wire

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

func (c *Call) tags() map[string]string {
	out := map[string]string{}
	for _, f := range c.In.Structs("Tags") {
		out[f.Get("Key")] = f.Get("Value")
	}
	return out
}

// maxTagged is how many load balancers' tags one request describes at most.
const maxTagged = 20

func (c *Call) tagged() ([]*elb.LoadBalancer, error) {
	names := c.In.Strings("LoadBalancerNames")
	if len(names) == 0 || len(names) > maxTagged { // unverified code and message
		return nil, query.Errorf("ValidationError", "The number of load balancers must be between 1 and %d", maxTagged)
	}
	return c.Region.LoadBalancers(names)
}

func (c *Call) describeTags() error {
	all, err := c.tagged()
	if err != nil {
		return err
	}
	query.List(c.Out, "TagDescriptions", all, func(b *elb.LoadBalancer) {
		c.Out.Text("LoadBalancerName", b.Name)
		query.List(c.Out, "Tags", slices.Sorted(maps.Keys(b.Tags)), func(key string) {
			c.Out.Text("Key", key)
			c.Out.Open("Value")
			c.Out.Escaped(b.Tags[key])
			c.Out.Close()
		})
	})
	return nil
}

// retag changes the tags of the load balancers that a request names.
func (c *Call) retag(edit func(map[string]string)) error {
	all, err := c.tagged()
	if err != nil {
		return err
	}
	for _, b := range all {
		_, err := c.Region.Change(b.Name, func(b *elb.LoadBalancer) error {
			if b.Tags == nil {
				b.Tags = map[string]string{}
			}
			edit(b.Tags)
			return elb.CheckTags(b.Tags)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Call) addTags() error {
	return c.retag(func(tags map[string]string) { maps.Copy(tags, c.tags()) })
}

func (c *Call) removeTags() error {
	return c.retag(func(tags map[string]string) {
		for key := range c.tags() {
			delete(tags, key)
		}
	})
}

func (c *Call) applySecurityGroups() error {
	b, err := c.Region.SetGroups(c.name(), c.In.Strings("SecurityGroups"))
	if err != nil {
		return err
	}
	query.Strings(c.Out, "SecurityGroups", b.SecurityGroups)
	return nil
}

func (c *Call) attach() error { return c.subnets(c.Region.Attach) }

func (c *Call) detach() error { return c.subnets(c.Region.Detach) }

func (c *Call) subnets(do func(name string, ids []string) (*elb.LoadBalancer, error)) error {
	b, err := do(c.name(), c.In.Strings("Subnets"))
	if err != nil {
		return err
	}
	var ids []string
	for _, s := range b.Subnets {
		ids = append(ids, s.ID)
	}
	query.Strings(c.Out, "Subnets", ids)
	return nil
}

// sections are the attributes that a load balancer has, by where they stand, in the order in which they are written.
var sections = []struct {
	name   string
	fields []string
}{
	{"CrossZoneLoadBalancing", []string{"Enabled"}},
	{"AccessLog", []string{"Enabled", "S3BucketName", "EmitInterval", "S3BucketPrefix"}},
	{"ConnectionDraining", []string{"Enabled", "Timeout"}},
	{"ConnectionSettings", []string{"IdleTimeout"}},
}

const additional = "AdditionalAttributes"

func (c *Call) writeAttributes(b *elb.LoadBalancer) {
	w := c.Out
	w.Open("LoadBalancerAttributes")
	for _, s := range sections {
		w.Open(s.name)
		for _, f := range s.fields {
			w.Text(f, b.Attributes[s.name+"."+f])
		}
		w.Close()
	}
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(b.Attributes)) {
		if key, ok := strings.CutPrefix(k, additional+"."); ok {
			keys = append(keys, key)
		}
	}
	query.List(w, additional, keys, func(key string) {
		w.Text("Key", key)
		w.Text("Value", b.Attributes[additional+"."+key])
	})
	w.Close()
}

func (c *Call) describeAttributes() error {
	b, err := c.one()
	if err != nil {
		return err
	}
	c.writeAttributes(b)
	return nil
}

// checkAttributes refuses what AWS documents as impossible. The messages are unverified.
func checkAttributes(all map[string]string) error {
	if all["AccessLog.Enabled"] == "true" && all["AccessLog.S3BucketName"] == "" {
		return query.Errorf("InvalidConfigurationRequest", "The bucket of the access log must be specified")
	}
	if v := all["AccessLog.EmitInterval"]; v != "" && v != "5" && v != "60" {
		return query.Errorf("InvalidConfigurationRequest", "The emit interval of the access log is 5 or 60, not %s", v)
	}
	for name, most := range map[string]int{"ConnectionSettings.IdleTimeout": 4000, "ConnectionDraining.Timeout": 3600} {
		if n, err := strconv.Atoi(all[name]); all[name] != "" && (err != nil || n < 1 || n > most) {
			return query.Errorf("ValidationError", "%s is between 1 and %d, not %s", name, most, all[name])
		}
	}
	return nil
}

// modifyAttributes changes attributes. Unverified is that what a request leaves out of a section stays.
func (c *Call) modifyAttributes() error {
	in := c.In.At("LoadBalancerAttributes")
	b, err := c.Region.Change(c.name(), func(b *elb.LoadBalancer) error {
		for _, s := range sections {
			section := in.At(s.name)
			if section == nil {
				continue
			}
			for _, f := range s.fields {
				if section.Has(f) {
					b.Attributes[s.name+"."+f] = section.Get(f)
				}
			}
		}
		for _, f := range in.Structs(additional) {
			b.Attributes[additional+"."+f.Get("Key")] = f.Get("Value")
		}
		return checkAttributes(b.Attributes)
	})
	if err != nil {
		return err
	}
	c.Out.Text("LoadBalancerName", b.Name)
	c.writeAttributes(b)
	return nil
}

func (c *Call) createPolicy() error {
	p := elb.Policy{Name: c.In.Get("PolicyName"), Type: c.In.Get("PolicyTypeName")}
	for _, f := range c.In.Structs("PolicyAttributes") {
		p.Attributes = append(p.Attributes, [2]string{f.Get("AttributeName"), f.Get("AttributeValue")})
	}
	return c.Region.AddPolicy(c.name(), p)
}

func (c *Call) deletePolicy() error { return c.Region.RemovePolicy(c.name(), c.In.Get("PolicyName")) }

// describePolicies lists the policies of a load balancer. The sample policies that AWS has without one are not simulated.
func (c *Call) describePolicies() error {
	b, err := c.one()
	if err != nil {
		return err
	}
	names := c.In.Strings("PolicyNames")
	if err := b.HasPolicies(names); err != nil {
		return err
	}
	found := slices.DeleteFunc(slices.Clone(b.Policies), func(p elb.Policy) bool {
		return len(names) > 0 && !slices.Contains(names,
			p.Name)
	})
	query.List(c.Out, "PolicyDescriptions", found, func(p elb.Policy) {
		c.Out.Text("PolicyName", p.Name)
		c.Out.Text("PolicyTypeName", p.Type)
		query.List(c.Out, "PolicyAttributeDescriptions", p.Attributes, func(a [2]string) {
			c.Out.Text("AttributeName", a[0])
			c.Out.Text("AttributeValue", a[1])
		})
	})
	return nil
}

func (c *Call) setListenerPolicies() error {
	port, err := number(c.In, "LoadBalancerPort")
	if err != nil {
		return err
	}
	names := c.In.Strings("PolicyNames")
	return c.Region.EditListener(c.name(), port, func(b *elb.LoadBalancer, l *elb.Listener) error {
		if err := b.HasPolicies(names); err != nil {
			return err
		}
		l.Policies = names
		return nil
	})
}

func (c *Call) setBackendPolicies() error {
	port, err := number(c.In, "InstancePort")
	if err != nil {
		return err
	}
	return c.Region.SetBackend(c.name(), port, c.In.Strings("PolicyNames"))
}

func (c *Call) setCertificate() error {
	port, err := number(c.In, "LoadBalancerPort")
	if err != nil {
		return err
	}
	return c.Region.EditListener(c.name(), port, func(_ *elb.LoadBalancer, l *elb.Listener) error {
		if l.Protocol != "SSL" && l.Protocol != "HTTPS" { // unverified message
			return query.Errorf("InvalidConfigurationRequest", "The listener on port %d has no certificate", port)
		}
		l.CertificateARN = c.In.Get("SSLCertificateId")
		return nil
	})
}
