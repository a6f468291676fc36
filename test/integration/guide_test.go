package integration

import (
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// The Services and the cloud.conf that the guide on load balancers shows work.
func TestGuideLoadBalancers(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := func(language string) (out []string) {
		for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(guide, -1) {
			out = append(out, string(m[1]))
		}
		return out
	}
	c, sim := newCluster(t), ossim.ForTest(t)
	c.register(sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-"}), always(nodeState{ready: true, initialized: true}))
	conf := sim.CloudConf()
	for _, section := range blocks("ini") {
		conf += "\n" + strings.ReplaceAll(section, "11111111-2222-3333-4444-555555555555", sim.Defaults().ExternalNetworkID)
	}
	if conf == sim.CloudConf() {
		t.Error("the guide shows no part of cloud.conf")
	}
	c.startCCMWith(conf, "--leader-elect=false", "--controllers=service")
	services := blocks("yaml")
	if len(services) < 3 {
		t.Fatalf("the guide shows %d Services: this test would check nothing", len(services))
	}
	for _, text := range services {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		s, ok := obj.(*corev1.Service)
		if !ok {
			t.Fatalf("the guide shows a %T", obj)
		}
		c.createService(s)
		c.address(s.Name)
	}
}
