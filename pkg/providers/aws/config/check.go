package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// checker collects what is wrong with a file.
type checker struct {
	file     string
	warnings []string
	errs     []error
}

const global = "Global"

func (k *checker) errorf(section, key, format string, args ...any) {
	k.errs = append(k.errs, fmt.Errorf("%s: [%s] %s: %s", k.file, section, key, fmt.Sprintf(format, args...)))
}

func (k *checker) warnf(section, key, format string, args ...any) {
	k.warnings = append(k.warnings, fmt.Sprintf("%s: [%s] %s: %s", k.file, section, key, fmt.Sprintf(format, args...)))
}

// id warns of what is no ID of its kind: the existing manager starts with it.
func (k *checker) id(key, value, prefix string) {
	if value != "" && !strings.HasPrefix(value, prefix) {
		k.warnf(global, key, "%q does not begin with %s, and AWS will refuse it; give the ID, not the name", text.Clip(value, 100), prefix)
	}
}

// check checks the whole file and fills in what is derived from keys.
func (c *Config) check(file string) (warnings []string, err error) {
	k := &checker{file: file}
	k.region(&c.Global)
	k.role(&c.Global)
	k.cluster(&c.Global)
	k.probes(&c.Global)
	k.families(&c.Global)
	pattern, err := regexp.Compile(c.Global.TopologyPattern)
	if err != nil {
		k.errorf(global, "SupportedTopologyInstanceTypePattern", "%v; leave the key out for %s", err, topologyTypes)
	}
	c.Global.topologyInstanceTypes = pattern
	k.overrides(c)
	return k.warnings, errors.Join(k.errs...)
}

// zoneRegion is the part of a zone's name that names the region: eu-central-1 of eu-central-1a, us-west-2 of us-west-2-lax-1a.
var zoneRegion = regexp.MustCompile(`^([a-zA-Z]+-)+\d+`)

// region checks where the cloud is, and sets Region by Zone.
func (k *checker) region(g *Global) {
	if g.Zone != "" {
		region := zoneRegion.FindString(g.Zone)
		switch {
		case region == "":
			k.errorf(global, "Zone", "%q is no availability zone, such as eu-central-1a", text.Clip(g.Zone, 100))
			return
		case g.Region != "" && g.Region != region:
			k.warnf(global, "Region", "has no effect: %s is the region of Zone %s; remove one of the two", region, g.Zone)
		}
		g.Region = region
	}
	if g.Region == "" {
		return
	}
	if err := auth.CheckRegion(g.Region); err != nil {
		k.errorf(global, "Region", "%v", err)
	}
}

func (k *checker) role(g *Global) {
	if g.RoleARN == "" {
		if g.SourceARN != "" {
			k.warnf(global, "SourceARN", "has no effect without RoleARN")
		}
		return
	}
	if err := auth.CheckRoleARN(g.RoleARN); err != nil {
		k.errorf(global, "RoleARN", "%v", err)
		return
	}
	if err := g.Role().Check(); err != nil {
		k.errorf(global, "SourceARN", "%s", strings.TrimPrefix(err.Error(), "sourceARN: "))
	}
}

// Role is the role that is assumed, nil for none.
func (g *Global) Role() *auth.Role {
	if g.RoleARN == "" {
		return nil
	}
	return &auth.Role{ARN: g.RoleARN, SourceARN: g.SourceARN, SourceAccount: strings.SplitN(g.RoleARN, ":", 6)[4]}
}

func (k *checker) cluster(g *Global) {
	if tag, id := g.KubernetesClusterTag, g.KubernetesClusterID; tag != "" && id != "" && tag != id {
		k.errorf(global, "KubernetesClusterTag", "%q is another cluster than KubernetesClusterID %q; set one of the two", text.Clip(tag, 100), text.Clip(id, 100))
	}
	k.id("VPC", g.VPC, "vpc-")
	k.id("SubnetID", g.SubnetID, "subnet-")
	k.id("RouteTableID", g.RouteTableID, "rtb-")
	k.id("ElbSecurityGroup", g.ElbSecurityGroup, "sg-")
}

func (k *checker) probes(g *Global) {
	switch g.HealthProbeMode {
	case "":
		g.HealthProbeMode = probeNodePort
	case probeNodePort, probeShared:
	default:
		k.errorf(global, "ClusterServiceLoadBalancerHealthProbeMode", "%q is neither %s nor %s", text.Clip(g.HealthProbeMode, 100), probeNodePort, probeShared)
	}
	if g.SharedHealthProbePort == 0 {
		g.SharedHealthProbePort = defaultConfig().Global.SharedHealthProbePort
	}
	if g.SharedHealthProbePort < 1 || g.SharedHealthProbePort > 65535 {
		k.errorf(global, "ClusterServiceSharedLoadBalancerHealthProbePort", "%d is no port: use a number from 1 to 65535", g.SharedHealthProbePort)
	}
	if g.SharedHealthProbePath == "" {
		g.SharedHealthProbePath = defaultConfig().Global.SharedHealthProbePath
	}
	if !strings.HasPrefix(g.SharedHealthProbePath, "/") {
		k.errorf(global, "ClusterServiceSharedLoadBalancerHealthProbePath", "%q does not begin with /", text.Clip(g.SharedHealthProbePath, 100))
	}
	if g.NLBSecurityGroupMode != "" && g.NLBSecurityGroupMode != sgManaged {
		k.errorf(global, "NLBSecurityGroupMode", "%q is neither empty nor %s", text.Clip(g.NLBSecurityGroupMode, 100), sgManaged)
	}
	if g.TopologyPattern == "" {
		g.TopologyPattern = topologyTypes
	}
}

func (k *checker) families(g *Global) {
	var out []string
	for _, f := range g.NodeIPFamilies {
		switch {
		case f != ipv4 && f != IPv6:
			k.errorf(global, "NodeIPFamilies", "%q is neither %s nor %s; give two families in two lines, the key repeated", text.Clip(f, 100), ipv4, IPv6)
		case slices.Contains(out, f):
			k.warnf(global, "NodeIPFamilies", "%s is there twice", f)
		default:
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		out = []string{ipv4}
	}
	g.NodeIPFamilies = out
}

// overrides checks the sections ServiceOverride; blanks around their values do not count.
func (k *checker) overrides(c *Config) {
	seen := map[[2]string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.ServiceOverride)) {
		o, section := c.ServiceOverride[name], fmt.Sprintf("ServiceOverride %q", name)
		missing := false
		for _, f := range []struct {
			key   string
			value *string
		}{{"Service", &o.Service}, {"Region", &o.Region}, {"URL", &o.URL}, {"SigningRegion", &o.SigningRegion}} {
			if *f.value = strings.TrimSpace(*f.value); *f.value == "" {
				k.errorf(section, f.key, "is required")
				missing = true
			}
		}
		if missing {
			continue
		}
		if u, err := url.Parse(o.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			k.errorf(section, "URL", "not a URL such as https://ec2.eu-central-1.amazonaws.com")
		}
		id := [2]string{o.Service, o.Region}
		if first, twice := seen[id]; twice {
			k.errorf(section, "Service", "%s in %s has another endpoint in [ServiceOverride %q] already; remove one", o.Service, o.Region, first)
		}
		seen[id] = name
		k.effect(section, o, c.Global.Region)
	}
}

// effect warns of what an override does not do.
func (k *checker) effect(section string, o *ServiceOverride, region string) {
	services := []string{EC2, ELB, ELBV2, Metadata}
	switch {
	case o.Service == kms:
		k.warnf(section, "Service", "has no effect: %s is never asked", kms)
	case !slices.Contains(services, o.Service):
		k.warnf(section, "Service", "%q has no effect; it is one of %s, letter by letter", text.Clip(o.Service, 100), strings.Join(services, ", "))
	case region != "" && o.Region != region && o.Service != Metadata:
		k.warnf(section, "Region", "%s is not the cluster's region %s: the section has no effect", text.Clip(o.Region, 100), region)
	}
	if o.SigningMethod != "" {
		k.warnf(section, "SigningMethod", "has no effect: requests have version 4 of AWS' signatures")
	}
}
