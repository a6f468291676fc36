package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Config is cloud.conf, decoded and checked. The struct tags are the reference.
type Config struct {
	Supervisor Supervisor `yaml:"supervisor" doc:"How the Supervisor is reached."`
	Cluster    Cluster    `yaml:"cluster" doc:"What is served of the guest cluster."`
}

// Supervisor is how it is reached.
type Supervisor struct {
	Server               string `yaml:"server" default:"https://supervisor.default.svc:PORT" doc:"The URL of its API server. PORT is that of the variable SUPERVISOR_APISERVER_PORT, which is required where there is no URL."`
	CredentialsDirectory string `yaml:"credentialsDirectory" default:"/etc/cloud/ccm-provider" doc:"A directory with the files token, ca.crt and namespace: a token, which is read anew as it changes, the authorities that have signed the API server's certificate, and the namespace of the guest cluster."`
	OwnerReferenceFile   string `yaml:"ownerReferenceFile" default:"/etc/kubernetes/guestclusters/cluster/ownerref.json" doc:"An owner reference in JSON: the guest cluster's object in the Supervisor. What is made for the cluster belongs to it, and is known by it."`
	VMOperatorAPIVersion string `yaml:"vmOperatorAPIVersion" default:"v1alpha2" doc:"The version of VM Operator's API: v1alpha2, v1alpha5 or v1alpha6."`
}

// Cluster is what is served.
type Cluster struct {
	ClusterIPFamily                    string `yaml:"clusterIPFamily" default:"ipv4" doc:"The families of Nodes' addresses, the first one first: ipv4, ipv6, ipv4ipv6 or ipv6ipv4. Others than ipv4 need vmOperatorAPIVersion v1alpha6."`
	IsLegacyParavirtual                bool   `yaml:"isLegacyParavirtual" default:"false" doc:"Load balancers find machines by labels of capw.vmware.com in place of capv.vmware.com."`
	Routes                             bool   `yaml:"routes" default:"false" doc:"Pod routes are made, as RouteSets of NSX or, with enableVPCMode, as its StaticRoutes. Needs --cluster-cidr."`
	EnableVPCMode                      bool   `yaml:"enableVPCMode" default:"false" doc:"The network is a VPC of NSX. Routes of IPv6 need it."`
	PodIPPoolType                      string `yaml:"podIPPoolType" doc:"Public or Private; required with enableVPCMode, and refused without. Has no other effect, as pod CIDRs are not taken from NSX."`
	EnableServiceAnnotationPropagation bool   `yaml:"enableServiceAnnotationPropagation" default:"false" doc:"Refused where it is true: annotations of Services are not copied to the Supervisor."`
}

// The versions of VM Operator's API.
const (
	v1alpha2 = "v1alpha2"
	v1alpha5 = "v1alpha5"
	v1alpha6 = "v1alpha6"
)

// HasIPFamilies reports whether load balancers can be of several IP families.
func (s *Supervisor) HasIPFamilies() bool { return s.VMOperatorAPIVersion == v1alpha6 }

// families are the values of ClusterIPFamily.
var families = []string{"ipv4", "ipv6", "ipv4ipv6", "ipv6ipv4"}

// IPv4 reports whether Nodes have addresses of IPv4.
func (c *Cluster) IPv4() bool { return strings.Contains(c.ClusterIPFamily, "ipv4") }

// IPv6 reports whether Nodes have addresses of IPv6.
func (c *Cluster) IPv6() bool { return strings.Contains(c.ClusterIPFamily, "ipv6") }

// IPv6First reports whether those of IPv6 come first.
func (c *Cluster) IPv6First() bool { return strings.HasPrefix(c.ClusterIPFamily, "ipv6") }

// portVariable has the port of the Supervisor's API server.
const portVariable = "SUPERVISOR_APISERVER_PORT"

// Settings are all settings with their values, for people; see gcfg.Values.
func (c *Config) Settings() map[string]map[string]string { return gcfg.Values(c) }

// Parse decodes and checks the file, and fills in defaults. file is its name for messages; getenv is os.Getenv. err joins every error
// there is, each naming file and key. The files that it names are not read.
func Parse(file string, data []byte, getenv func(string) string) (*Config, error) {
	if !gcfg.IsYAML(data) {
		return nil, fmt.Errorf("%s: it is no YAML; the paravirtual mode has its own file, with the sections supervisor and cluster", file)
	}
	c := &Config{}
	unknown, err := gcfg.DecodeYAML(file, data, c)
	errs := []error{err}
	for _, u := range unknown {
		errs = append(errs, errors.New(u))
	}
	if err == nil { // what did not decode would be complained about twice
		errs = append(errs, c.check(file, getenv)...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) check(file string, getenv func(string) string) (errs []error) {
	fail := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s: %s", cmp.Or(file, "without --cloud-config"), key, fmt.Sprintf(format, args...)))
	}
	s, k := &c.Supervisor, &c.Cluster
	s.CredentialsDirectory = cmp.Or(s.CredentialsDirectory, "/etc/cloud/ccm-provider")
	s.OwnerReferenceFile = cmp.Or(s.OwnerReferenceFile, "/etc/kubernetes/guestclusters/cluster/ownerref.json")
	s.VMOperatorAPIVersion = cmp.Or(s.VMOperatorAPIVersion, v1alpha2)
	k.ClusterIPFamily = cmp.Or(strings.ToLower(strings.TrimSpace(k.ClusterIPFamily)), "ipv4")
	if port := getenv(portVariable); s.Server == "" && port != "" {
		s.Server = "https://" + net.JoinHostPort("supervisor.default.svc", port)
	}
	if u, err := url.Parse(s.Server); s.Server == "" {
		fail("supervisor.server", "is required where the variable %s is not set", portVariable)
	} else if err != nil || u.Scheme != "https" || u.Host == "" {
		fail("supervisor.server", "%q is no URL such as https://supervisor.default.svc:6443", text.Clip(s.Server, 200))
	}
	if versions := []string{v1alpha2, v1alpha5, v1alpha6}; !slices.Contains(versions, s.VMOperatorAPIVersion) {
		fail("supervisor.vmOperatorAPIVersion", "%q is none of %s", text.Clip(s.VMOperatorAPIVersion, 50), strings.Join(versions, ", "))
	}
	switch v6 := k.ClusterIPFamily != "ipv4"; {
	case !slices.Contains(families, k.ClusterIPFamily):
		fail("cluster.clusterIPFamily", "%q is none of %s", text.Clip(k.ClusterIPFamily, 50), strings.Join(families, ", "))
	case v6 && !s.HasIPFamilies():
		fail("cluster.clusterIPFamily", "%s needs supervisor.vmOperatorAPIVersion %s: earlier ones make load balancers of IPv4 alone", k.ClusterIPFamily, v1alpha6)
	case v6 && k.Routes && !k.EnableVPCMode:
		fail("cluster.clusterIPFamily", "%s with cluster.routes needs cluster.enableVPCMode: RouteSets are of IPv4 alone", k.ClusterIPFamily)
	}
	switch pool := k.PodIPPoolType; {
	case k.EnableVPCMode && pool != "Public" && pool != "Private":
		fail("cluster.podIPPoolType", "%q is neither Public nor Private, of which enableVPCMode needs one", text.Clip(pool, 50))
	case !k.EnableVPCMode && pool != "":
		fail("cluster.podIPPoolType", "has no meaning without enableVPCMode; remove it")
	}
	if k.EnableServiceAnnotationPropagation {
		fail("cluster.enableServiceAnnotationPropagation", "annotations of Services are not copied to the Supervisor; set it to false if load balancers do without them, or stay with the existing manager")
	}
	return errs
}
