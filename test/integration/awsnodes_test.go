package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

var awsTag = map[string]string{"kubernetes.io/cluster/c": "owned"}

// registered is a Node as its kubelet makes it.
func registered(name, providerID string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{ProviderID: providerID, Taints: []corev1.Taint{
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

// Pod CIDRs are allocated here as on every cloud, and AWS' routes lead to them; with the rights of the IAM policy that ships.
func TestNodeIPAMAndRoutesOnAWS(t *testing.T) {
	c := newCluster(t)
	region := c.startAWS()
	table := region.MainRouteTable(region.DefaultVPC().ID).ID
	if err := region.CreateTags([]string{table}, awsTag); err != nil {
		t.Fatal(err)
	}
	c.launchOn([]string{"--cloud-provider=aws"}, "--leader-elect=false", "--controllers=cloud-node-controller,node-ipam-controller,node-route-controller",
		"--allocate-node-cidrs", "--configure-cloud-routes=true", "--route-reconciliation-period=200ms").wait("/readyz", http.StatusOK)
	instances := map[string]string{} // by Node
	for range 3 {
		i := region.AddInstance(ec2.Instance{Tags: awsTag})
		instances[i.PrivateDNSName] = i.ID
		c.create(registered(i.PrivateDNSName, "", corev1.ConditionTrue))
	}
	settled := func() string {
		want := map[string]string{} // instances by pod CIDR
		for name, n := range c.nodes() {
			if n.Spec.PodCIDR == "" || n.Spec.ProviderID == "" {
				return name + " has no pod CIDR or no provider ID"
			}
			want[n.Spec.PodCIDR] = instances[name]
		}
		tables, err := region.RouteTables([]string{table})
		if err != nil {
			return err.Error()
		}
		got := map[string]string{}
		for _, r := range tables[0].Routes {
			if r.GatewayID == "" { // the default VPC has a gateway
				got[r.Destination] = r.InstanceID
			}
		}
		return cmp.Diff(want, got)
	}
	eventually.Met(t, settled)
	for name := range instances {
		if err := c.client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		delete(instances, name)
		break
	}
	eventually.Met(t, settled)
}

// Nodes of Fargate and hybrid ones are no instances: whatever they look like, nobody deletes, taints or changes them, while a Node
// of an instance that is gone goes, and one that is new is initialized.
func TestFargateAndHybridNodesAreLeftAloneOnAWS(t *testing.T) {
	c := newCluster(t)
	region := c.startAWS()
	if err := region.CreateTags([]string{region.MainRouteTable(region.DefaultVPC().ID).ID}, awsTag); err != nil {
		t.Fatal(err)
	}
	var others []*corev1.Node
	for n, id := range []string{"aws:///eu-central-1a/5a1c9bd6ee-0fe65152/fargate-ip-172-31-0-9.eu-central-1.compute.internal", "aws:///eu-central-1a/fargate-172.31.0.9",
		"eks-hybrid:///eu-central-1/prod/mi-0123456789abcdef0", "aws:///eu-central-1a/mi-0123456789abcdef0"} {
		name := fmt.Sprintf("other-%d", n)
		one := registered(name, id, corev1.ConditionUnknown)
		known := registered(name+"-known", id, corev1.ConditionUnknown)
		known.Spec.Taints, known.Spec.PodCIDRs, known.Spec.PodCIDR = nil, []string{fmt.Sprintf("10.244.%d.0/24", n)}, fmt.Sprintf("10.244.%d.0/24", n)
		others = append(others, one, known)
	}
	labeled := registered("ip-172-31-0-9.eu-central-1.compute.internal", "", corev1.ConditionUnknown)
	labeled.Labels = map[string]string{"eks.amazonaws.com/compute-type": "fargate"}
	others = append(others, labeled, registered("fargate-ip-172-31-0-9.eu-central-1.compute.internal", "", corev1.ConditionUnknown),
		registered("mi-0123456789abcdef0", "", corev1.ConditionUnknown))
	for _, n := range others {
		c.create(n)
	}
	is := func() map[string]string {
		out := map[string]string{}
		for name, n := range c.nodes() {
			out[name] = n.ResourceVersion
		}
		return out
	}
	before := is()
	c.launchOn([]string{"--cloud-provider=aws"}, "--leader-elect=false", "--controllers=cloud-node-controller,cloud-node-lifecycle-controller,node-route-controller",
		"--configure-cloud-routes=true", "--route-reconciliation-period=200ms", "--node-monitor-period=200ms", "--node-status-update-frequency=200ms",
		"--node-deletion-settle-time=0s", "--node-deletion-limit-percentage=100").wait("/readyz", http.StatusOK)
	gone := region.AddInstance(ec2.Instance{Tags: awsTag})
	region.Terminate(gone.ID)
	c.create(registered("gone", "aws:///eu-central-1a/"+gone.ID, corev1.ConditionUnknown))
	c.create(registered(region.AddInstance(ec2.Instance{Tags: awsTag}).PrivateDNSName, "", corev1.ConditionTrue))
	eventually.Met(t, func() string {
		for name, n := range c.nodes() {
			if _, other := before[name]; !other && (name == "gone" || n.Spec.ProviderID == "") {
				return name + " is as it was"
			}
		}
		return ""
	})
	<-time.After(time.Second) // several rounds
	after := is()
	for name := range after {
		if _, other := before[name]; !other {
			delete(after, name)
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("others' Nodes (-before +after):\n%s", diff)
	}
}
