package lb

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func addressed(name, providerID string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	for _, a := range addresses {
		kind, address, _ := strings.Cut(a, "=")
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
	}
	return n
}

// Who is a member, and by which addresses, is the cloud's trait.
func TestReachDecidesAboutMembers(t *testing.T) {
	nodes := []*corev1.Node{
		addressed("both", "x:///1", "InternalIP=10.0.0.1", "ExternalIP=192.0.2.1", "ExternalIP=2001:db8::1"),
		addressed("outside", "x:///2", "ExternalIP=192.0.2.2"),
		addressed("nowhere", "x:///3"),
		addressed("new", "", "InternalIP=10.0.0.4"),
		addressed("virtual", "x:///5", "InternalIP=10.0.0.5"),
	}
	eligible := func(n *corev1.Node) bool { return n.Name != "virtual" }
	for reach, want := range map[cloud.Reach][]string{
		cloud.ByInternalIP: {"both [10.0.0.1]", "new [10.0.0.4]", "nodes without an InternalIP get no traffic: nowhere, outside"},
		cloud.ByAnyIP:      {"both [10.0.0.1 2001:db8::1]", "new [10.0.0.4]", "outside [192.0.2.2]", "nodes without an InternalIP or ExternalIP get no traffic: nowhere"},
		cloud.ByInstance:   {"both []", "nowhere []", "outside []", "nodes without a provider ID get no traffic: new"},
	} {
		traits := cloud.LoadBalancerTraits{Reach: reach, Eligible: eligible, NodePorts: true}
		spec, warnings, err := Plan(testService(nil), NewNodes(nodes, &traits), testCluster, &cloud.Provider{LoadBalancing: traits})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range spec.Members {
			got = append(got, fmt.Sprint(m.Node.NodeName, " ", m.Addresses))
		}
		if got = append(got, warnings...); !slices.Equal(got, want) {
			t.Errorf("reach %d: %q, want %q", reach, got, want)
		}
	}
	by := func(reach cloud.Reach, address string) string {
		n := addressed("n", "x:///1", "InternalIP="+address)
		return NewNodes([]*corev1.Node{n}, &cloud.LoadBalancerTraits{Reach: reach}).Select(labels.Everything()).Digest
	}
	if by(cloud.ByInstance, "10.0.0.1") != by(cloud.ByInstance, "10.0.0.2") || by(cloud.ByInternalIP, "10.0.0.1") == by(cloud.ByInternalIP, "10.0.0.2") {
		t.Error("another address is another membership only where members are reached by addresses")
	}
}

// Where traffic arrives at the Service's own port, nobody misses a node port.
func TestNodePortsAreMissedWhereTheyAreUsed(t *testing.T) {
	service := testService(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 })
	for used, want := range map[bool]int{true: 1, false: 0} {
		provider := &cloud.Provider{LoadBalancing: cloud.LoadBalancerTraits{NodePorts: used}}
		for what, plan := range map[string]func() ([]string, error){
			"Plan": func() ([]string, error) {
				_, warnings, err := Plan(service, nil, testCluster, provider)
				return warnings, err
			},
			"Review": func() ([]string, error) {
				problems, warnings := Review(service, "", provider)
				return warnings, problems.ToAggregate()
			},
		} {
			warnings, err := plan()
			n := 0
			for _, w := range warnings {
				if strings.Contains(w, "nodePort: load balancers send traffic to node ports") {
					n++
				}
			}
			if n != want || err != nil {
				t.Errorf("%s, node ports are used: %t: %q, %v", what, used, warnings, err)
			}
		}
	}
}

// Classes are whole values: ours, and those of an existing manager.
func TestClassesAreWholeValues(t *testing.T) {
	traits := &cloud.LoadBalancerTraits{
		Classes:   map[string]string{"service.k8s.aws/nlb": "nlb", "isthmus-cloud.github.io/aws": "", "isthmus-cloud.github.io/aws-gold": "gold"},
		Elsewhere: func(s *corev1.Service) string { return s.Annotations["type"] },
	}
	of := func(c Classes, class *string, kind string) string {
		s := testService(func(s *corev1.Service) { s.Spec.LoadBalancerClass, s.Annotations["type"] = class, kind })
		name, served := c.Of(s)
		return fmt.Sprint(name, " ", served, " ", class != nil && c.Misspelled(*class))
	}
	c := NewClasses(traits, true)
	for class, want := range map[string]string{
		"service.k8s.aws/nlb": "nlb true false", "service.k8s.aws/nlb-2": " false false", "isthmus-cloud.github.io/aws": " true false",
		"isthmus-cloud.github.io/aws-gold": "gold true false", "isthmus-cloud.github.io/aws-silver": " false true", "example.org/aws": " false false",
	} {
		if got := of(c, &class, "external"); got != want { // who names a class of ours means us
			t.Errorf("%s: %q, want %q", class, got, want)
		}
	}
	for kind, want := range map[string]string{"": " true false", "external": " false false"} {
		if got := of(c, nil, kind); got != want {
			t.Errorf("no class, %q serves it: %q, want %q", kind, got, want)
		}
	}
	if got := of(NewClasses(traits, false), nil, ""); got != " false false" {
		t.Errorf("no class, left to others: %q", got)
	}
	if got, want := c.All(), []string{"isthmus-cloud.github.io/aws", "isthmus-cloud.github.io/aws-gold", "service.k8s.aws/nlb"}; !slices.Equal(got, want) {
		t.Errorf("all classes are %q, want %q", got, want)
	}
	if got := (NewClasses(&cloud.LoadBalancerTraits{}, true)).All(); len(got) > 0 {
		t.Errorf("classes of a provider without any: %q", got)
	}
}
