package elb

import (
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

var protocols = []string{"TCP", "SSL", "HTTP", "HTTPS"}

// complete checks a listener, and takes what AWS takes for what a request leaves out.
func (l *Listener) complete() error {
	l.Protocol, l.InstanceProtocol = strings.ToUpper(l.Protocol), strings.ToUpper(l.InstanceProtocol)
	if l.InstanceProtocol == "" {
		l.InstanceProtocol = map[string]string{"TCP": "TCP", "SSL": "TCP", "HTTP": "HTTP", "HTTPS": "HTTP"}[l.Protocol] // unverified
	}
	secure := l.Protocol == "SSL" || l.Protocol == "HTTPS"
	switch {
	case !slices.Contains(protocols, l.Protocol) || !slices.Contains(protocols, l.InstanceProtocol): // unverified message
		return query.Errorf("UnsupportedProtocol", "The protocol '%s' is not supported", l.Protocol)
	case strings.HasPrefix(l.Protocol, "HTTP") != strings.HasPrefix(l.InstanceProtocol, "HTTP"): // unverified message
		return query.Errorf("InvalidConfigurationRequest", "Protocols %s and %s are not of the same layer", l.Protocol,
			l.InstanceProtocol)
	case l.Port < 1 || l.Port > 65535 || l.InstancePort < 1 || l.InstancePort > 65535: // unverified message
		return query.Errorf("ValidationError", "Ports must be between 1 and 65535")
	case secure && l.CertificateARN == "": // unverified code and message
		return query.Errorf("InvalidConfigurationRequest", "A certificate must be specified for %s listeners", l.Protocol)
	}
	return nil
}

// AddListeners adds listeners to a load balancer, all or none. One that is there must be the same.
func (r *Region) AddListeners(name string, add []Listener) error {
	_, err := r.Change(name, func(b *LoadBalancer) error {
		for _, l := range add {
			if err := l.complete(); err != nil {
				return err
			}
			i := b.listener(l.Port)
			if i < 0 {
				b.Listeners = append(b.Listeners, l)
				continue
			}
			o := b.Listeners[i]
			if o.InstancePort != l.InstancePort || o.Protocol != l.Protocol || o.InstanceProtocol != l.InstanceProtocol ||
				o.CertificateARN != l.CertificateARN {
				return query.Errorf("DuplicateListener",
					"A listener already exists for %s with LoadBalancerPort %d, but with a different InstancePort, Protocol, or SSLCertificateId",
					name, l.Port)
			}
		}
		if len(b.Listeners) > r.opts.Listeners { // unverified code and message
			return query.Errorf("InvalidConfigurationRequest", "The maximum number of listeners has been reached")
		}
		return nil
	})
	return err
}

// RemoveListeners removes the listeners on ports. One that is not there is fine.
func (r *Region) RemoveListeners(name string, ports []int) error {
	_, err := r.Change(name, func(b *LoadBalancer) error {
		b.Listeners = slices.DeleteFunc(b.Listeners, func(l Listener) bool { return slices.Contains(ports, l.Port) })
		return nil
	})
	return err
}

// EditListener changes the listener on a port.
func (r *Region) EditListener(name string, port int, edit func(*LoadBalancer, *Listener) error) error {
	_, err := r.Change(name, func(b *LoadBalancer) error {
		i := b.listener(port)
		if i < 0 { // unverified message
			return query.Errorf("ListenerNotFound", "There is no listener for load balancer '%s' on port %d", name, port)
		}
		return edit(b, &b.Listeners[i])
	})
	return err
}

// AddPolicy adds a policy. Of its type all is taken: what AWS knows of types is not simulated.
func (r *Region) AddPolicy(name string, p Policy) error {
	_, err := r.Change(name, func(b *LoadBalancer) error {
		if slices.ContainsFunc(b.Policies, func(o Policy) bool { return o.Name == p.Name }) { // unverified message
			return query.Errorf("DuplicatePolicyName", "A policy with name %s already exists for load balancer %s", p.Name, name)
		}
		b.Policies = append(b.Policies, p)
		return nil
	})
	return err
}

// HasPolicies fails unless a load balancer has the policies of these names.
func (b *LoadBalancer) HasPolicies(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(b.Policies, func(p Policy) bool { return p.Name == name }) { // unverified message
			return query.Errorf("PolicyNotFound", "There is no policy with name %s for load balancer %s", name, b.Name)
		}
	}
	return nil
}

// RemovePolicy removes a policy that no listener and no port of instances has. One that is not there is fine.
func (r *Region) RemovePolicy(name, policy string) error {
	_, err := r.Change(name, func(b *LoadBalancer) error {
		used := slices.ContainsFunc(b.Listeners, func(l Listener) bool { return slices.Contains(l.Policies, policy) })
		for _, names := range b.Backends {
			used = used || slices.Contains(names, policy)
		}
		if used { // unverified message
			return query.Errorf("InvalidConfigurationRequest", "The policy %s is in use", policy)
		}
		b.Policies = slices.DeleteFunc(b.Policies, func(p Policy) bool { return p.Name == policy })
		return nil
	})
	return err
}

// SetBackend sets the policies for a port of instances, which a listener must have.
func (r *Region) SetBackend(name string, port int, policies []string) error {
	_, err := r.Change(name, func(b *LoadBalancer) error {
		if err := b.HasPolicies(policies); err != nil {
			return err
		}
		if !slices.ContainsFunc(b.Listeners, func(l Listener) bool { return l.InstancePort == port }) { // unverified message
			return query.Errorf("InvalidConfigurationRequest", "There is no listener with the instance port %d", port)
		}
		b.Backends[port] = slices.Clone(policies)
		if len(policies) == 0 {
			delete(b.Backends, port)
		}
		return nil
	})
	return err
}

// Register adds instances to a load balancer, all or none. It returns the load balancer.
func (r *Region) Register(name string, ids []string) (*LoadBalancer, error) {
	return r.Change(name, func(b *LoadBalancer) error {
		for _, id := range ids {
			found, err := r.ec2.Instances([]string{id})
			if err != nil || found[0].VPCID != b.VPCID { // unverified: what is said of an instance of another VPC, or one that does not run
				return query.Errorf("InvalidInstance", "Could not find EC2 instance %s.", id)
			}
			if !slices.Contains(b.Instances, id) {
				b.Instances = append(b.Instances, id)
			}
		}
		return nil
	})
}

// Deregister removes instances from a load balancer. It returns the load balancer.
func (r *Region) Deregister(name string, ids []string) (*LoadBalancer, error) {
	return r.Change(name, func(b *LoadBalancer) error {
		for _, id := range ids {
			if !slices.Contains(b.Instances, id) {
				return query.Errorf("InvalidInstance", "Could not find EC2 instance %s.",
					id) // unverified: whether EC2's own ones are refused
			}
		}
		b.Instances = slices.DeleteFunc(b.Instances, func(id string) bool { return slices.Contains(ids, id) })
		maps.DeleteFunc(b.health, func(id string, _ Health) bool { return slices.Contains(ids, id) })
		return nil
	})
}

// SetGroups replaces the security groups of a load balancer. It returns the load balancer.
func (r *Region) SetGroups(name string, ids []string) (*LoadBalancer, error) {
	return r.Change(name, func(b *LoadBalancer) error {
		b.SecurityGroups = slices.Clone(ids)
		if err := r.CheckGroups(b); err != nil {
			return err
		}
		for _, s := range b.Subnets {
			if err := r.ec2.ModifyInterface(s.interfaceID, nil, b.SecurityGroups); err != nil {
				return err
			}
		}
		return nil
	})
}

// Attach adds subnets to a load balancer. It returns the load balancer.
func (r *Region) Attach(name string, ids []string) (*LoadBalancer, error) {
	return r.Change(name, func(b *LoadBalancer) error {
		for _, id := range ids {
			if !slices.ContainsFunc(b.Subnets, func(s Subnet) bool { return s.ID == id }) {
				b.Subnets = append(b.Subnets, Subnet{ID: id})
			}
		}
		if err := r.locate(b); err != nil {
			return err
		}
		for i := range b.Subnets {
			if b.Subnets[i].interfaceID == "" {
				r.attach(b, &b.Subnets[i])
			}
		}
		return nil
	})
}

// Detach removes subnets from a load balancer, which must keep one. It returns the load balancer.
func (r *Region) Detach(name string, ids []string) (*LoadBalancer, error) {
	return r.Change(name, func(b *LoadBalancer) error {
		gone := func(s Subnet) bool { return slices.Contains(ids, s.ID) }
		left := slices.DeleteFunc(slices.Clone(b.Subnets), gone)
		if len(left) == 0 { // unverified message
			return query.Errorf("InvalidConfigurationRequest", "A load balancer must have a subnet")
		}
		for _, s := range b.Subnets {
			if gone(s) {
				r.ec2.RemoveInterfaceAfter(r.opts.Release, s.interfaceID)
			}
		}
		b.Subnets = left
		return nil
	})
}
