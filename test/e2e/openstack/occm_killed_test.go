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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OCCM dies in the middle of its work, the moment that a call has reached the cloud, whose answer
// it never sees. Ours goes on from there: each Service gets what it wants, those that had an
// address keep it, and the Services' deletion leaves nothing. For a load balancer of which OCCM has
// told nobody its name is all that speaks, and another cluster of the same name makes the same:
// ours tells the operator, whose word it then takes.
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
			s.eventually("the cloud has answered all calls", func(context.Context) error {
				if n := s.proxy.pending(); n > 0 {
					return fmt.Errorf("%d are under way", n)
				}
				return nil
			})
			s.settled()
			before, going := s.addresses()
			s.forgetEvents()
			m := s.startOurs()
			if !going {
				s.confirm()
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
			s.deleted(empty)
			m.stop()
		})
	}
}

// confirm says of the load balancers that no Service shows, by ID or by address, that they are their
// Services', as ours asks for in an event.
func (s *swap) confirm() {
	s.t.Helper()
	shown := strings.Join(slices.Collect(maps.Values(s.published())), " ")
	for _, lb := range s.state().lbs {
		namespace, is := strings.CutPrefix(strings.TrimSuffix(lb.Name, "_a"), "kube_service_"+clusterName+"_")
		if !is || !strings.HasPrefix(namespace, "cut-") || strings.Contains(shown, lb.ID) || strings.Contains(shown, lb.VipAddress) {
			continue
		}
		s.eventually("ours asks whose load balancer "+lb.Name+" is", func(ctx context.Context) error {
			events, err := s.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, "load-balancer-id: "+lb.ID) }) {
				return fmt.Errorf("no event of %d tells of it", len(events.Items))
			}
			return nil
		})
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotationPrefix+"load-balancer-id", lb.ID)
		if _, err := s.client.CoreV1().Services(namespace).Patch(s.t.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			s.t.Fatal(err)
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
			if lb.Name != name {
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
