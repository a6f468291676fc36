package wire

import (
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

func (c *Call) describeTargetGroups() error {
	all, err := c.Region.TargetGroups(c.In.Strings("TargetGroupArns"), c.In.Strings("Names"), c.In.Get("LoadBalancerArn"))
	if err != nil {
		return err
	}
	return list(c, "TargetGroups", all, c.writeTargetGroup)
}

func (c *Call) writeTargetGroup(g *elbv2.TargetGroup) {
	w := c.Out
	w.Text("TargetGroupArn", g.ARN)
	w.Text("TargetGroupName", g.Name)
	w.Text("Protocol", g.Protocol)
	w.Int("Port", g.Port)
	w.Text("VpcId", g.VPCID)
	w.Text("TargetType", g.TargetType)
	w.Text("IpAddressType", g.IPAddressType)
	w.Bool("HealthCheckEnabled", true)
	w.Text("HealthCheckProtocol", g.Check.Protocol)
	w.Text("HealthCheckPort", g.Check.Port)
	w.Text("HealthCheckPath", g.Check.Path)
	w.Int("HealthCheckIntervalSeconds", g.Check.Interval)
	w.Int("HealthCheckTimeoutSeconds", g.Check.Timeout)
	w.Int("HealthyThresholdCount", g.Check.Healthy)
	w.Int("UnhealthyThresholdCount", g.Check.Unhealthy)
	if g.Check.Matcher != "" {
		w.Open("Matcher")
		w.Text("HttpCode", g.Check.Matcher)
		w.Close()
	}
	var balancers []string
	if arn := c.Region.LoadBalancerOf(g.ARN); arn != "" {
		balancers = append(balancers, arn)
	}
	query.Strings(w, "LoadBalancerArns", balancers)
}

func (c *Call) check() (elbv2.Check, error) {
	k := elbv2.Check{
		Protocol: c.In.Get("HealthCheckProtocol"), Port: c.In.Get("HealthCheckPort"), Path: c.In.Get("HealthCheckPath"),
		Matcher: c.In.At("Matcher").Get("HttpCode"),
	}
	err := numbers(c.In, map[string]*int{
		"HealthCheckIntervalSeconds": &k.Interval, "HealthCheckTimeoutSeconds": &k.Timeout,
		"HealthyThresholdCount": &k.Healthy, "UnhealthyThresholdCount": &k.Unhealthy,
	})
	return k, err
}

func (c *Call) createTargetGroup() error {
	in := elbv2.TargetGroup{
		Name: c.In.Get("Name"), Protocol: c.In.Get("Protocol"), VPCID: c.In.Get("VpcId"), TargetType: c.In.Get("TargetType"),
		IPAddressType: c.In.Get("IpAddressType"), Tags: pairs(c.In, "Tags"),
	}
	if err := numbers(c.In, map[string]*int{"Port": &in.Port}); err != nil {
		return err
	}
	check, err := c.check()
	if err != nil {
		return err
	}
	in.Check = check
	g, err := c.Region.CreateTargetGroup(in)
	if err != nil {
		return err
	}
	query.List(c.Out, "TargetGroups", []*elbv2.TargetGroup{g}, c.writeTargetGroup)
	return nil
}

func (c *Call) modifyTargetGroup() error {
	check, err := c.check()
	if err != nil {
		return err
	}
	g, err := c.Region.ModifyTargetGroup(c.In.Get("TargetGroupArn"), check)
	if err != nil {
		return err
	}
	query.List(c.Out, "TargetGroups", []*elbv2.TargetGroup{g}, c.writeTargetGroup)
	return nil
}

func (c *Call) deleteTargetGroup() error {
	return c.Region.DeleteTargetGroup(c.In.Get("TargetGroupArn"))
}

func (c *Call) describeTargetGroupAttributes() error {
	found, err := c.Region.TargetGroups([]string{c.In.Get("TargetGroupArn")}, nil, "")
	if err != nil {
		return err
	}
	writePairs(c.Out, "Attributes", found[0].Attributes)
	return nil
}

func (c *Call) modifyTargetGroupAttributes() error {
	g, err := c.Region.SetGroupAttributes(c.In.Get("TargetGroupArn"), pairs(c.In, "Attributes"))
	if err != nil {
		return err
	}
	writePairs(c.Out, "Attributes", g.Attributes)
	return nil
}

func (c *Call) targets() ([]elbv2.Target, error) {
	var out []elbv2.Target
	for _, t := range c.In.Structs("Targets") {
		target := elbv2.Target{ID: t.Get("Id"), Zone: t.Get("AvailabilityZone")}
		if err := numbers(t, map[string]*int{"Port": &target.Port}); err != nil {
			return nil, err
		}
		out = append(out, target)
	}
	return out, nil
}

func (c *Call) registerTargets() error {
	targets, err := c.targets()
	if err != nil {
		return err
	}
	return c.Region.Register(c.In.Get("TargetGroupArn"), targets)
}

func (c *Call) deregisterTargets() error {
	targets, err := c.targets()
	if err != nil {
		return err
	}
	return c.Region.Deregister(c.In.Get("TargetGroupArn"), targets)
}

func (c *Call) describeTargetHealth() error {
	targets, err := c.targets()
	if err != nil {
		return err
	}
	all, err := c.Region.Health(c.In.Get("TargetGroupArn"), targets)
	if err != nil {
		return err
	}
	query.List(c.Out, "TargetHealthDescriptions", all, func(h elbv2.TargetHealth) {
		w := c.Out
		w.Open("Target")
		w.Text("Id", h.ID)
		w.Int("Port", h.Port)
		w.Text("AvailabilityZone", h.Zone)
		w.Close()
		w.Text("HealthCheckPort", strconv.Itoa(h.Port))
		w.Open("TargetHealth")
		w.Text("State", h.State)
		w.Text("Reason", h.Reason)
		w.Text("Description", h.Description)
		w.Close()
	})
	return nil
}

func (c *Call) describeListeners() error {
	arns, balancer := c.In.Strings("ListenerArns"), c.In.Get("LoadBalancerArn")
	if len(arns) == 0 && balancer == "" { // unverified message
		return query.Errorf("ValidationError", "A load balancer ARN or listener ARNs must be specified")
	}
	all, err := c.Region.Listeners(arns, balancer)
	if err != nil {
		return err
	}
	return list(c, "Listeners", all, c.writeListener)
}

func (c *Call) writeListener(l *elbv2.Listener) {
	w := c.Out
	w.Text("ListenerArn", l.ARN)
	w.Text("LoadBalancerArn", l.LoadBalancerARN)
	w.Text("Protocol", l.Protocol)
	w.Int("Port", l.Port)
	w.Text("SslPolicy", l.SSLPolicy)
	if l.CertificateARN != "" {
		query.List(w, "Certificates", []string{l.CertificateARN}, func(arn string) { w.Text("CertificateArn", arn) })
	}
	if l.ALPN != "" {
		query.Strings(w, "AlpnPolicy", []string{l.ALPN})
	}
	query.List(w, "DefaultActions", []string{l.TargetGroupARN}, func(arn string) {
		w.Text("Type", "forward")
		w.Int("Order", 1)
		w.Text("TargetGroupArn", arn)
		w.Open("ForwardConfig")
		query.List(w, "TargetGroups", []string{arn}, func(arn string) { w.Text("TargetGroupArn", arn) })
		w.Close()
	})
}

// listener is what a request says of a listener.
func (c *Call) listener() (elbv2.Listener, error) {
	l := elbv2.Listener{
		LoadBalancerARN: c.In.Get("LoadBalancerArn"), Protocol: c.In.Get("Protocol"), SSLPolicy: c.In.Get("SslPolicy"),
		Tags: pairs(c.In, "Tags"),
	}
	for _, certificate := range c.In.Structs("Certificates") {
		l.CertificateARN = certificate.Get("CertificateArn")
	}
	for _, policy := range c.In.Strings("AlpnPolicy") {
		l.ALPN = policy
	}
	actions := c.In.Structs("DefaultActions")
	for _, action := range actions {
		l.TargetGroupARN = action.Get("TargetGroupArn")
		for _, group := range action.At("ForwardConfig").Structs("TargetGroups") {
			l.TargetGroupARN = group.Get("TargetGroupArn")
		}
		if action.Get("Type") != "forward" || len(actions) > 1 { // unverified message; weights are not simulated
			return l, query.Errorf("InvalidLoadBalancerAction", "One action of the type 'forward' must be specified")
		}
	}
	err := numbers(c.In, map[string]*int{"Port": &l.Port})
	return l, err
}

func (c *Call) createListener() error {
	in, err := c.listener()
	if err != nil {
		return err
	}
	l, err := c.Region.CreateListener(in)
	if err != nil {
		return err
	}
	query.List(c.Out, "Listeners", []*elbv2.Listener{l}, c.writeListener)
	return nil
}

func (c *Call) modifyListener() error {
	set, err := c.listener()
	if err != nil {
		return err
	}
	l, err := c.Region.ModifyListener(c.In.Get("ListenerArn"), set)
	if err != nil {
		return err
	}
	query.List(c.Out, "Listeners", []*elbv2.Listener{l}, c.writeListener)
	return nil
}

func (c *Call) deleteListener() error { return c.Region.DeleteListener(c.In.Get("ListenerArn")) }
