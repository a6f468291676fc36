package openstack

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// checker collects what is wrong with a file.
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
	if value != "" && !isUUID(value) {
		k.errorf(section, key, "%q is not a UUID; give the ID, not the name", value)
	}
}

// routers checks a list of routers.
func (k *checker) routers(section string, ids []string) {
	for n, id := range ids {
		switch {
		case id == "":
			k.errorf(section, "router-id", "must not be empty; remove the key")
		case slices.Contains(ids[:n], id):
			k.errorf(section, "router-id", "%s is there twice", id)
		}
		k.uuid(section, "router-id", id)
	}
}

func (k *checker) enum(section, key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		k.errorf(section, key, "%q is none of %s", value, strings.Join(allowed, ", "))
	}
}

func (k *checker) between(section, key string, value, low, high int) {
	if value < low || value > high {
		k.errorf(section, key, "%d is not between %d and %d", value, low, high)
	}
}

func (k *checker) seconds(section, key string, value Duration) {
	d := time.Duration(value)
	if d < time.Second || d%time.Second != 0 {
		k.errorf(section, key, "%s is not a whole number of seconds, at least 1s", value)
	}
}

// check checks every section but [Global] and fills in what is derived from keys.
func (c *Config) check(file string) (warnings []string, err error) {
	k := &checker{file: file}
	k.loadBalancer(&c.LoadBalancer)
	for _, name := range slices.Sorted(maps.Keys(c.LoadBalancerClass)) {
		k.class(name, c.LoadBalancerClass[name])
	}
	k.routers("Route", c.Route.RouterID)
	for _, name := range slices.Sorted(maps.Keys(c.Region)) {
		k.region(name, c.Region[name])
	}
	k.metadata(&c.Metadata)
	c.Networking.sortOrder = k.prefixes("Networking", "address-sort-order", c.Networking.AddressSortOrder)
	return k.warnings, errors.Join(k.errs...)
}

func (k *checker) loadBalancer(lb *LoadBalancerConfig) {
	const section = "LoadBalancer"
	if lb.Provider == "" {
		k.errorf(section, "lb-provider", "must not be empty; leave the key out for amphora")
	}
	k.enum(section, "lb-method", lb.Method, methodRoundRobin, methodLeastConnections, methodSourceIP, methodSourceIPPort)
	if lb.Provider == providerOVN && lb.Method != methodSourceIPPort {
		k.warnf(section, "lb-method", "provider ovn refuses %s; set %s or leave the key out", lb.Method, methodSourceIPPort)
	}
	if isAmphora(lb.Provider) && lb.Method == methodSourceIPPort {
		k.warnf(section, "lb-method", "provider %s does not know %s and goes by %s; set another or leave the key out", lb.Provider, lb.Method, methodRoundRobin)
	}
	if _, err := labels.Parse(lb.NodeSelector); err != nil {
		k.errorf(section, "node-selector", "not a label selector: %v", err)
	}
	for _, id := range []struct{ key, value string }{
		{"flavor-id", lb.FlavorID}, {"subnet-id", lb.SubnetID}, {"member-subnet-id", lb.MemberSubnetID},
		{"network-id", lb.NetworkID}, {"floating-network-id", lb.FloatingNetworkID}, {"floating-subnet-id", lb.FloatingSubnetID},
	} {
		k.uuid(section, id.key, id.value)
	}
	k.pattern(section, "floating-subnet", lb.FloatingSubnet)
	k.seconds(section, "monitor-delay", lb.MonitorDelay)
	k.seconds(section, "monitor-timeout", lb.MonitorTimeout)
	if lb.MonitorTimeout > lb.MonitorDelay {
		k.warnf(section, "monitor-timeout", "%s is longer than monitor-delay %s; Octavia may refuse it", lb.MonitorTimeout, lb.MonitorDelay)
	}
	k.between(section, "monitor-max-retries", lb.MonitorMaxRetries, 1, 10)
	k.between(section, "monitor-max-retries-down", lb.MonitorMaxRetriesDown, 1, 10)
	k.between(section, "max-shared-lb", lb.MaxSharedLB, 1, 1000)
	if errs := validation.IsDNS1123Subdomain(lb.IngressHostnameSuffix); len(errs) > 0 {
		k.errorf(section, "ingress-hostname-suffix", "%q is not a domain name: %s", lb.IngressHostnameSuffix, errs[0])
	}
	k.enum(section, "container-store", lb.ContainerStore, storeBarbican, storeExternal)
}

func (k *checker) class(name string, class *LoadBalancerClassConfig) {
	section := fmt.Sprintf("LoadBalancerClass %q", name)
	if name == "" {
		k.errorf("LoadBalancerClass", "", "a class needs a name: [LoadBalancerClass \"name\"]")
		return
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
func (k *checker) region(name string, r *RegionConfig) {
	if errs := validation.IsValidLabelValue(name); name == "" || len(errs) > 0 {
		k.errorf("Region", strconv.Quote(name), "a section needs the name of a region of the catalog: [Region \"name\"]")
		return
	}
	k.routers(fmt.Sprintf("Region %q", name), r.RouterID)
}

func (k *checker) metadata(m *MetadataConfig) {
	const section = "Metadata"
	var seen []string
	for _, source := range splitList(m.SearchOrder) {
		k.enum(section, "search-order", source, sourceConfigDrive, sourceMetadataService)
		if slices.Contains(seen, source) {
			k.errorf(section, "search-order", "%s stands there twice", source)
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
		k.errorf(section, "request-timeout", "%s is negative", m.RequestTimeout)
	}
}

// pattern checks a subnet name pattern: [!] glob, or [!] ~ regular expression.
func (k *checker) pattern(section, key, value string) {
	rest := strings.TrimPrefix(value, "!")
	if re, ok := strings.CutPrefix(rest, "~"); ok {
		if _, err := regexp.Compile(re); err != nil {
			k.errorf(section, key, "%q is not a regular expression: %v", re, err)
		}
		return
	}
	if _, err := path.Match(rest, ""); err != nil {
		k.errorf(section, key, "%q is not a glob pattern: %v", rest, err)
	}
}

func (k *checker) prefixes(section, key, value string) []netip.Prefix {
	var out []netip.Prefix
	for _, item := range splitList(value) {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			k.errorf(section, key, "%q is not a CIDR such as 10.0.0.0/8", item)
			continue
		}
		out = append(out, p.Masked())
	}
	return out
}

// splitList splits a comma-separated list, dropping blanks and empty items.
func splitList(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
