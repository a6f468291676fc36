//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// octavia is all that the project has in Octavia, and its floating IPs.
type octavia struct {
	lbs       []loadbalancers.LoadBalancer
	listeners []listeners.Listener
	pools     []pools.Pool
	members   map[string][]pools.Member // by pool
	monitors  []monitors.Monitor
	fips      []floatingips.FloatingIP
}

// octavia reads it. When a pool goes while it is being read, it is read again: what is
// returned was there at one time.
func (c *realCloud) octavia(ctx context.Context) (octavia, error) {
	for {
		o, err := c.readOctavia(ctx)
		if !gophercloud.ResponseCodeIs(err, 404) {
			return o, err
		}
	}
}

func (c *realCloud) readOctavia(ctx context.Context) (octavia, error) {
	var o octavia
	lb := c.member.loadBalancer
	page, err := loadbalancers.List(lb, nil).AllPages(ctx)
	if err == nil {
		o.lbs, err = loadbalancers.ExtractLoadBalancers(page)
	}
	if err != nil {
		return o, err
	}
	if page, err = listeners.List(lb, nil).AllPages(ctx); err == nil {
		o.listeners, err = listeners.ExtractListeners(page)
	}
	if err != nil {
		return o, err
	}
	if page, err = pools.List(lb, nil).AllPages(ctx); err == nil {
		o.pools, err = pools.ExtractPools(page)
	}
	if err != nil {
		return o, err
	}
	o.members = map[string][]pools.Member{}
	for _, p := range o.pools {
		if page, err = pools.ListMembers(lb, p.ID, nil).AllPages(ctx); err == nil {
			o.members[p.ID], err = pools.ExtractMembers(page)
		}
		if err != nil {
			return o, err
		}
	}
	if page, err = monitors.List(lb, nil).AllPages(ctx); err == nil {
		o.monitors, err = monitors.ExtractMonitors(page)
	}
	if err != nil {
		return o, err
	}
	if page, err = floatingips.List(c.member.network, floatingips.ListOpts{ProjectID: c.member.projectID}).AllPages(ctx); err == nil {
		o.fips, err = floatingips.ExtractFloatingIPs(page)
	}
	return o, err
}

// explain shows what the project has when a test has failed.
func (c *cluster) explain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o, err := c.cloud.octavia(ctx)
	if err != nil {
		c.t.Log(err)
	}
	text := func(v any) string {
		data, _ := json.Marshal(v)
		return string(data)
	}
	c.t.Logf("in the cloud:\nload balancers %s\nlisteners %s\npools %s\nmembers %s\nmonitors %s\nfloating IPs %s",
		text(o.lbs), text(o.listeners), text(o.pools), text(o.members), text(o.monitors), text(o.fips))
	calls := c.proxy.since(0)
	c.t.Logf("the last calls to the cloud:\n%s", list(calls[max(0, len(calls)-30):]))
	events, err := c.client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		c.t.Log(err)
		return
	}
	for _, e := range events.Items {
		c.t.Logf("event of %s %s: %s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Type, e.Reason, e.Message)
	}
}

// sweep removes what a failed test has left in Octavia and of floating IPs.
func (c *cluster) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o, err := c.cloud.octavia(ctx)
	if err != nil {
		c.t.Errorf("clean the cloud up: %v", err)
		return
	}
	for _, f := range o.fips {
		if err := floatingips.Delete(ctx, c.cloud.member.network, f.ID).ExtractErr(); err != nil && !gophercloud.ResponseCodeIs(err, 404) {
			c.t.Errorf("delete floating IP: %v", err)
		}
	}
	for _, lb := range o.lbs {
		if err := c.cloud.deleteLB(ctx, lb.ID); err != nil {
			c.t.Errorf("delete load balancer %s: %v", lb.Name, err)
		}
	}
}

// deleteLB deletes a load balancer with all it has and waits until it is gone.
func (c *realCloud) deleteLB(ctx context.Context, id string) error {
	lb := c.member.loadBalancer
	return poll(ctx, patience, func(ctx context.Context) error {
		err := loadbalancers.Delete(ctx, lb, id, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr()
		if err == nil || gophercloud.ResponseCodeIs(err, 409) { // being changed, or deleted already
			got, getErr := loadbalancers.Get(ctx, lb, id).Extract()
			err = getErr
			if err == nil {
				err = fmt.Errorf("it is %s", got.ProvisioningStatus)
			}
		}
		if gophercloud.ResponseCodeIs(err, 404) {
			return nil
		}
		return err
	})
}

// active waits until a load balancer is ACTIVE.
func (c *realCloud) active(ctx context.Context, id string) error {
	return poll(ctx, patience, func(ctx context.Context) error {
		lb, err := loadbalancers.Get(ctx, c.member.loadBalancer, id).Extract()
		if err == nil && lb.ProvisioningStatus != "ACTIVE" {
			err = fmt.Errorf("load balancer %s is %s", lb.Name, lb.ProvisioningStatus)
		}
		return err
	})
}

// ovnVIPs returns the VIPs with their backends of a load balancer in OVN's northbound database.
func ovnVIPs(ctx context.Context, lbID string) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, "ovn-nbctl", "--db="+ovnNorthbound, "--format=json", "--columns=name,protocol,vips",
		"find", "Load_Balancer").Output()
	if err != nil {
		return nil, fmt.Errorf("ovn-nbctl: %w", err)
	}
	var table struct{ Data [][]json.RawMessage }
	if err := json.Unmarshal(out, &table); err != nil {
		return nil, fmt.Errorf("ovn-nbctl: %w: %s", err, out)
	}
	vips := map[string]string{}
	for _, row := range table.Data {
		var name, protocol string
		var entries []json.RawMessage
		if err := json.Unmarshal(row[0], &name); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(name, lbID) {
			continue
		}
		_ = json.Unmarshal(row[1], &protocol) // an empty set when it is not set
		if err := json.Unmarshal(row[2], &entries); err != nil || len(entries) != 2 {
			return nil, fmt.Errorf("vips of %s: %s", name, row[2])
		}
		var pairs [][2]string
		if err := json.Unmarshal(entries[1], &pairs); err != nil {
			return nil, fmt.Errorf("vips of %s: %s", name, row[2])
		}
		for _, p := range pairs {
			vips[protocol+" "+p[0]] = p[1]
		}
	}
	return vips, nil
}

// lbName is how the load balancer of a Service in the namespace default is named.
func lbName(service string) string { return "kube_service_" + clusterName + "_default_" + service }

// service makes a Service of type LoadBalancer; change may adapt it first.
func (c *cluster) service(name string, change func(*corev1.Service), ports ...corev1.ServicePort) *corev1.Service {
	c.t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports, Selector: map[string]string{"app": name}},
	}
	if change != nil {
		change(s)
	}
	out, err := c.client.CoreV1().Services("default").Create(c.t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func tcp(port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: fmt.Sprintf("tcp-%d", port), Port: port, Protocol: corev1.ProtocolTCP}
}

func udp(port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: fmt.Sprintf("udp-%d", port), Port: port, Protocol: corev1.ProtocolUDP}
}

func annotated(annotations map[string]string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations = annotations }
}

const (
	annotationPrefix   = "loadbalancer.openstack.org/"
	annotationInternal = "service.beta.kubernetes.io/openstack-internal-load-balancer"
)

// address waits for the Service's address.
func (c *cluster) address(name string) string {
	c.t.Helper()
	var address string
	c.eventually("Service "+name+" has an address", func(ctx context.Context) error {
		s, err := c.client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("it has none")
		}
		in := s.Status.LoadBalancer.Ingress[0]
		address = in.IP + in.Hostname
		return nil
	})
	return address
}

func (c *cluster) patch(name, patch string) {
	c.t.Helper()
	if _, err := c.client.CoreV1().Services("default").Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// update changes a Service.
func (c *cluster) update(name string, change func(*corev1.Service)) *corev1.Service {
	c.t.Helper()
	for {
		s, err := c.client.CoreV1().Services("default").Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		change(s)
		s, err = c.client.CoreV1().Services("default").Update(c.t.Context(), s, metav1.UpdateOptions{})
		if err == nil {
			return s
		}
		if !apierrors.IsConflict(err) {
			c.t.Fatal(err)
		}
	}
}

// remove deletes a Service and waits until it is gone, which is when its load balancer is.
func (c *cluster) remove(name string) {
	c.t.Helper()
	if err := c.client.CoreV1().Services("default").Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("Service "+name+" is deleted", func(ctx context.Context) error {
		_, err := c.client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it is still there")
		}
		return err
	})
}

// state reads the project's Octavia and fails the test when it cannot.
func (c *cluster) state() octavia {
	c.t.Helper()
	o, err := c.cloud.octavia(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return o
}

// lb returns the Service's load balancer.
func (c *cluster) lb(service string) loadbalancers.LoadBalancer {
	c.t.Helper()
	o := c.state()
	i := slices.IndexFunc(o.lbs, func(lb loadbalancers.LoadBalancer) bool { return lb.Name == lbName(service) })
	if i < 0 {
		c.t.Fatalf("there is no load balancer %s", lbName(service))
	}
	return o.lbs[i]
}

// shape is what a load balancer serves, for comparison: a line for each listener, with its
// pool, monitor and members, sorted.
func (o octavia) shape(lbID string) []string {
	var out []string
	for _, l := range o.listeners {
		if !slices.ContainsFunc(l.Loadbalancers, func(lb listeners.LoadBalancerID) bool { return lb.ID == lbID }) {
			continue
		}
		line := fmt.Sprintf("%s/%d", l.Protocol, l.ProtocolPort)
		if len(l.AllowedCIDRs) > 0 && !slices.Equal(l.AllowedCIDRs, []string{"0.0.0.0/0"}) {
			line += " from " + strings.Join(l.AllowedCIDRs, ",")
		}
		for _, p := range o.pools {
			if p.ID != l.DefaultPoolID {
				continue
			}
			line += " → " + p.Protocol
			if p.Persistence.Type != "" {
				line += " sticky " + p.Persistence.Type
			}
			for _, m := range o.monitors {
				if m.ID == p.MonitorID {
					line += fmt.Sprintf(" checked by %s%s", m.Type, m.URLPath)
				}
			}
			var members []string
			for _, m := range o.members[p.ID] {
				at := fmt.Sprintf("%s=%s:%d", m.Name, m.Address, m.ProtocolPort)
				if m.MonitorPort != 0 {
					at += fmt.Sprintf("(%d)", m.MonitorPort)
				}
				members = append(members, at)
			}
			slices.Sort(members)
			line += " " + strings.Join(members, " ")
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// membersAt is the part of a shape line that a port of a Service on these servers has.
func membersAt(servers []server, nodePort, checkPort int32) string {
	var out []string
	for _, s := range servers {
		at := fmt.Sprintf("%s=%s:%d", s.name, s.address, nodePort)
		if checkPort != 0 {
			at += fmt.Sprintf("(%d)", checkPort)
		}
		out = append(out, at)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// served waits until the load balancer has the wanted shape and is ACTIVE.
func (c *cluster) served(what, lbID string, want ...string) {
	c.t.Helper()
	slices.Sort(want)
	c.eventually(what, func(ctx context.Context) error {
		o, err := c.cloud.octavia(ctx)
		if err != nil {
			return err
		}
		got := o.shape(lbID)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the load balancer has\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		// Asked for after the shape: what has the shape already may still be changing.
		lb, err := loadbalancers.Get(ctx, c.cloud.member.loadBalancer, lbID).Extract()
		if err == nil && lb.ProvisioningStatus != "ACTIVE" {
			err = fmt.Errorf("it is %s", lb.ProvisioningStatus)
		}
		return err
	})
}

// nothingLeft asserts that Octavia and the floating IPs of the project are gone.
func (c *cluster) nothingLeft() {
	c.t.Helper()
	o := c.state()
	if n := len(o.lbs) + len(o.listeners) + len(o.pools) + len(o.monitors) + len(o.fips); n != 0 {
		c.t.Errorf("%d objects are left: %+v", n, o)
	}
}
