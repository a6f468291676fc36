package config

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

// Config is vsphere.conf, decoded and checked. The struct tags are the reference: gcfg names the key in INI, yaml in YAML.
type Config struct {
	Global  Global              `gcfg:"Global" yaml:"global" doc:"What vCenters share that have no value of their own."`
	VCenter map[string]*VCenter `gcfg:"VirtualCenter" yaml:"vcenter" doc:"A vCenter. The name is any in YAML; in INI it is the address where there is no key server."`
	Labels  Labels              `gcfg:"Labels" yaml:"labels" doc:"The categories of tags that say where a machine is. Without both of them Nodes get no zone."`
	Nodes   Nodes               `gcfg:"Nodes" yaml:"nodes" doc:"Which of a machine's addresses its Node gets."`

	LoadBalancer      LoadBalancer      `gcfg:"LoadBalancer" yaml:"loadBalancer" keys:"unserved" doc:"Load balancers of NSX-T, which are not served: refused where it turns them on."`
	LoadBalancerClass map[string]*Class `gcfg:"LoadBalancerClass" yaml:"loadBalancerClass" keys:"unserved" doc:"A class of them."`
	NSXT              NSXT              `gcfg:"NSXT" yaml:"nsxt" keys:"unserved" doc:"Access to NSX-T; has no effect."`
	Route             Route             `gcfg:"Route" yaml:"route" keys:"unserved" doc:"Routes of NSX-T, which are not served: refused where it turns them on."`
}

// Access is how a vCenter is reached. In Global it is for those that have no value of their own.
type Access struct {
	User            string           `gcfg:"user" yaml:"user" doc:"The user's name, or a certificate in PEM, with which a token of the vCenter's token service is got."`
	Password        cloudauth.Secret `gcfg:"password" yaml:"password" doc:"The password, or the certificate's key in PEM."`
	Server          string           `gcfg:"server" yaml:"server" doc:"The vCenter's name or address."`
	Port            string           `gcfg:"port" yaml:"port" default:"443" doc:"Its port."`
	Insecure        bool             `gcfg:"insecure-flag" yaml:"insecureFlag" default:"false" doc:"Its certificate is not verified. Where [Global] has true, a vCenter cannot have false."`
	Datacenters     gcfg.List        `gcfg:"datacenters" yaml:"datacenters" doc:"The datacenters in which machines are looked for, by name, path or ID (Datacenter:datacenter-3); when empty, all."`
	RoundTrips      int              `gcfg:"soap-roundtrip-count" yaml:"soapRoundtripCount" doc:"Has no effect."`
	CAFile          string           `gcfg:"ca-file" yaml:"caFile" doc:"A file with the certificates of authorities that its certificate is verified by, in place of the system's."`
	Thumbprint      string           `gcfg:"thumbprint" yaml:"thumbprint" doc:"The fingerprint of its certificate (SHA-1 or SHA-256, in hex with colons), which is then taken whoever has signed it."`
	SecretName      string           `gcfg:"secret-name" yaml:"secretName" doc:"A Secret with user and password, by the keys ADDRESS.username and ADDRESS.password."`
	SecretNamespace string           `gcfg:"secret-namespace" yaml:"secretNamespace" doc:"Its namespace."`
	IPFamily        gcfg.List        `gcfg:"ip-family" yaml:"ipFamily" default:"ipv4" doc:"The IP families of Nodes' addresses, ipv4, ipv6 or both; the addresses of the first come first."`
}

// Global is the section for all vCenters.
type Global struct {
	Access
	SecretsDirectory string `gcfg:"secrets-directory" yaml:"secretsDirectory" doc:"A directory with files named as the keys of the Secret. When empty, /etc/cloud/secrets if it is there. It counts before secret-name of [Global]."`
	APIDisable       bool   `gcfg:"api-disable" yaml:"apiDisable" doc:"Has no effect."`
	APIBinding       string `gcfg:"api-binding" yaml:"apiBinding" doc:"Has no effect."`
	// KeepNodes is SKIP_NODE_DELETION of the environment: the Node of a machine that is gone stays.
	KeepNodes bool `gcfg:"-" yaml:"-"`
}

// VCenter is the section of one vCenter.
type VCenter struct {
	Access
	// Name is the section's, for messages.
	Name string `gcfg:"-" yaml:"-"`
	// Families is IPFamily, checked.
	Families []Family `gcfg:"-" yaml:"-"`
}

// Family is an IP family.
type Family string

// The families.
const (
	IPv4 Family = "ipv4"
	IPv6 Family = "ipv6"
)

// Has reports whether an address is of the family.
func (f Family) Has(a netip.Addr) bool { return a.IsValid() && (f == IPv4) == a.Unmap().Is4() }

// Labels are the names of categories of tags.
type Labels struct {
	Zone   string `gcfg:"zone" yaml:"zone" doc:"The category of tags whose name is the zone."`
	Region string `gcfg:"region" yaml:"region" doc:"The category of tags whose name is the region."`
}

// On reports whether Nodes get zones.
func (l Labels) On() bool { return l.Zone != "" && l.Region != "" }

// Nodes is which addresses Nodes get.
type Nodes struct {
	Internal        Subnets `gcfg:"internal-network-subnet-cidr" yaml:"internalNetworkSubnetCidr" doc:"The first address in the first of these ranges is the InternalIP."`
	External        Subnets `gcfg:"external-network-subnet-cidr" yaml:"externalNetworkSubnetCidr" doc:"The same for the ExternalIP."`
	InternalNetwork string  `gcfg:"internal-vm-network-name" yaml:"internalVmNetworkName" doc:"The network whose first address is the InternalIP where no range has one."`
	ExternalNetwork string  `gcfg:"external-vm-network-name" yaml:"externalVmNetworkName" doc:"The same for the ExternalIP."`
	ExcludeInternal Subnets `gcfg:"exclude-internal-network-subnet-cidr" yaml:"excludeInternalNetworkSubnetCidr" doc:"No address in these ranges is an InternalIP, unless the Node's kubelet was given it (--node-ip)."`
	ExcludeExternal Subnets `gcfg:"exclude-external-network-subnet-cidr" yaml:"excludeExternalNetworkSubnetCidr" doc:"No address in these ranges is an ExternalIP."`
}

// Subnets are ranges of addresses.
type Subnets []netip.Prefix

// UnmarshalText implements encoding.TextUnmarshaler: ranges with commas between them.
func (s *Subnets) UnmarshalText(text []byte) error {
	var all gcfg.List
	if err := all.UnmarshalText(text); err != nil {
		return err
	}
	var out Subnets
	for _, word := range all {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			return fmt.Errorf("%.100q is no range of addresses such as 10.0.0.0/16", word)
		}
		out = append(out, p.Masked())
	}
	*s = out
	return nil
}

// Contains reports whether one of the ranges has the address.
func (s Subnets) Contains(a netip.Addr) bool {
	for _, p := range s {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Settings are all settings with their values, for people; see gcfg.Values.
func (c *Config) Settings() map[string]map[string]string { return gcfg.Values(c) }

// Parse decodes and checks vsphere.conf. file is its name for messages; getenv is os.Getenv, whose variables VSPHERE_… count as
// for the existing manager. Doubtful values are warnings; err joins every error there is, each naming file, section and key.
func Parse(file string, data []byte, getenv func(string) string) (cfg *Config, warnings []string, err error) {
	c, decode, k := &Config{}, gcfg.Decode, &checker{file: file, yaml: gcfg.IsYAML(data)}
	if k.yaml {
		decode = gcfg.DecodeYAML
	}
	warnings, decodeErr := decode(file, data, c)
	k.environment(c, getenv)
	if decodeErr == nil { // what did not decode would be complained about twice
		k.check(c)
	}
	warnings = append(warnings, k.warnings...)
	if err := errors.Join(append([]error{decodeErr}, k.errs...)...); err != nil {
		return nil, warnings, err
	}
	return c, warnings, nil
}
