package config

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/cloudconf"
	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

// Config is cloud.conf, decoded and checked. The struct tags are the reference: gcfg names
// the key, default and doc describe it (docs/reference/cloud-conf-openstack.md is generated
// from them). ParseConfig sets the defaults, so a Config made by it can be used as it is.
type Config struct {
	Global            auth.Config                   `gcfg:"Global" doc:"How to reach and authenticate to the cloud."`
	LoadBalancer      LoadBalancer                  `gcfg:"LoadBalancer" doc:"Services of type LoadBalancer (Octavia)."`
	LoadBalancerClass map[string]*LoadBalancerClass `gcfg:"LoadBalancerClass" unnamed:"true" doc:"Named sets of networks that a Service picks with spec.loadBalancerClass or the annotation loadbalancer.openstack.org/class."`
	Route             Route                         `gcfg:"Route" doc:"Pod routes on a Neutron router."`
	Metadata          Metadata                      `gcfg:"Metadata" doc:"Where the machine that the controllers run on learns which server it is. With it, a warning at start tells when the credentials are not for that server's project or region; nothing else depends on it."`
	Networking        Networking                    `gcfg:"Networking" doc:"Which of a server's addresses its Node gets."`
	BlockStorage      BlockStorage                  `gcfg:"BlockStorage" doc:"Labels of PersistentVolumes."`
	Region            map[string]*Region            `gcfg:"Region" doc:"A further region of the same Keystone, whose servers are Nodes and whose volumes are labeled as well. [Global] region is the primary region, which has the load balancers. What a section does not set is as in the primary region, save the router: pod routes of a region need its own. Provider IDs of servers in further regions always name the region."`
	Registry          map[string]*auth.Registry     `gcfg:"Registry" doc:"Image registries; read by the kubelet credential provider, accepted here."`
}

// LoadBalancer is the section [LoadBalancer].
type LoadBalancer struct {
	Enabled                bool     `gcfg:"enabled" default:"true" doc:"Serve Services of type LoadBalancer."`
	Provider               string   `gcfg:"lb-provider" default:"amphora" doc:"Octavia provider that load balancers are made with, such as amphora, octavia or ovn."`
	Method                 string   `gcfg:"lb-method" default:"ROUND_ROBIN" doc:"Algorithm of pools: ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP or SOURCE_IP_PORT; for provider ovn the default is SOURCE_IP_PORT, the only one it has."`
	Internal               bool     `gcfg:"internal-lb" default:"false" doc:"Load balancers get no floating IP, whatever a Service's annotation says."`
	NodeSelector           string   `gcfg:"node-selector" doc:"Nodes that become members, as a list of labels (disk=ssd,gpu: a label without a value must exist) or a label selector; empty for all."`
	CascadeDelete          bool     `gcfg:"cascade-delete" default:"true" doc:"Delete a load balancer with its children in one call."`
	FlavorID               string   `gcfg:"flavor-id" doc:"Octavia flavor of new load balancers."`
	AvailabilityZone       string   `gcfg:"availability-zone" doc:"Octavia availability zone of new load balancers."`
	SubnetID               string   `gcfg:"subnet-id" doc:"Subnet of VIPs; when empty and network-id too, the one that the first member is in. VIPs of the other IP family are in a subnet of the same network."`
	MemberSubnetID         string   `gcfg:"member-subnet-id" doc:"Subnet of members; when empty, the one that each of them is in."`
	NetworkID              string   `gcfg:"network-id" doc:"Network of VIPs."`
	FloatingNetworkID      string   `gcfg:"floating-network-id" doc:"External network of floating IPs; else the first one that has an IPv4 subnet. Where there is none, the addresses of VIPs are published."`
	FloatingSubnet         string   `gcfg:"floating-subnet" doc:"Name pattern of the external subnet, for the whole name: a glob (public-*, {a,b}), a regular expression after ~, either negated by a leading !."`
	FloatingSubnetID       string   `gcfg:"floating-subnet-id" doc:"External subnet of floating IPs."`
	FloatingSubnetTags     string   `gcfg:"floating-subnet-tags" doc:"Tags of the external subnet, separated by commas or blanks: one of them; after & all of them, after ! not all of them, after !& none of them."`
	CreateMonitor          bool     `gcfg:"create-monitor" default:"false" doc:"Give pools a health monitor. Policy Local always has one."`
	MonitorDelay           Duration `gcfg:"monitor-delay" default:"5s" doc:"Time between two checks of a member."`
	MonitorTimeout         Duration `gcfg:"monitor-timeout" default:"3s" doc:"How long a check may take."`
	MonitorMaxRetries      int      `gcfg:"monitor-max-retries" default:"1" doc:"Successful checks that bring a member back, 1 to 10."`
	MonitorMaxRetriesDown  int      `gcfg:"monitor-max-retries-down" default:"3" doc:"Failed checks that take a member out, 1 to 10."`
	ManageSecurityGroups   bool     `gcfg:"manage-security-groups" default:"false" doc:"Open the node ports by a security group for each Service, which is given to the ports of its Nodes beside the groups that these have: to the subnets that the load balancer sends from or, for provider ovn, which keeps the addresses of clients, to those."`
	EnableIngressHostname  bool     `gcfg:"enable-ingress-hostname" default:"false" doc:"Publish a host name instead of the address of PROXY protocol load balancers."`
	IngressHostnameSuffix  string   `gcfg:"ingress-hostname-suffix" default:"nip.io" doc:"Domain of that host name."`
	MaxSharedLB            int      `gcfg:"max-shared-lb" default:"2" doc:"Services that may share one load balancer."`
	ContainerStore         string   `gcfg:"container-store" default:"barbican" doc:"Store of TLS certificates: barbican or external. Octavia checks the references."`
	SerialAPICalls         bool     `gcfg:"provider-requires-serial-api-calls" default:"false" doc:"Make children one by one instead of with the load balancer in one call."`
	DefaultTLSContainerRef string   `gcfg:"default-tls-container-ref" doc:"Barbican reference of the certificate of TLS listeners whose Service names none."`
}

// LoadBalancerClass is one section [LoadBalancerClass "name"].
type LoadBalancerClass struct {
	FloatingNetworkID  string `gcfg:"floating-network-id" doc:"As in [LoadBalancer]."`
	FloatingSubnetID   string `gcfg:"floating-subnet-id" doc:"As in [LoadBalancer]."`
	FloatingSubnet     string `gcfg:"floating-subnet" doc:"As in [LoadBalancer]."`
	FloatingSubnetTags string `gcfg:"floating-subnet-tags" doc:"As in [LoadBalancer]."`
	NetworkID          string `gcfg:"network-id" doc:"As in [LoadBalancer]."`
	SubnetID           string `gcfg:"subnet-id" doc:"As in [LoadBalancer]."`
	MemberSubnetID     string `gcfg:"member-subnet-id" doc:"As in [LoadBalancer]."`
}

// Route is the section [Route].
type Route struct {
	RouterID []string `gcfg:"router-id" doc:"Router that pod routes are set on; without it routes are not managed. May be repeated: a Node's routes are set on each of these routers that has an interface on the subnet of the Node's address."`
}

// Region is one section [Region "name"].
type Region struct {
	RouterID            []string `gcfg:"router-id" doc:"As in [Route]; without it there are no pod routes in this region."`
	PublicNetworkName   []string `gcfg:"public-network-name" doc:"As in [Networking], which it replaces."`
	InternalNetworkName []string `gcfg:"internal-network-name" doc:"As in [Networking], which it replaces."`
}

// Metadata is the section [Metadata].
type Metadata struct {
	SearchOrder     string   `gcfg:"search-order" doc:"Order of the sources configDrive and metadataService, or one of them; empty for neither."`
	RequestTimeout  Duration `gcfg:"request-timeout" default:"0s" doc:"Timeout of each request to the cloud; 0 for 30s. Of those to the metadata service as well, where 0 is 5s."`
	ConfigDrive     string   `gcfg:"config-drive" default:"/mnt/config" doc:"Folder in which the config drive is mounted."`
	ServiceURL      string   `gcfg:"service-url" default:"http://169.254.169.254" doc:"Address of the metadata service."`
	NodeLabelPrefix string   `gcfg:"node-label-prefix" doc:"Metadata of a server whose key begins with this, such as label:, become labels of its Node when that is initialized, without the prefix. Keys and values that make no valid label are left out. Empty for none."`
}

// Networking is the section [Networking].
type Networking struct {
	IPv6SupportDisabled bool     `gcfg:"ipv6-support-disabled" default:"false" doc:"Leave IPv6 addresses out."`
	PublicNetworkName   []string `gcfg:"public-network-name" doc:"Network whose addresses are ExternalIP; may be repeated."`
	InternalNetworkName []string `gcfg:"internal-network-name" doc:"Network whose addresses are InternalIP, others being left out; may be repeated."`
	AddressSortOrder    string   `gcfg:"address-sort-order" doc:"Comma-separated CIDRs; addresses in the first come first, and so on."`

	// sortOrder is AddressSortOrder, parsed by check.
	sortOrder []netip.Prefix
}

// Prefixes are the prefixes of AddressSortOrder.
func (n *Networking) Prefixes() []netip.Prefix { return n.sortOrder }

// BlockStorage is the section [BlockStorage].
type BlockStorage struct {
	IgnoreVolumeAZ bool `gcfg:"ignore-volume-az" default:"false" doc:"Do not label PersistentVolumes with the zone of their volume."`
}

// Duration is a time span as cloud.conf has it.
type Duration = cloudconf.Duration

// Words of the file.
const (
	MethodRoundRobin       = "ROUND_ROBIN"
	MethodLeastConnections = "LEAST_CONNECTIONS"
	MethodSourceIP         = "SOURCE_IP"
	MethodSourceIPPort     = "SOURCE_IP_PORT"
	ProviderOVN            = "ovn"
	providerAmphora        = "amphora"
	providerOctavia        = "octavia" // another name of amphora
	StoreBarbican          = "barbican"
	storeExternal          = "external"

	sourceConfigDrive     = "configDrive"
	SourceMetadataService = "metadataService"
)

// Limits of Octavia (octavia.common.constants).
const (
	MaxSeconds = 24 * 60 * 60
	MaxRetries = 10
)

// methods are the algorithms that Octavia knows.
func methods() []string {
	return []string{MethodRoundRobin, MethodLeastConnections, MethodSourceIP, MethodSourceIPPort}
}

// IsMethod reports whether Octavia knows an algorithm.
func IsMethod(s string) bool { return slices.Contains(methods(), s) }

// IsAmphora reports whether a provider is that of amphorae, which has two names.
func IsAmphora(provider string) bool {
	return provider == providerAmphora || provider == providerOctavia
}

func defaultConfig() Config {
	return Config{
		LoadBalancer: LoadBalancer{
			Enabled:               true,
			Provider:              providerAmphora,
			CascadeDelete:         true,
			MonitorDelay:          Duration(5 * time.Second),
			MonitorTimeout:        Duration(3 * time.Second),
			MonitorMaxRetries:     1,
			MonitorMaxRetriesDown: 3,
			IngressHostnameSuffix: "nip.io",
			MaxSharedLB:           2,
			ContainerStore:        StoreBarbican,
		},
		Metadata: Metadata{ConfigDrive: "/mnt/config", ServiceURL: "http://169.254.169.254"},
	}
}

// Settings are all settings with their values, for people; see gcfg.Values.
func (c *Config) Settings() map[string]map[string]string { return gcfg.Values(c) }

// Parse decodes and checks cloud.conf. file is its name for messages. Unknown keys
// and doubtful values are warnings; err joins every error there is, each naming file,
// section and key. [Global] is checked by the session that is made of it.
func Parse(file string, data []byte) (cfg *Config, warnings []string, err error) {
	c := defaultConfig()
	warnings, decodeErr := gcfg.Decode(file, data, &c)
	if c.LoadBalancer.Method == "" {
		c.LoadBalancer.Method = MethodRoundRobin
		if c.LoadBalancer.Provider == ProviderOVN {
			c.LoadBalancer.Method = MethodSourceIPPort
		}
	}
	// What did not decode kept its default, so it is not complained about twice.
	more, checkErr := c.check(file)
	warnings = append(warnings, more...)
	if err := errors.Join(decodeErr, checkErr); err != nil {
		return nil, warnings, err
	}
	return &c, warnings, nil
}
