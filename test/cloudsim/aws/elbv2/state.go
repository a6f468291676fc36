package elbv2

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// Options configure regions. The zero value is a good one: its limits are AWS' quotas.
type Options struct {
	// Provisioning is how long load balancers are "provisioning"; 0 is no time.
	Provisioning time.Duration
	// Release is how long a deleted load balancer keeps its network interfaces, and a deleted listener its target
	// group; 0 is no time.
	Release time.Duration
	// Probing is how long targets are "initial"; 0 is no time.
	Probing time.Duration
	// Draining bounds how long targets are "draining", which is their group's deregistration delay otherwise; 0 does not bound it.
	Draining time.Duration
	// LoadBalancers is 50 by default, Listeners (of a load balancer) 50, TargetGroups 3000, Targets (of a group) 1000, ZoneTargets (of a
	// network load balancer in a zone, or in all where it balances across them) 500, BalancerTargets (of a network load balancer) 3000.
	LoadBalancers, Listeners, TargetGroups, Targets, ZoneTargets, BalancerTargets int
}

func (o *Options) complete() {
	for _, d := range []struct {
		at *int
		is int
	}{{&o.LoadBalancers, 50}, {&o.Listeners, 50}, {&o.TargetGroups, 3000}, {&o.Targets, 1000}, {&o.ZoneTargets, 500}, {&o.BalancerTargets, 3000}} {
		if *d.at == 0 {
			*d.at = d.is
		}
	}
}

// Limits are the account's, by AWS' names of them.
func (r *Region) Limits() map[string]int {
	return map[string]int{
		"application-load-balancers": r.opts.LoadBalancers, "network-load-balancers": r.opts.LoadBalancers, "listeners-per-network-load-balancer": r.opts.Listeners,
		"target-groups": r.opts.TargetGroups, "targets-per-network-load-balancer": r.opts.BalancerTargets,
		"targets-per-availability-zone-per-network-load-balancer": r.opts.ZoneTargets,
	}
}

// Region is what an account has in a region. All methods may be called concurrently.
type Region struct {
	ec2  *ec2.Region
	opts Options

	mu        sync.Mutex // guards all below
	clock     store.Clock
	balancers store.Table[*LoadBalancer]
	groups    store.Table[*TargetGroup]
	listeners store.Table[*Listener]
	health    map[healthOf]Health // what tests have set
	holds     map[string]int      // of target groups: listeners that have let them go lately
}

// New makes a region without load balancers, whose subnets, instances and security groups are EC2's.
func New(region *ec2.Region, opts Options) *Region {
	opts.complete()
	return &Region{ec2: region, opts: opts, health: map[healthOf]Health{}, holds: map[string]int{}}
}

// EC2 is the region's EC2.
func (r *Region) EC2() *ec2.Region { return r.ec2 }

func (r *Region) lock() {
	r.mu.Lock()
	r.clock.Settle()
}

// arn makes an ARN. Locked.
func (r *Region) arn(kind string) string {
	return fmt.Sprintf("arn:%s:elasticloadbalancing:%s:%s:%s", partition(r.ec2.Name()), r.ec2.Name(), r.ec2.Account(), kind)
}

func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// number makes the sixteen digits that ARNs and names have. Locked.
func (r *Region) number() string {
	return fmt.Sprintf("%016x", uint64(r.clock.Next())*0x9e3779b97f4a7c15)
}

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?$`)

// checkName checks what load balancers and target groups are called.
func checkName(kind, name string) error {
	switch {
	case len(name) > 32:
		return query.Errorf("ValidationError", "%s name '%s' cannot be longer than '32' characters", kind, name)
	case !nameForm.MatchString(name) || strings.HasPrefix(name, "internal-"): // unverified message
		return query.Errorf("ValidationError", "%s name '%s' can only contain characters that are alphanumeric characters and hyphens(-)",
			kind, name)
	}
	return nil
}

// checkTags says whether tags may be added to those that are there.
func checkTags(tags, there map[string]string) error {
	all := maps.Clone(there)
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range tags {
		if strings.HasPrefix(k, "aws:") || k == "" || len(k) > 128 || len(v) > 256 { // unverified message
			return query.Errorf("ValidationError", "The tag '%s' is not valid", k)
		}
		all[k] = v
	}
	if len(all) > 50 {
		return query.Errorf("TooManyTags", "Exceeded the maximum number of tags")
	}
	return nil
}

// with is a copy of a map with changes.
func with(m, changes map[string]string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, changes)
	return out
}

// Tags are those of a load balancer, a target group or a listener.
func (r *Region) Tags(arn string) (map[string]string, error) {
	r.lock()
	defer r.mu.Unlock()
	if b := r.balancers.Get(arn); b != nil {
		return b.Tags, nil
	}
	if g := r.groups.Get(arn); g != nil {
		return g.Tags, nil
	}
	if l := r.listeners.Get(arn); l != nil {
		return l.Tags, nil
	}
	switch {
	case strings.Contains(arn, ":targetgroup/"):
		return nil, notFound("TargetGroupNotFound", "Target groups", []string{arn})
	case strings.Contains(arn, ":listener/"):
		return nil, notFound("ListenerNotFound", "Listeners", []string{arn})
	}
	return nil, notFound("LoadBalancerNotFound", "Load balancers", []string{arn})
}

// SetTags adds tags to an object, and removes those of some keys. The object must exist.
func (r *Region) SetTags(arn string, add map[string]string, remove []string) error {
	tags, err := r.Tags(arn)
	if err != nil {
		return err
	}
	if err := checkTags(add, tags); err != nil {
		return err
	}
	tags = with(tags, add)
	maps.DeleteFunc(tags, func(k, _ string) bool { return slices.Contains(remove, k) })
	r.lock()
	defer r.mu.Unlock()
	if b := r.balancers.Get(arn); b != nil {
		next := *b
		next.Tags = tags
		r.balancers.Put(&next)
	}
	if g := r.groups.Get(arn); g != nil {
		next := *g
		next.Tags = tags
		r.groups.Put(&next)
	}
	if l := r.listeners.Get(arn); l != nil {
		next := *l
		next.Tags = tags
		r.listeners.Put(&next)
	}
	return nil
}

// notFound is an error about objects that don't exist. The messages are as reported of target groups and listeners.
func notFound(code, kind string, which []string) error {
	return query.Errorf(code, "%s '%s' not found", kind, strings.Join(which, "', '"))
}

// notListed is notFound of operations that list.
func notListed(code, kind string) func([]string) error {
	return func([]string) error { return query.Errorf(code, "One or more %s not found", kind) }
}

// pick returns what has one of the keys, which all must be there; all without keys.
func pick[T store.Object](t *store.Table[T], keys []string, key func(T) string, missing func([]string) error) ([]T, error) {
	if len(keys) == 0 {
		return t.All(), nil
	}
	found := t.Where(func(v T) bool { return slices.Contains(keys, key(v)) })
	var left []string
	for _, k := range keys {
		if !slices.ContainsFunc(found, func(v T) bool { return key(v) == k }) {
			left = append(left, k)
		}
	}
	if len(left) > 0 {
		return nil, missing(left)
	}
	return found, nil
}
