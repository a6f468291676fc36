package play

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/snapshot"
)

// uninitialized is what a kubelet asks a manager to take away.
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// nodes are those of a scenario, as their kubelets know them: in the order in which they have joined.
type nodes struct {
	names []string
	// uuids are the machines', as they are now; vcenters where they are.
	uuids    []string
	vcenters []int
	ready    []corev1.ConditionStatus
}

// join makes the machine of a scenario's Node, and describes the Node as it is before anyone looks after it.
func (p *Player) join(ctx context.Context, scenario string, n *script.Node) (*corev1.Node, error) {
	s := p.nodes[scenario]
	if s == nil {
		s = &nodes{}
		p.nodes[scenario] = s
	}
	name, uuid, vcenter := cmp.Or(n.As, scenario), "", 0
	switch {
	case n.Machine != nil:
		uuid, vcenter = n.Machine.UUID, n.Machine.VCenter
		if err := p.Place.VCenters[vcenter].Place(ctx, &n.Machine.Spec); err != nil {
			return nil, fmt.Errorf("machine %s: %w", n.Machine.Name, err)
		}
	case len(s.uuids) > 0: // the one before has gone, its machine has not
		uuid, vcenter = s.uuids[len(s.uuids)-1], s.vcenters[len(s.vcenters)-1]
	}
	ready := cmp.Or(n.Ready, corev1.ConditionTrue)
	s.names, s.uuids, s.vcenters, s.ready = append(s.names, name), append(s.uuids, uuid), append(s.vcenters, vcenter), append(s.ready, ready)
	p.of[name] = scenario
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(n.Labels), Annotations: n.Annotations},
		Spec:       corev1.NodeSpec{ProviderID: fill(n.ProviderID, uuid)},
		Status: corev1.NodeStatus{Addresses: snapshot.Addresses(n.Addresses), NodeInfo: corev1.NodeSystemInfo{SystemUUID: fill(n.SystemUUID, uuid)},
			Conditions: []corev1.NodeCondition{condition(ready)}},
	}
	if !n.Known {
		out.Spec.Taints = []corev1.Taint{{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	return out, nil
}

// fill puts a machine's UUID into a text.
func fill(text, uuid string) string {
	swapped := ""
	if len(uuid) == 36 {
		swapped = uuid[6:8] + uuid[4:6] + uuid[2:4] + uuid[:2] + "-" + uuid[11:13] + uuid[9:11] + "-" + uuid[16:18] + uuid[14:16] + uuid[18:]
	}
	return strings.NewReplacer("{uuid}", uuid, "{UUID}", strings.ToUpper(uuid), "{swapped}", swapped, "{SWAPPED}", strings.ToUpper(swapped)).Replace(text)
}

// condition is what a kubelet says of itself, or kube-controller-manager when it hears nothing.
func condition(ready corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
}

// machineStep takes what of a step is about machines and vCenters.
func (p *Player) machineStep(ctx context.Context, scenario string, step *script.Step) error {
	s := p.nodes[scenario]
	if step.Ready != "" {
		s.ready[step.Node] = step.Ready
	}
	if step.Down != 0 {
		p.Place.down[step.Down] = p.Place.VCenters[step.Down-1].Down()
	}
	if step.Up != 0 {
		p.Place.down[step.Up]()
	}
	if step.Tag != nil {
		if err := p.Place.VCenters[0].Attach(ctx, step.Tag); err != nil {
			return err
		}
	}
	if step.Machine == nil {
		return nil
	}
	if err := p.Place.VCenters[s.vcenters[step.Node]].Change(ctx, s.uuids[step.Node], step.Machine); err != nil {
		return err
	}
	s.uuids[step.Node] = cmp.Or(step.Machine.UUID, s.uuids[step.Node])
	return nil
}
