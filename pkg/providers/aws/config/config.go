package config

import (
	"errors"
	"regexp"

	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

// Config is cloud.conf, decoded and checked. The struct tags are the reference: gcfg names the key, default and doc describe
// it. Parse sets the defaults, so a Config made by it can be used as it is.
type Config struct {
	Global          Global                      `gcfg:"Global" doc:"The account, the region, and what all abilities share."`
	ServiceOverride map[string]*ServiceOverride `gcfg:"ServiceOverride" unnamed:"true" doc:"Another endpoint of a service in a region. The name is any that is not there twice."`
}

// Global is the section [Global].
type Global struct {
	Zone                  string   `gcfg:"Zone" doc:"An availability zone, whose region is taken; it counts before Region."`
	Region                string   `gcfg:"Region" doc:"The region. When empty, that of the environment (AWS_REGION) or of the AWS config files, else that of this machine by the instance metadata service."`
	VPC                   string   `gcfg:"VPC" doc:"The cluster's VPC; when empty, that of this machine."`
	SubnetID              string   `gcfg:"SubnetID" doc:"A subnet of that VPC."`
	RouteTableID          string   `gcfg:"RouteTableID" doc:"The route table that pod routes are set in; when empty, the one with the cluster's tag."`
	RoleARN               string   `gcfg:"RoleARN" doc:"An IAM role that is assumed for all requests. Its account is sent as x-amz-source-account."`
	SourceARN             string   `gcfg:"SourceARN" doc:"For whom RoleARN is assumed, sent as x-amz-source-arn."`
	KubernetesClusterTag  string   `gcfg:"KubernetesClusterTag" doc:"The cluster's ID, for clusters whose objects have the old tag KubernetesCluster; what is made gets that tag, too."`
	KubernetesClusterID   string   `gcfg:"KubernetesClusterID" doc:"The cluster's ID, which is in the tags of its objects (kubernetes.io/cluster/ID). Without it and KubernetesClusterTag this machine's tags tell it."`
	DisableSGIngress      bool     `gcfg:"DisableSecurityGroupIngress" default:"false" doc:"The security groups of Nodes are left alone; load balancers must be let in by rules that are there."`
	ElbSecurityGroup      string   `gcfg:"ElbSecurityGroup" doc:"The security group of classic load balancers, in place of one for each; its rules are left alone."`
	NodeIPFamilies        []string `gcfg:"NodeIPFamilies" default:"ipv4" doc:"An IP family whose addresses Nodes get, ipv4 or ipv6. May be repeated: the addresses of the first come first."`
	HealthProbeMode       string   `gcfg:"ClusterServiceLoadBalancerHealthProbeMode" default:"ServiceNodePort" doc:"What load balancers of Services with externalTrafficPolicy Cluster check: ServiceNodePort, each port, or Shared, the one of kube-proxy."`
	SharedHealthProbePort int      `gcfg:"ClusterServiceSharedLoadBalancerHealthProbePort" default:"10256" doc:"The port of the shared check."`
	SharedHealthProbePath string   `gcfg:"ClusterServiceSharedLoadBalancerHealthProbePath" default:"/healthz" doc:"The path of the shared check."`
	TopologyPattern       string   `gcfg:"SupportedTopologyInstanceTypePattern" doc:"Regular expression of the instance types of which the network topology is known, so that a Node waits for its labels a while."`
	NLBSecurityGroupMode  string   `gcfg:"NLBSecurityGroupMode" doc:"Managed gives each network load balancer a security group of its own; empty gives it none."`
	topologyInstanceTypes *regexp.Regexp
}

// ServiceOverride is one section [ServiceOverride "name"].
type ServiceOverride struct {
	Service       string `gcfg:"Service" doc:"The service: EC2, Elastic Load Balancing, Elastic Load Balancing v2 or ec2imds."`
	Region        string `gcfg:"Region" doc:"The region in which it is another endpoint."`
	URL           string `gcfg:"URL" doc:"The endpoint's URL."`
	SigningRegion string `gcfg:"SigningRegion" doc:"The region that requests are signed for."`
	SigningMethod string `gcfg:"SigningMethod" doc:"Has no effect."`
	SigningName   string `gcfg:"SigningName" doc:"The name of the service that requests are signed for; when empty, the service's own."`
}

// Services, as ServiceOverride names them.
const (
	EC2      = "EC2"
	ELB      = "Elastic Load Balancing"
	ELBV2    = "Elastic Load Balancing v2"
	Metadata = "ec2imds"

	kms = "KMS"
)

// Words of the file.
const (
	ipv4 = "ipv4"
	IPv6 = "ipv6"

	probeShared   = "Shared"
	probeNodePort = "ServiceNodePort"
	sgManaged     = "Managed"
)

// topologyTypes are the instance types of which AWS knows the network topology.
const topologyTypes = `^(hpc|trn|p)[0-9]+[a-z]*(-[a-z0-9]+)?(\.[0-9a-z]*)$`

// HasTopology reports whether AWS is known to know the network topology of the instance type.
func (g *Global) HasTopology(instanceType string) bool {
	return g.topologyInstanceTypes.MatchString(instanceType)
}

// SharedProbe reports whether load balancers of Services with externalTrafficPolicy Cluster check kube-proxy in place of each
// port.
func (g *Global) SharedProbe() bool { return g.HealthProbeMode == probeShared }

// ClusterID is the cluster's ID as the file has it, "" where it has none.
func (g *Global) ClusterID() string {
	if g.KubernetesClusterTag != "" {
		return g.KubernetesClusterTag
	}
	return g.KubernetesClusterID
}

// Override is the other endpoint of a service in a region, nil for none. The metadata service's is for all regions.
func (c *Config) Override(service, region string) *ServiceOverride {
	for _, o := range c.ServiceOverride {
		if o.Service == service && (o.Region == region || service == Metadata) {
			return o
		}
	}
	return nil
}

func defaultConfig() Config {
	return Config{Global: Global{
		HealthProbeMode: probeNodePort, SharedHealthProbePort: 10256, SharedHealthProbePath: "/healthz", TopologyPattern: topologyTypes,
	}}
}

// Settings are all settings with their values, for people; see gcfg.Values.
func (c *Config) Settings() map[string]map[string]string { return gcfg.Values(c) }

// Parse decodes and checks cloud.conf. file is its name for messages. Doubtful values are warnings; err joins every error
// there is, each naming file, section and key.
func Parse(file string, data []byte) (cfg *Config, warnings []string, err error) {
	c := defaultConfig()
	warnings, decodeErr := gcfg.Decode(file, data, &c)
	// What did not decode kept its default, so it is not complained about twice.
	more, checkErr := c.check(file)
	warnings = append(warnings, more...)
	if err := errors.Join(decodeErr, checkErr); err != nil {
		return nil, warnings, err
	}
	return &c, warnings, nil
}
