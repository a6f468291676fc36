//go:build e2e && occm

package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OCCM dies in the middle of its work, the moment that a call has reached the cloud, whose answer
// it never sees. Ours goes on from there: each Service gets what it wants, those that had an
// address keep it, and the Services' deletion leaves nothing. But a load balancer of which OCCM has
// told nobody stays as it is: its name is all that speaks for it, and another cluster of the same
// name makes the same.
func TestOCCMKilled(t *testing.T) {
	list := []kind{
		{name: "cut-plain", ports: on(tcp(80), udp(53))},
		{name: "cut-internal", annotations: map[string]string{annotationInternal: "true"}},
		{name: "cut-own-fip", patch: `{"spec":{"loadBalancerIP":"{own-fip}"}}`},
		{name: "cut-monitor", annotations: anno("enable-health-monitor", "true"), patch: local},
	}
	for _, cut := range []struct {
		name  string
		nth   int
		call  string
		doing func(*swap)
	}{
		{"the second load balancer is made", 2, `^POST .*/lbaas/loadbalancers$`, (*swap).create},
		{"the first floating IP is made", 1, `^POST .*/floatingips$`, (*swap).create},
		{"the third pool's members are changed", 3, `^PUT .*/members$`, func(s *swap) { s.made(); s.drop(2) }},
		{"the second load balancer is deleted", 2, `^DELETE .*/lbaas/loadbalancers/`, func(s *swap) { s.made(); s.delete() }},
		{"the second floating IP is deleted", 2, `^DELETE .*/floatingips/`, func(s *swap) { s.made(); s.delete() }},
	} {
		t.Run(cut.name, func(t *testing.T) {
			s := newSwap(t, kinds{list: list})
			empty := s.settled()
			s.manager = s.startOCCM()
			s.initialized(s.servers)
			dead := make(chan struct{})
			s.proxy.at(cut.nth, regexp.MustCompile(cut.call), func() {
				s.manager.kill()
				close(dead)
			})
			cut.doing(s)
			s.eventually("the call reaches the cloud", func(context.Context) error {
				select {
				case <-dead:
					return nil
				default:
					return fmt.Errorf("not yet; %d calls so far", s.proxy.mark())
				}
			})
			s.settled()
			before, going := s.addresses()
			s.findOrphans()
			s.forgetEvents()
			m := s.startOurs()
			if !going {
				s.ensured(m, list)
				s.membersAre(s.gone)
				s.oneEach()
				after, _ := s.addresses()
				for name, address := range before {
					if address != "" && after[name] != address {
						t.Errorf("the address of %s was %s and is %s", name, address, after[name])
					}
				}
				s.delete()
			}
			s.removeOrphans()
			s.deleted(empty)
			m.stop()
		})
	}
}

// findOrphans notes the load balancers of the kinds that no Service shows, by ID or by address.
func (s *swap) findOrphans() {
	s.t.Helper()
	o, shown := s.state(), strings.Join(slices.Collect(maps.Values(s.published())), " ")
	s.orphans = map[string]bool{}
	for _, lb := range o.lbs {
		if strings.HasPrefix(lb.Name, "kube_service_"+clusterName+"_cut-") && !strings.Contains(shown, lb.ID) && !strings.Contains(shown, lb.VipAddress) {
			s.orphans[lb.ID] = true
		}
	}
	if len(s.orphans) > workers {
		s.t.Errorf("%d load balancers are shown by nobody, want %d at the most, one for each worker", len(s.orphans), workers)
	}
	s.t.Logf("%d load balancers are shown by no Service", len(s.orphans))
}

// removeOrphans removes them; they must be there and without our mark.
func (s *swap) removeOrphans() {
	s.t.Helper()
	for id := range s.orphans {
		lb, err := loadbalancers.Get(s.t.Context(), s.cloud.member.loadBalancer, id).Extract()
		if err != nil {
			s.t.Errorf("a load balancer that is not provably ours: %v", err)
			continue
		}
		if slices.ContainsFunc(lb.Tags, isOwnerTag) {
			s.t.Errorf("load balancer %s has our mark, and nothing shows that it is ours: %v", lb.Name, lb.Tags)
		}
		if err := s.cloud.deleteLB(s.t.Context(), id); err != nil {
			s.t.Error(err)
		}
	}
}

// made makes the Services and waits until they are there.
func (s *swap) made() {
	s.t.Helper()
	s.make(s.manager)
}

// drop deletes a Node and does not wait for anything.
func (s *swap) drop(node int) {
	s.t.Helper()
	s.gone = node
	if err := s.client.CoreV1().Nodes().Delete(s.t.Context(), s.servers[node].name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// addresses are what the Services have published; going is true when they are being deleted.
func (s *swap) addresses() (addresses map[string]string, going bool) {
	s.t.Helper()
	addresses = map[string]string{}
	all, err := s.client.CoreV1().Services("").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, service := range all.Items {
		if !slices.ContainsFunc(s.kinds.list, func(k kind) bool { return k.name == service.Namespace }) {
			continue
		}
		going = going || service.DeletionTimestamp != nil
		for _, in := range service.Status.LoadBalancer.Ingress {
			addresses[service.Namespace] = in.IP
		}
	}
	return addresses, going
}

// oneEach asserts that each Service has exactly one load balancer, and each at most one floating IP.
func (s *swap) oneEach() {
	s.t.Helper()
	o := s.state()
	for _, k := range s.kinds.list {
		name := "kube_service_" + clusterName + "_" + k.name + "_a"
		var ids []string
		fips := 0
		for _, lb := range o.lbs {
			if lb.Name != name || s.orphans[lb.ID] {
				continue
			}
			ids = append(ids, lb.ID)
			for _, f := range o.fips {
				if f.PortID == lb.VipPortID || strings.HasSuffix(f.Description, " "+k.name+"/a from cluster "+clusterName) && f.PortID == "" {
					fips++
				}
			}
		}
		if want := 1 - strings.Count(k.name, "internal"); len(ids) != 1 || fips != want {
			s.t.Errorf("%s has the load balancers %v and %d floating IPs, want one and %d", k.name, ids, fips, want)
		}
	}
}
