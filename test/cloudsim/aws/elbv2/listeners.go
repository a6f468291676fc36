package elbv2

import (
	"maps"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// Listener is a listener with one action: to forward to a target group.
type Listener struct {
	store.Record
	ARN, LoadBalancerARN string
	// Protocol is "TCP", "UDP", "TCP_UDP" or "TLS", or what the other types of load balancers take.
	Protocol       string
	Port           int
	TargetGroupARN string
	// CertificateARN and SSLPolicy are for TLS, ALPN as well.
	CertificateARN, SSLPolicy, ALPN string
	Tags                            map[string]string
}

// Key is the ARN.
func (l *Listener) Key() string { return l.ARN }

// usualPolicy is the security policy of TLS listeners that name none.
const usualPolicy = "ELBSecurityPolicy-2016-08" // unverified: since 2025 it is said to be a newer one

// forwards are the protocols of target groups that listeners of a protocol may forward to.
var forwards = map[string][]string{
	"TCP": {"TCP", "TCP_UDP"}, "UDP": {"UDP", "TCP_UDP"}, "TCP_UDP": {"TCP_UDP"}, "TLS": {"TLS", "TCP"},
	"HTTP": {"HTTP", "HTTPS"}, "HTTPS": {"HTTP", "HTTPS"},
}

// check says whether a listener can be. Locked.
func (r *Region) check(l *Listener) error {
	secure := l.Protocol == "TLS" || l.Protocol == "HTTPS"
	switch {
	case forwards[l.Protocol] == nil:
		return query.Errorf("UnsupportedProtocol", "The protocol '%s' is not supported", l.Protocol)
	case l.Port < 1 || l.Port > 65535:
		return query.Errorf("ValidationError", "Listener port '%d' must be between 1 and 65535", l.Port)
	case secure && l.CertificateARN == "":
		return query.Errorf("ValidationError", "A certificate must be specified for %s listeners", l.Protocol)
	case !secure && (l.CertificateARN != "" || l.SSLPolicy != ""): // unverified message
		return query.Errorf("ValidationError", "A certificate or a security policy cannot be specified for %s listeners", l.Protocol)
	}
	if secure && l.SSLPolicy == "" {
		l.SSLPolicy = usualPolicy
	}
	g := r.groups.Get(l.TargetGroupARN)
	if g == nil {
		return notFound("TargetGroupNotFound", "Target groups", []string{l.TargetGroupARN})
	}
	b := r.balancers.Get(l.LoadBalancerARN)
	if !slices.Contains(forwards[l.Protocol], g.Protocol) || b.VPCID != g.VPCID { // unverified code and message
		return query.Errorf("InvalidConfigurationRequest",
			"The target group '%s' cannot be used with a %s listener of load balancer '%s'",
			g.ARN, l.Protocol, b.ARN)
	}
	if err := r.checkFamilies(b, l.Protocol, g); err != nil {
		return err
	}
	if other := r.loadBalancerOf(g.ARN); other != "" && other != b.ARN {
		return query.Errorf("TargetGroupAssociationLimit",
			"The following target groups cannot be associated with more than one load balancer: %s", g.ARN)
	}
	return r.room(b.ARN, g)
}

// onPort is the listener on a port of a load balancer, nil for none. Locked.
func (r *Region) onPort(balancer string, port int) *Listener {
	for _, l := range r.listeners.All() {
		if l.LoadBalancerARN == balancer && l.Port == port {
			return l
		}
	}
	return nil
}

// CreateListener makes a listener of what of its fields a request has. One that is there with the same settings is returned.
func (r *Region) CreateListener(in Listener) (*Listener, error) {
	r.lock()
	defer r.mu.Unlock()
	b := r.balancers.Get(in.LoadBalancerARN)
	if b == nil {
		return nil, notFound("LoadBalancerNotFound", "Load balancers", []string{in.LoadBalancerARN})
	}
	if err := r.check(&in); err != nil {
		return nil, err
	}
	if err := checkTags(in.Tags, nil); err != nil {
		return nil, err
	}
	if o := r.onPort(b.ARN, in.Port); o != nil {
		same := in
		same.Record, same.ARN, same.Tags = o.Record, o.ARN, nil
		there := *o
		there.Tags = nil
		if !equal(same, there) || !maps.Equal(in.Tags, o.Tags) {
			return nil, query.Errorf("DuplicateListener", "A listener already exists on this port for this load balancer '%s'", b.ARN)
		}
		return o, nil
	}
	if len(r.listeners.Where(func(l *Listener) bool { return l.LoadBalancerARN == b.ARN })) >= r.opts.Listeners {
		return nil, query.Errorf("TooManyListeners", "The maximum number of listeners has been reached for load balancer '%s'", b.ARN)
	}
	in.Record, in.ARN = r.clock.Record(), r.arn("listener"+b.ARN[len(r.arn("loadbalancer")):]+"/"+r.number())
	r.listeners.Put(&in)
	return &in, nil
}

// equal compares all but tags.
func equal(a, b Listener) bool {
	return a.Protocol == b.Protocol && a.Port == b.Port && a.TargetGroupARN == b.TargetGroupARN &&
		a.CertificateARN == b.CertificateARN && a.SSLPolicy == b.SSLPolicy && a.ALPN == b.ALPN
}

// Listeners are those with these ARNs, or of a load balancer, or, for tests, all.
func (r *Region) Listeners(arns []string, balancer string) ([]*Listener, error) {
	r.lock()
	defer r.mu.Unlock()
	switch {
	case balancer == "":
		return pick(&r.listeners, arns, (*Listener).Key, notListed("ListenerNotFound", "listeners"))
	case r.balancers.Get(balancer) == nil:
		return nil, notFound("LoadBalancerNotFound", "Load balancers", []string{balancer})
	}
	return r.listeners.Where(func(l *Listener) bool { return l.LoadBalancerARN == balancer }), nil
}

// ModifyListener changes a listener; what is not set stays.
func (r *Region) ModifyListener(arn string, set Listener) (*Listener, error) {
	r.lock()
	defer r.mu.Unlock()
	l := r.listeners.Get(arn)
	if l == nil {
		return nil, notFound("ListenerNotFound", "Listeners", []string{arn})
	}
	next := *l
	next.Protocol, next.TargetGroupARN = or(set.Protocol, l.Protocol), or(set.TargetGroupARN, l.TargetGroupARN)
	next.CertificateARN, next.SSLPolicy, next.ALPN = or(set.CertificateARN, l.CertificateARN), or(set.SSLPolicy,
		l.SSLPolicy), or(set.ALPN, l.ALPN)
	if set.Port != 0 {
		next.Port = set.Port
	}
	if next.Protocol != "TLS" && next.Protocol != "HTTPS" && set.CertificateARN == "" && set.SSLPolicy == "" {
		next.CertificateARN, next.SSLPolicy, next.ALPN = "", "", "" // documented: they are removed with the protocol
	}
	if err := r.check(&next); err != nil {
		return nil, err
	}
	if o := r.onPort(l.LoadBalancerARN, next.Port); o != nil && o.ARN != arn {
		return nil, query.Errorf("DuplicateListener", "A listener already exists on this port for this load balancer '%s'",
			l.LoadBalancerARN)
	}
	if l.TargetGroupARN != next.TargetGroupARN {
		r.hold(l.TargetGroupARN)
	}
	r.listeners.Put(&next)
	return &next, nil
}

// DeleteListener deletes a listener.
func (r *Region) DeleteListener(arn string) error {
	r.lock()
	defer r.mu.Unlock()
	l := r.listeners.Get(arn)
	if l == nil {
		return notFound("ListenerNotFound", "Listeners", []string{arn})
	}
	r.drop(l)
	return nil
}

// drop deletes a listener. Locked.
func (r *Region) drop(l *Listener) {
	r.listeners.Remove(l.ARN)
	r.hold(l.TargetGroupARN)
}

// hold keeps a target group in use for a while after a listener has let it go. Locked.
func (r *Region) hold(group string) {
	if r.opts.Release <= 0 {
		return
	}
	r.holds[group]++
	r.clock.After(r.opts.Release, func() {
		if r.holds[group]--; r.holds[group] == 0 {
			delete(r.holds, group)
		}
	})
}

// held reports whether a target group is in use. Locked.
func (r *Region) held(group string) bool { return r.holds[group] > 0 || r.loadBalancerOf(group) != "" }
