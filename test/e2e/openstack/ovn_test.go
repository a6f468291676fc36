//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Service's life on provider ovn, as OVN's own northbound database shows it.
func TestServiceOnOVN(t *testing.T) {
	c := newCluster(t)
	nodes := c.nodes(3)
	c.startManager("[LoadBalancer]\nlb-provider = ovn")
	c.initialized(nodes)
	s := c.service("north", nil, tcp(80), udp(53))
	address := c.address("north")
	lb := c.lb("north")
	if lb.Provider != "ovn" {
		t.Errorf("the provider is %s", lb.Provider)
	}
	vips := func(servers []server, ports ...string) map[string]string {
		want := map[string]string{}
		for i, port := range ports { // "tcp 80" of the Service's port i
			protocol, number, _ := strings.Cut(port, " ")
			var backends []string
			for _, s2 := range servers {
				backends = append(backends, fmt.Sprintf("%s:%d", s2.address, s.Spec.Ports[i].NodePort))
			}
			slices.Sort(backends)
			for _, vip := range []string{lb.VipAddress, address} { // the floating IP, too: OVN translates it itself
				want[protocol+" "+vip+":"+number] = strings.Join(backends, ",")
			}
		}
		return want
	}
	inOVN := func(what string, want map[string]string) {
		t.Helper()
		c.eventually(what, func(ctx context.Context) error {
			got, err := ovnVIPs(ctx, lb.ID)
			if err != nil {
				return err
			}
			for vip, backends := range got {
				list := strings.Split(backends, ",")
				slices.Sort(list)
				got[vip] = strings.Join(list, ",")
			}
			if !maps.Equal(got, want) {
				return fmt.Errorf("OVN has %v, want %v", got, want)
			}
			return nil
		})
	}
	inOVN("OVN serves the VIP", vips(nodes, "tcp 80", "udp 53"))

	s = c.update("north", func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 })
	inOVN("OVN serves the changed port", vips(nodes, "tcp 8080", "udp 53"))

	if err := c.client.CoreV1().Nodes().Delete(t.Context(), nodes[0].name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	inOVN("OVN forgets the backend that is gone", vips(nodes[1:], "tcp 8080", "udp 53"))

	c.remove("north")
	inOVN("OVN forgets the load balancer", map[string]string{})
	c.nothingLeft()
}
