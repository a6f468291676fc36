package play

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
)

// uninitialized is what a kubelet asks a manager to take away.
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// join makes a Node of a scenario, "" for the group's, with its instance.
func (p *Player) join(ctx context.Context, scenario string, n *script.Node) error {
	out := p.newNode(scenario, n)
	_, err := p.Client.CoreV1().Nodes().Create(ctx, out, metav1.CreateOptions{})
	return err
}

// newNode makes the instance of a scenario's Node, and describes the Node as it is before anyone looks after it.
func (p *Player) newNode(scenario string, n *script.Node) *corev1.Node {
	made := p.Place.instance(n)
	name := p.Place.nodeName(n, made)
	p.nodes[name], p.names[scenario] = scenario, append(p.names[scenario], name)
	if n.Instance != nil {
		p.instances[n.Instance.ID] = scenario
	}
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(n.Labels), Annotations: n.Annotations},
		Spec:       corev1.NodeSpec{ProviderID: fill(n.ProviderID, made), PodCIDRs: n.PodCIDRs},
	}
	if len(n.PodCIDRs) > 0 {
		out.Spec.PodCIDR = n.PodCIDRs[0]
	}
	for _, cidr := range n.PodCIDRs {
		p.routes[cidr] = scenario
	}
	out.Status.Conditions = []corev1.NodeCondition{condition(corev1.ConditionTrue)}
	if !n.Known {
		out.Spec.Taints = []corev1.Taint{{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	if n.Known && made != nil {
		out.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: made.PrivateIP}}
	}
	return out
}

// instance makes a Node's instance; nil where it has none.
func (p *Place) instance(n *script.Node) *ec2.Instance {
	if n.Instance == nil {
		return nil
	}
	in := *n.Instance
	if !n.Untagged {
		in.Tags = map[string]string{script.ClusterTag: "owned"}
	}
	return p.Cloud.EC2.AddInstance(in)
}

// nodeName is the name of a Node with an instance.
func (p *Place) nodeName(n *script.Node, made *ec2.Instance) string {
	switch {
	case n.As == "id":
		return made.ID
	case n.As != "":
		return fill(n.As, made)
	}
	return made.PrivateDNSName
}

// fill puts an instance's ID and zone into a text.
func fill(text string, i *ec2.Instance) string {
	if i == nil {
		return text
	}
	return strings.NewReplacer("{id}", i.ID, "{zone}", i.Zone).Replace(text)
}

// condition is what a kubelet says of itself, or kube-controller-manager when it hears nothing.
func condition(ready corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
}

// nodeStep takes a step with one of a scenario's Nodes.
func (p *Player) nodeStep(ctx context.Context, s *script.Scenario, step *script.NodeStep) error {
	name := p.names[s.Name][step.Node]
	nodes := p.Client.CoreV1().Nodes()
	p.Place.instanceStep(s, step)
	if step.Delete {
		return nodes.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if step.Patch != "" {
		if _, err := nodes.Patch(ctx, name, types.MergePatchType, []byte(step.Patch), metav1.PatchOptions{}); err != nil {
			return ignoreNotFound(err)
		}
	}
	if step.Ready == "" {
		return nil
	}
	status := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Played"}]}}`, step.Ready)
	_, err := nodes.Patch(ctx, name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	return ignoreNotFound(err)
}

// instanceStep takes what of a step is about the Node's instance.
func (p *Place) instanceStep(s *script.Scenario, step *script.NodeStep) {
	n := &s.Nodes[step.Node]
	e := p.Cloud.EC2
	switch step.Instance {
	case "":
	case "stop":
		e.Stop(n.Instance.ID)
	case "run":
		e.Run(n.Instance.ID)
	case "terminate":
		e.Terminate(n.Instance.ID)
	case "vanish":
		e.Vanish(n.Instance.ID)
	default:
		e.SetState(n.Instance.ID, ec2.State(step.Instance))
	}
	if step.Interface != nil {
		added := *step.Interface
		added.InstanceID = n.Instance.ID
		e.AddInterface(added)
	}
}
