package wire

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// Version is the API's.
const Version = "2012-06-01"

// Namespace is that of the answers.
const Namespace = "http://elasticloadbalancing.amazonaws.com/doc/" + Version + "/"

// Call is a request for an operation. What the operation answers is written into Out.
type Call struct {
	In     *query.Form
	Out    *query.Writer
	Region *elb.Region
}

// Operation does what a request asks for.
type Operation func(*Call) error

var operations = map[string]Operation{
	"AddTags":                                 (*Call).addTags,
	"ApplySecurityGroupsToLoadBalancer":       (*Call).applySecurityGroups,
	"AttachLoadBalancerToSubnets":             (*Call).attach,
	"ConfigureHealthCheck":                    (*Call).configureHealthCheck,
	"CreateLoadBalancer":                      (*Call).create,
	"CreateLoadBalancerListeners":             (*Call).createListeners,
	"CreateLoadBalancerPolicy":                (*Call).createPolicy,
	"DeleteLoadBalancer":                      (*Call).remove,
	"DeleteLoadBalancerListeners":             (*Call).deleteListeners,
	"DeleteLoadBalancerPolicy":                (*Call).deletePolicy,
	"DeregisterInstancesFromLoadBalancer":     (*Call).deregister,
	"DescribeAccountLimits":                   (*Call).describeAccountLimits,
	"DescribeInstanceHealth":                  (*Call).describeHealth,
	"DescribeLoadBalancerAttributes":          (*Call).describeAttributes,
	"DescribeLoadBalancerPolicies":            (*Call).describePolicies,
	"DescribeLoadBalancers":                   (*Call).describe,
	"DescribeTags":                            (*Call).describeTags,
	"DetachLoadBalancerFromSubnets":           (*Call).detach,
	"ModifyLoadBalancerAttributes":            (*Call).modifyAttributes,
	"RegisterInstancesWithLoadBalancer":       (*Call).register,
	"RemoveTags":                              (*Call).removeTags,
	"SetLoadBalancerListenerSSLCertificate":   (*Call).setCertificate,
	"SetLoadBalancerPoliciesForBackendServer": (*Call).setBackendPolicies,
	"SetLoadBalancerPoliciesOfListener":       (*Call).setListenerPolicies,
}

// Find returns an operation by its name; nil if there is none.
func Find(name string) Operation { return operations[name] }

func (c *Call) name() string { return c.In.Get("LoadBalancerName") }

// one is the load balancer that a request names.
func (c *Call) one() (*elb.LoadBalancer, error) {
	found, err := c.Region.LoadBalancers([]string{c.name()})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// number reads a number, 0 for none.
func number(in *query.Form, name string) (int, error) {
	n, err := in.Int(name, 0)
	if err != nil { // unverified message
		return 0, query.Errorf("ValidationError", "Value '%s' at '%s' is not a number", in.Get(name), name)
	}
	return n, nil
}

// maxPage is how many load balancers a page has at most, and has where the request does not say.
const maxPage = 400

func (c *Call) describeAccountLimits() error {
	limits := c.Region.Limits()
	query.List(c.Out, "Limits", slices.Sorted(maps.Keys(limits)), func(name string) {
		c.Out.Text("Max", strconv.Itoa(limits[name]))
		c.Out.Text("Name", name)
	})
	return nil
}

func (c *Call) describe() error {
	all, err := c.Region.LoadBalancers(c.In.Strings("LoadBalancerNames"))
	if err != nil {
		return err
	}
	size, err := c.In.Int("PageSize", maxPage)
	if err != nil || size < 1 || size > maxPage { // unverified message
		return query.Errorf("ValidationError", "Value '%s' at 'pageSize' failed to satisfy constraint", c.In.Get("PageSize"))
	}
	items, next, err := query.Page("elb", all, size, c.In.Get("Marker"))
	if err != nil { // unverified message
		return query.Errorf("ValidationError", "The marker '%s' is not valid", c.In.Get("Marker"))
	}
	query.List(c.Out, "LoadBalancerDescriptions", items, c.write)
	c.Out.Text("NextMarker", next)
	return nil
}

func (c *Call) write(b *elb.LoadBalancer) {
	w := c.Out
	w.Text("LoadBalancerName", b.Name)
	w.Text("DNSName", b.DNSName)
	w.Text("CanonicalHostedZoneName", b.DNSName)
	w.Text("CanonicalHostedZoneNameID", "Z215JYRZR1TBD5")
	w.Time("CreatedTime", b.Created())
	w.Text("Scheme", b.Scheme)
	w.Text("VPCId", b.VPCID)
	var subnets, zones []string
	for _, s := range b.Subnets {
		subnets, zones = append(subnets, s.ID), append(zones, s.Zone)
	}
	query.Strings(w, "Subnets", subnets)
	query.Strings(w, "AvailabilityZones", zones)
	query.Strings(w, "SecurityGroups", b.SecurityGroups)
	c.writeListeners(b)
	c.writeHealthCheck(b)
	c.writeInstances(b)
	w.Open("Policies")
	query.Strings(w, "AppCookieStickinessPolicies", nil)
	query.Strings(w, "LBCookieStickinessPolicies", nil)
	var names []string
	for _, p := range b.Policies {
		names = append(names, p.Name)
	}
	query.Strings(w, "OtherPolicies", names)
	w.Close()
	query.List(w, "BackendServerDescriptions", slices.Sorted(maps.Keys(b.Backends)), func(port int) {
		w.Int("InstancePort", port)
		query.Strings(w, "PolicyNames", b.Backends[port])
	})
}

func (c *Call) writeListeners(b *elb.LoadBalancer) {
	w := c.Out
	query.List(w, "ListenerDescriptions", b.Listeners, func(l elb.Listener) {
		w.Open("Listener")
		w.Text("Protocol", l.Protocol)
		w.Int("LoadBalancerPort", l.Port)
		w.Text("InstanceProtocol", l.InstanceProtocol)
		w.Int("InstancePort", l.InstancePort)
		w.Text("SSLCertificateId", l.CertificateARN)
		w.Close()
		query.Strings(w, "PolicyNames", l.Policies)
	})
}

func (c *Call) writeHealthCheck(b *elb.LoadBalancer) {
	w := c.Out
	w.Open("HealthCheck")
	w.Text("Target", b.Check.Target)
	w.Int("Interval", b.Check.Interval)
	w.Int("Timeout", b.Check.Timeout)
	w.Int("HealthyThreshold", b.Check.Healthy)
	w.Int("UnhealthyThreshold", b.Check.Unhealthy)
	w.Close()
}

func (c *Call) writeInstances(b *elb.LoadBalancer) {
	query.List(c.Out, "Instances", b.Instances, func(id string) { c.Out.Text("InstanceId", id) })
}

// listeners are those of a request.
func (c *Call) listeners() ([]elb.Listener, error) {
	var out []elb.Listener
	for _, f := range c.In.Structs("Listeners") {
		port, err := number(f, "LoadBalancerPort")
		if err != nil {
			return nil, err
		}
		to, err := number(f, "InstancePort")
		if err != nil {
			return nil, err
		}
		out = append(out, elb.Listener{
			Port: port, InstancePort: to, Protocol: f.Get("Protocol"), InstanceProtocol: f.Get("InstanceProtocol"),
			CertificateARN: f.Get("SSLCertificateId"),
		})
	}
	return out, nil
}

func (c *Call) create() error {
	in := elb.LoadBalancer{Name: c.name(), Scheme: c.In.Get("Scheme"), SecurityGroups: c.In.Strings("SecurityGroups"),
		Tags: c.tags()}
	for _, id := range c.In.Strings("Subnets") {
		in.Subnets = append(in.Subnets, elb.Subnet{ID: id})
	}
	var err error
	if in.Listeners, err = c.listeners(); err != nil {
		return err
	}
	b, err := c.Region.Create(in)
	if err != nil {
		return err
	}
	c.Out.Text("DNSName", b.DNSName)
	return nil
}

func (c *Call) remove() error {
	c.Region.Delete(c.name())
	return nil
}

func (c *Call) createListeners() error {
	add, err := c.listeners()
	if err != nil {
		return err
	}
	return c.Region.AddListeners(c.name(), add)
}

func (c *Call) deleteListeners() error {
	var ports []int
	for _, text := range c.In.Strings("LoadBalancerPorts") {
		if port, err := strconv.Atoi(text); err == nil {
			ports = append(ports, port)
		}
	}
	return c.Region.RemoveListeners(c.name(), ports)
}

func (c *Call) configureHealthCheck() error {
	in := c.In.At("HealthCheck")
	check := elb.Check{Target: in.Get("Target")}
	for name, to := range map[string]*int{
		"Interval": &check.Interval, "Timeout": &check.Timeout, "HealthyThreshold": &check.Healthy,
		"UnhealthyThreshold": &check.Unhealthy,
	} {
		var err error
		if *to, err = number(in, name); err != nil {
			return err
		}
	}
	protocol, rest, _ := strings.Cut(check.Target, ":")
	port, _, _ := strings.Cut(rest, "/")
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || !slices.Contains([]string{"TCP", "SSL", "HTTP", "HTTPS"}, strings.ToUpper(protocol)) ||
		check.Interval < 5 || check.Interval > 300 || check.Timeout < 2 || check.Timeout > 60 || check.Timeout >= check.Interval ||
		check.Healthy < 2 || check.Healthy > 10 || check.Unhealthy < 2 || check.Unhealthy > 10 { // unverified message
		return query.Errorf("ValidationError", "The health check is not valid: %+v", check)
	}
	b, err := c.Region.Change(c.name(), func(b *elb.LoadBalancer) error { b.Check = check; return nil })
	if err != nil {
		return err
	}
	c.writeHealthCheck(b)
	return nil
}

func (c *Call) instances() []string {
	var out []string
	for _, f := range c.In.Structs("Instances") {
		out = append(out, f.Get("InstanceId"))
	}
	return out
}

func (c *Call) register() error {
	b, err := c.Region.Register(c.name(), c.instances())
	if err != nil {
		return err
	}
	c.writeInstances(b)
	return nil
}

func (c *Call) deregister() error {
	b, err := c.Region.Deregister(c.name(), c.instances())
	if err != nil {
		return err
	}
	c.writeInstances(b)
	return nil
}

func (c *Call) describeHealth() error {
	b, err := c.one()
	if err != nil {
		return err
	}
	ids := c.instances()
	if len(ids) == 0 {
		ids = b.Instances
	}
	for _, id := range ids {
		if !slices.Contains(b.Instances, id) {
			return query.Errorf("InvalidInstance", "Could not find EC2 instance %s.", id)
		}
	}
	query.List(c.Out, "InstanceStates", ids, func(id string) {
		h := c.Region.Health(b, id)
		c.Out.Text("InstanceId", id)
		c.Out.Text("State", h.State)
		c.Out.Text("ReasonCode", h.Reason)
		c.Out.Text("Description", h.Description)
	})
	return nil
}
