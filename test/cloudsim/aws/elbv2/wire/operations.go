package wire

import (
	"maps"
	"slices"
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// Version is the API's.
const Version = "2015-12-01"

// Namespace is that of the answers.
const Namespace = "http://elasticloadbalancing.amazonaws.com/doc/" + Version + "/"

// Call is a request for an operation. What the operation answers is written into Out.
type Call struct {
	In     *query.Form
	Out    *query.Writer
	Region *elbv2.Region
}

// Operation does what a request asks for.
type Operation func(*Call) error

var operations = map[string]Operation{
	"AddTags":                        (*Call).addTags,
	"CreateListener":                 (*Call).createListener,
	"CreateLoadBalancer":             (*Call).createLoadBalancer,
	"CreateTargetGroup":              (*Call).createTargetGroup,
	"DeleteListener":                 (*Call).deleteListener,
	"DeleteLoadBalancer":             (*Call).deleteLoadBalancer,
	"DeleteTargetGroup":              (*Call).deleteTargetGroup,
	"DeregisterTargets":              (*Call).deregisterTargets,
	"DescribeAccountLimits":          (*Call).describeAccountLimits,
	"DescribeListeners":              (*Call).describeListeners,
	"DescribeLoadBalancerAttributes": (*Call).describeLoadBalancerAttributes,
	"DescribeLoadBalancers":          (*Call).describeLoadBalancers,
	"DescribeTags":                   (*Call).describeTags,
	"DescribeTargetGroupAttributes":  (*Call).describeTargetGroupAttributes,
	"DescribeTargetGroups":           (*Call).describeTargetGroups,
	"DescribeTargetHealth":           (*Call).describeTargetHealth,
	"ModifyListener":                 (*Call).modifyListener,
	"ModifyLoadBalancerAttributes":   (*Call).modifyLoadBalancerAttributes,
	"ModifyTargetGroup":              (*Call).modifyTargetGroup,
	"ModifyTargetGroupAttributes":    (*Call).modifyTargetGroupAttributes,
	"RegisterTargets":                (*Call).registerTargets,
	"RemoveTags":                     (*Call).removeTags,
	"SetIpAddressType":               (*Call).setIPAddressType,
	"SetSecurityGroups":              (*Call).setSecurityGroups,
	"SetSubnets":                     (*Call).setSubnets,
}

// Find returns an operation by its name; nil if there is none.
func Find(name string) Operation { return operations[name] }

// maxPage is how many objects a page has at most, and has where the request does not say.
const maxPage = 400

// list answers with a page.
func list[T query.Ordered](c *Call, name string, all []T, write func(T)) error {
	size, err := c.In.Int("PageSize", maxPage)
	if err != nil {
		return err
	}
	if size < 1 || size > maxPage { // unverified message
		return query.Errorf("ValidationError", "1 validation error detected: Value '%d' at 'pageSize' failed to satisfy constraint",
			size)
	}
	items, next, err := query.Page(name, all, size, c.In.Get("Marker"))
	if err != nil { // unverified message
		return query.Errorf("ValidationError", "The marker '%s' is not valid", c.In.Get("Marker"))
	}
	query.List(c.Out, name, items, write)
	c.Out.Text("NextMarker", next)
	return nil
}

// maxTagged is how many objects' tags one request describes at most.
const maxTagged = 20

func (c *Call) tagged() ([]string, error) {
	arns := c.In.Strings("ResourceArns")
	if len(arns) == 0 || len(arns) > maxTagged { // unverified code and message
		return nil, query.Errorf("ValidationError", "The number of resources must be between 1 and %d", maxTagged)
	}
	for _, arn := range arns { // all or none
		if _, err := c.Region.Tags(arn); err != nil {
			return nil, err
		}
	}
	return arns, nil
}

func (c *Call) describeTags() error {
	arns, err := c.tagged()
	if err != nil {
		return err
	}
	query.List(c.Out, "TagDescriptions", arns, func(arn string) {
		tags, _ := c.Region.Tags(arn) // that may have gone just now
		c.Out.Text("ResourceArn", arn)
		writePairs(c.Out, "Tags", tags)
	})
	return nil
}

func (c *Call) addTags() error {
	arns, err := c.tagged()
	if err != nil {
		return err
	}
	for _, arn := range arns {
		if err := c.Region.SetTags(arn, pairs(c.In, "Tags"), nil); err != nil {
			return err
		}
	}
	return nil
}

func (c *Call) removeTags() error {
	arns, err := c.tagged()
	if err != nil {
		return err
	}
	for _, arn := range arns {
		if err := c.Region.SetTags(arn, nil, c.In.Strings("TagKeys")); err != nil {
			return err
		}
	}
	return nil
}

// pairs are keys with values, as tags and attributes are.
func pairs(in *query.Form, name string) map[string]string {
	out := map[string]string{}
	for _, p := range in.Structs(name) {
		out[p.Get("Key")] = p.Get("Value")
	}
	return out
}

// writePairs writes keys with values, sorted by key. A value may be empty.
func writePairs(w *query.Writer, name string, all map[string]string) {
	query.List(w, name, slices.Sorted(maps.Keys(all)), func(key string) {
		w.Text("Key", key)
		w.Open("Value")
		w.Escaped(all[key])
		w.Close()
	})
}

func (c *Call) describeAccountLimits() error {
	limits := c.Region.Limits()
	query.List(c.Out, "Limits", slices.Sorted(maps.Keys(limits)), func(name string) {
		c.Out.Text("Max", strconv.Itoa(limits[name]))
		c.Out.Text("Name", name)
	})
	return nil
}

func (c *Call) describeLoadBalancers() error {
	all, err := c.Region.LoadBalancers(c.In.Strings("LoadBalancerArns"), c.In.Strings("Names"))
	if err != nil {
		return err
	}
	return list(c, "LoadBalancers", all, c.writeLoadBalancer)
}

func (c *Call) writeLoadBalancer(b *elbv2.LoadBalancer) {
	w := c.Out
	w.Text("LoadBalancerArn", b.ARN)
	w.Text("LoadBalancerName", b.Name)
	w.Text("DNSName", b.DNSName)
	w.Text("CanonicalHostedZoneId", "Z3F0SRJ5LGBH90")
	w.Time("CreatedTime", b.Created())
	w.Text("Scheme", b.Scheme)
	w.Text("Type", b.Type)
	w.Text("IpAddressType", b.IPAddressType)
	w.Text("VpcId", b.VPCID)
	w.Open("State")
	w.Text("Code", b.State)
	w.Close()
	c.writeZones(b)
	if len(b.SecurityGroups) > 0 {
		query.Strings(w, "SecurityGroups", b.SecurityGroups)
	}
}

func (c *Call) writeZones(b *elbv2.LoadBalancer) {
	w := c.Out
	query.List(w, "AvailabilityZones", b.Mappings, func(m elbv2.Mapping) {
		w.Text("ZoneName", m.Zone)
		w.Text("SubnetId", m.SubnetID)
		var addresses []elbv2.Mapping
		if m.AllocationID != "" || m.PrivateIP != "" || m.IPv6 != "" {
			addresses = append(addresses, m)
		}
		query.List(w, "LoadBalancerAddresses", addresses, func(m elbv2.Mapping) {
			w.Text("AllocationId", m.AllocationID)
			w.Text("IpAddress", m.PublicIP())
			w.Text("PrivateIPv4Address", m.PrivateIP)
			w.Text("IPv6Address", m.IPv6)
		})
	})
}

// mappings are where a request wants a load balancer.
func (c *Call) mappings() []elbv2.Mapping {
	var out []elbv2.Mapping
	for _, id := range c.In.Strings("Subnets") {
		out = append(out, elbv2.Mapping{SubnetID: id})
	}
	for _, m := range c.In.Structs("SubnetMappings") {
		out = append(out, elbv2.Mapping{
			SubnetID: m.Get("SubnetId"), AllocationID: m.Get("AllocationId"), PrivateIP: m.Get("PrivateIPv4Address"),
			IPv6: m.Get("IPv6Address"),
		})
	}
	return out
}

func (c *Call) createLoadBalancer() error {
	b, err := c.Region.CreateLoadBalancer(elbv2.LoadBalancer{
		Name: c.In.Get("Name"), Type: c.In.Get("Type"), Scheme: c.In.Get("Scheme"), IPAddressType: c.In.Get("IpAddressType"),
		Mappings: c.mappings(), SecurityGroups: c.In.Strings("SecurityGroups"), Tags: pairs(c.In, "Tags"),
	})
	if err != nil {
		return err
	}
	query.List(c.Out, "LoadBalancers", []*elbv2.LoadBalancer{b}, c.writeLoadBalancer)
	return nil
}

func (c *Call) deleteLoadBalancer() error {
	return c.Region.DeleteLoadBalancer(c.In.Get("LoadBalancerArn"))
}

func (c *Call) describeLoadBalancerAttributes() error {
	found, err := c.Region.LoadBalancers([]string{c.In.Get("LoadBalancerArn")}, nil)
	if err != nil {
		return err
	}
	writePairs(c.Out, "Attributes", found[0].Attributes)
	return nil
}

func (c *Call) modifyLoadBalancerAttributes() error {
	b, err := c.Region.SetAttributes(c.In.Get("LoadBalancerArn"), pairs(c.In, "Attributes"))
	if err != nil {
		return err
	}
	writePairs(c.Out, "Attributes", b.Attributes)
	return nil
}

func (c *Call) setSecurityGroups() error {
	b, err := c.Region.SetSecurityGroups(c.In.Get("LoadBalancerArn"), c.In.Strings("SecurityGroups"))
	if err != nil {
		return err
	}
	query.Strings(c.Out, "SecurityGroupIds", b.SecurityGroups)
	return nil
}

func (c *Call) setSubnets() error {
	b, err := c.Region.SetSubnets(c.In.Get("LoadBalancerArn"), c.mappings(), c.In.Get("IpAddressType"))
	if err != nil {
		return err
	}
	c.writeZones(b)
	c.Out.Text("IpAddressType", b.IPAddressType)
	return nil
}

func (c *Call) setIPAddressType() error {
	b, err := c.Region.SetIPAddressType(c.In.Get("LoadBalancerArn"), c.In.Get("IpAddressType"))
	if err != nil {
		return err
	}
	c.Out.Text("IpAddressType", b.IPAddressType)
	return nil
}

// numbers reads several parameters that are numbers; those that were not sent stay as they are.
func numbers(in *query.Form, at map[string]*int) error {
	for name, to := range at {
		text := in.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil { // unverified message
			return query.Errorf("ValidationError", "Value '%s' at '%s' is not a number", text, name)
		}
		*to = n
	}
	return nil
}
