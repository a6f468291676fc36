package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// checker collects what is wrong with a file.
type checker struct {
	file     string
	yaml     bool // else INI
	warnings []string
	errs     []error
}

// say is how people call a key, whose name in INI it gets.
func (k *checker) say(section, sub, key string) string {
	if k.yaml {
		return inYAML(section, sub, key)
	}
	if sub != "" {
		return fmt.Sprintf("[%s %q] %s", section, sub, key)
	}
	return fmt.Sprintf("[%s] %s", section, key)
}

// yamlNames are the names in YAML of what has another in INI.
var yamlNames = map[string]string{"VirtualCenter": "vcenter", "LoadBalancer": "loadBalancer"}

func inYAML(section, sub, key string) string {
	section = cmp.Or(yamlNames[section], strings.ToLower(section))
	if sub != "" {
		section += "." + sub
	}
	var b strings.Builder
	for i, word := range strings.Split(key, "-") { // secret-name is secretName
		if i > 0 && word != "" {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		b.WriteString(word)
	}
	return section + "." + b.String()
}

func (k *checker) fail(format string, args ...any) {
	k.errs = append(k.errs, fmt.Errorf("%s: %s", k.file, fmt.Sprintf(format, args...)))
}

func (k *checker) warn(format string, args ...any) {
	k.warnings = append(k.warnings, fmt.Sprintf("%s: %s", k.file, fmt.Sprintf(format, args...)))
}

// The sections of the file, as INI has them.
const (
	global  = "Global"
	vcenter = "VirtualCenter"
)

// secretsDirectory is taken where it is there and the file names none.
const secretsDirectory = "/etc/cloud/secrets"

// check checks the whole file, and gives each vCenter what it takes from Global.
func (k *checker) check(c *Config) {
	if c.Global.SecretsDirectory == "" {
		if _, err := os.Stat(secretsDirectory); err == nil {
			c.Global.SecretsDirectory = secretsDirectory
		}
	}
	k.global(c)
	k.nsxt(c)
	servers := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.VCenter)) {
		v := c.VCenter[name]
		v.Name = name
		k.inherit(&v.Access, &c.Global.Access)
		k.vcenter(c, v)
		at := v.Server + ":" + v.Port
		if first, twice := servers[at]; twice && v.Server != "" {
			k.fail("%s: %s is that of %s already; remove one", k.say(vcenter, name, "server"), at, k.say(vcenter, first, "server"))
		}
		servers[at] = name
	}
	switch {
	case len(c.VCenter) == 0:
		k.fail("there is no vCenter; add one: %s", k.say(vcenter, "name", "server"))
	case (c.Labels.Zone == "") != (c.Labels.Region == ""):
		k.warn("%s: Nodes get zones only with both, zone and region", k.say("Labels", "", "zone"))
	}
}

// global checks what counts for all, and makes the server of Global a vCenter.
func (k *checker) global(c *Config) {
	g := &c.Global
	if g.Server != "" && c.VCenter[g.Server] == nil {
		if c.VCenter == nil {
			c.VCenter = map[string]*VCenter{}
		}
		c.VCenter[g.Server] = &VCenter{Access: g.Access}
	}
	if (g.SecretName == "") != (g.SecretNamespace == "") {
		k.warn("%s: has no effect without both, the Secret's name and its namespace", k.say(global, "", "secret-name"))
	}
	if g.SecretName != "" && g.SecretsDirectory != "" {
		k.warn("%s: has no effect beside the directory %s, which counts before it", k.say(global, "", "secret-name"), g.SecretsDirectory)
	}
}

// nsxt refuses what would be served by NSX-T.
func (k *checker) nsxt(c *Config) {
	const why = "load balancers and routes of NSX-T are not served; remove the section, and let the existing manager or another load balancer serve Services"
	if c.LoadBalancer.on() || len(c.LoadBalancerClass) > 0 {
		k.fail("%s: %s", k.say("LoadBalancer", "", "tier1-gateway-path"), why)
	}
	if c.Route.RouterPath != "" {
		k.fail("%s: %s", k.say("Route", "", "router-path"), why)
	}
}

// inherit takes over from Global what a vCenter has no value of.
func (k *checker) inherit(v, g *Access) {
	if v.SecretName == "" || v.SecretNamespace == "" { // else they are in the vCenter's own Secret
		if v.User == "" {
			v.User = g.User
		}
		if v.Password.IsEmpty() {
			v.Password = g.Password
		}
	}
	v.Port = cmp.Or(v.Port, g.Port, "443")
	v.CAFile, v.Thumbprint = cmp.Or(v.CAFile, g.CAFile), cmp.Or(v.Thumbprint, g.Thumbprint)
	v.Insecure = v.Insecure || g.Insecure
	if len(v.Datacenters) == 0 {
		v.Datacenters = g.Datacenters
	}
	if len(v.IPFamily) == 0 {
		v.IPFamily = g.IPFamily
	}
}

func (k *checker) vcenter(c *Config, v *VCenter) {
	key := func(name string) string { return k.say(vcenter, v.Name, name) }
	if v.Server == "" {
		if k.yaml {
			k.fail("%s: is required", key("server"))
		}
		v.Server = v.Name
	}
	if n, err := strconv.Atoi(v.Port); err != nil || n < 1 || n > 65535 {
		k.fail("%s: %q is no port: use a number from 1 to 65535", key("port"), text.Clip(v.Port, 20))
	}
	if (v.SecretName == "") != (v.SecretNamespace == "") {
		k.warn("%s: has no effect without both, the Secret's name and its namespace", key("secret-name"))
	}
	if !c.inSecret(v) {
		if v.User == "" {
			k.fail("%s: is required, here or for all vCenters, where no Secret or directory of secrets has it", key("user"))
		}
		if v.Password.IsEmpty() {
			k.fail("%s: is required, here or for all vCenters, where no Secret or directory of secrets has it", key("password"))
		}
	}
	if v.Insecure && v.Thumbprint == "" {
		k.warn("%s: the vCenter's certificate is not verified, so that whoever is in between gets its password; use ca-file or thumbprint", key("insecure-flag"))
	}
	k.families(v, key("ip-family"))
}

// inSecret reports whether a Secret or a directory of secrets has the user and the password of a vCenter.
func (c *Config) inSecret(v *VCenter) bool {
	g := &c.Global
	return v.SecretName != "" && v.SecretNamespace != "" || g.SecretsDirectory != "" || g.SecretName != "" && g.SecretNamespace != ""
}

func (k *checker) families(v *VCenter, key string) {
	for _, word := range v.IPFamily {
		f := Family(strings.ToLower(word))
		switch {
		case f != IPv4 && f != IPv6:
			k.fail("%s: %q is neither ipv4 nor ipv6", key, text.Clip(word, 100))
		case slices.Contains(v.Families, f):
			k.warn("%s: %s is there twice", key, f)
		default:
			v.Families = append(v.Families, f)
		}
	}
	if len(v.Families) == 0 {
		v.Families = []Family{IPv4}
	}
}
