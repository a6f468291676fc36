package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// checker collects what is wrong with a file. What the existing manager starts with is a warning
// at most: such a file must not keep a cluster that is taken over without a manager.
type checker struct {
	file     string
	warnings []string
	errs     []error
}

func (k *checker) errorf(section, key, format string, args ...any) {
	k.errs = append(k.errs, fmt.Errorf("%s: [%s] %s: %s", k.file, section, key, fmt.Sprintf(format, args...)))
}

func (k *checker) warnf(section, key, format string, args ...any) {
	k.warnings = append(k.warnings, fmt.Sprintf("%s: [%s] %s: %s", k.file, section, key, fmt.Sprintf(format, args...)))
}

func (k *checker) uuid(section, key, value string) {
	if value != "" && !text.IsUUID(value) {
		k.warnf(section, key, "%q is not a UUID, which OpenStack will refuse; give the ID, not the name", value)
	}
}

// routers returns a list of routers without what does not count.
func (k *checker) routers(section string, ids []string) []string {
	var out []string
	for _, id := range ids {
		switch {
		case id == "":
			k.warnf(section, "router-id", "is empty, which has no effect; remove the key")
			continue
		case slices.Contains(out, id):
			k.warnf(section, "router-id", "%s is there twice", id)
			continue
		}
		k.uuid(section, "router-id", id)
		out = append(out, id)
	}
	return out
}

// retries replaces a number that Octavia would refuse by the default, lest no Service with a
// health monitor be served.
func (k *checker) retries(section, key string, value *int, def int) {
	switch {
	case *value < 0:
		k.errorf(section, key, "%d is negative; use a number between 1 and %d", *value, MaxRetries)
	case *value < 1 || *value > MaxRetries:
		k.warnf(section, key, "%d is not between 1 and %d, as Octavia requires: %d is used", *value, MaxRetries, def)
		*value = def
	}
}

// seconds is retries for durations.
func (k *checker) seconds(section, key string, value *Duration, def Duration) {
	switch d := time.Duration(*value); {
	case d < time.Second || d > MaxSeconds*time.Second:
		k.warnf(section, key, "%s is not between 1s and %ds, as Octavia requires: %s is used", *value, MaxSeconds, def)
		*value = def
	case d%time.Second != 0:
		k.warnf(section, key, "%s counts as %ds: Octavia takes whole seconds", *value, value.Seconds())
	}
}

// check checks every section but [Global] and fills in what is derived from keys.
func (c *Config) check(file string) (warnings []string, err error) {
	k := &checker{file: file}
	if g := &c.Global; (g.CertFile == "") != (g.KeyFile == "") && !g.UseClouds {
		k.warnf("Global", "cert-file", "no client certificate is sent: it needs both cert-file and key-file")
	}
	k.loadBalancer(&c.LoadBalancer)
	for _, name := range slices.Sorted(maps.Keys(c.LoadBalancerClass)) {
		k.class(name, c.LoadBalancerClass[name])
	}
	c.Route.RouterID = k.routers("Route", c.Route.RouterID)
	for _, name := range slices.Sorted(maps.Keys(c.Region)) {
		k.region(name, c.Region[name])
	}
	k.metadata(&c.Metadata)
	c.Networking.sortOrder = k.prefixes("Networking", "address-sort-order", c.Networking.AddressSortOrder)
	return k.warnings, errors.Join(k.errs...)
}

func (k *checker) loadBalancer(lb *LoadBalancer) {
	const section = "LoadBalancer"
	if lb.Provider == "" {
		k.warnf(section, "lb-provider", "is empty: Octavia's default provider is taken; leave the key out for amphora")
	}
	if !IsMethod(lb.Method) {
		k.warnf(section, "lb-method", "%q is none of %s: pools keep the algorithm that they have, new ones get %s", lb.Method, strings.Join(methods(), ", "), MethodRoundRobin)
	}
	if lb.Provider == ProviderOVN && IsMethod(lb.Method) && lb.Method != MethodSourceIPPort {
		k.warnf(section, "lb-method", "provider ovn refuses %s; set %s or leave the key out", lb.Method, MethodSourceIPPort)
	}
	if IsAmphora(lb.Provider) && lb.Method == MethodSourceIPPort {
		k.warnf(section, "lb-method", "provider %s does not know %s and goes by %s; set another or leave the key out", lb.Provider, lb.Method, MethodRoundRobin)
	}
	if _, err := cloud.ParseSelector(lb.NodeSelector); err != nil {
		k.warnf(section, "node-selector", "%v: Services without a selector of their own keep the members that they have, new ones are not served", err)
	}
	for _, id := range []struct{ key, value string }{
		{"flavor-id", lb.FlavorID}, {"subnet-id", lb.SubnetID}, {"member-subnet-id", lb.MemberSubnetID},
		{"network-id", lb.NetworkID}, {"floating-network-id", lb.FloatingNetworkID}, {"floating-subnet-id", lb.FloatingSubnetID},
	} {
		k.uuid(section, id.key, id.value)
	}
	k.pattern(section, "floating-subnet", lb.FloatingSubnet)
	usual := defaultConfig().LoadBalancer
	k.seconds(section, "monitor-delay", &lb.MonitorDelay, usual.MonitorDelay)
	k.seconds(section, "monitor-timeout", &lb.MonitorTimeout, usual.MonitorTimeout)
	if lb.MonitorTimeout > lb.MonitorDelay {
		k.warnf(section, "monitor-timeout", "%s is longer than monitor-delay %s; Octavia may refuse it", lb.MonitorTimeout, lb.MonitorDelay)
	}
	k.retries(section, "monitor-max-retries", &lb.MonitorMaxRetries, usual.MonitorMaxRetries)
	k.retries(section, "monitor-max-retries-down", &lb.MonitorMaxRetriesDown, usual.MonitorMaxRetriesDown)
	if lb.MaxSharedLB < 1 {
		k.warnf(section, "max-shared-lb", "%d: no load balancer can be shared", lb.MaxSharedLB)
	}
	if errs := validation.IsDNS1123Subdomain(lb.IngressHostnameSuffix); len(errs) > 0 {
		k.warnf(section, "ingress-hostname-suffix", "%q is not a domain name: %s; addresses are published in its place", lb.IngressHostnameSuffix, errs[0])
	}
	if lb.ContainerStore != StoreBarbican && lb.ContainerStore != storeExternal {
		k.warnf(section, "container-store", "%q is neither %s nor %s: certificates are not looked up", lb.ContainerStore, StoreBarbican, storeExternal)
	}
}

func (k *checker) class(name string, class *LoadBalancerClass) {
	section := fmt.Sprintf("LoadBalancerClass %q", name)
	if name == "" {
		section = "LoadBalancerClass"
		k.warnf(section, "", "has no name: its subnet-id and network-id are those of the VIP of every Service without a class, its other keys have no effect; write [LoadBalancerClass \"name\"] for a class")
	}
	for _, id := range []struct{ key, value string }{
		{"floating-network-id", class.FloatingNetworkID}, {"floating-subnet-id", class.FloatingSubnetID},
		{"network-id", class.NetworkID}, {"subnet-id", class.SubnetID}, {"member-subnet-id", class.MemberSubnetID},
	} {
		k.uuid(section, id.key, id.value)
	}
	k.pattern(section, "floating-subnet", class.FloatingSubnet)
}

// region checks a further region. Its name becomes part of provider IDs and a label's value.
func (k *checker) region(name string, r *Region) {
	if errs := validation.IsValidLabelValue(name); name == "" || len(errs) > 0 {
		k.errorf("Region", strconv.Quote(name), "a section needs the name of a region of the catalog: [Region \"name\"]")
		return
	}
	r.RouterID = k.routers(fmt.Sprintf("Region %q", name), r.RouterID)
}

func (k *checker) metadata(m *Metadata) {
	const section = "Metadata"
	var seen []string
	for _, source := range text.List(m.SearchOrder) {
		if source != sourceConfigDrive && source != SourceMetadataService {
			k.errorf(section, "search-order", "%q is none of %s, %s", source, sourceConfigDrive, SourceMetadataService)
		}
		if slices.Contains(seen, source) {
			k.warnf(section, "search-order", "%s stands there twice", source)
		}
		seen = append(seen, source)
	}
	if !filepath.IsAbs(m.ConfigDrive) {
		k.errorf(section, "config-drive", "%q is not the absolute path of a folder", m.ConfigDrive)
	}
	if u, err := url.Parse(m.ServiceURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		k.errorf(section, "service-url", "not a URL such as http://169.254.169.254")
	}
	if m.RequestTimeout < 0 {
		k.warnf(section, "request-timeout", "%s is negative and has no effect", m.RequestTimeout)
	}
}

// pattern checks a subnet name pattern.
func (k *checker) pattern(section, key, value string) {
	if _, err := SubnetMatcher(value); err != nil {
		k.warnf(section, key, "%q: %v: no floating IP can be made by it", value, err)
	}
}

func (k *checker) prefixes(section, key, value string) []netip.Prefix {
	var out []netip.Prefix
	for _, item := range text.List(value) {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			k.warnf(section, key, "%q is not a CIDR such as 10.0.0.0/8 and is left out", item)
			continue
		}
		out = append(out, p.Masked())
	}
	return out
}
