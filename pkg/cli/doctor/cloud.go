package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/nodes"
	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

func checkCloudConfig(ctx context.Context, p *patient) ([]output.Finding, error) {
	file := p.flags.CloudConfig
	if file == "" {
		file = "no --cloud-config"
	}
	provider, warnings, err := p.flags.Cloud(ctx, p.client)
	var found []output.Finding
	for _, w := range warnings {
		found = append(found, output.Finding{Severity: output.Warning, Object: file, Message: w, Next: "correct it; the references of cloud.conf list each key"})
	}
	if err != nil {
		for problem := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
			found = append(found, output.Finding{Severity: output.Error, Object: file, Message: problem, Next: "correct it; the controller manager does not start with it"})
		}
		p.cannot(theCloud, "the cloud cannot be asked", "cloud-config")
		return found, nil
	}
	p.cloud = provider
	return found, nil
}

func checkCredentials(ctx context.Context, p *patient) ([]output.Finding, error) {
	err := p.cloud.Ready(ctx)
	if err == nil {
		return nil, nil
	}
	p.cannot(theSession, "the cloud cannot be asked", "credentials")
	f := output.Finding{Severity: output.Error, Object: p.cloud.Name, Message: err.Error(), Next: nextOfCloud(err)}
	if ctx.Err() != nil {
		f.Message = context.Cause(ctx).Error() + ": " + f.Message
		return []output.Finding{f}, nil //nolint:nilerr // the finding tells it
	}
	for _, o := range p.cloud.KubeObjects { // where the API server has the credentials, the cloud is not asked without them
		if o.Kind != cloud.KubeSecret {
			continue
		}
		if _, err := p.client.CoreV1().Secrets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return nil, p.secretUnread(ctx, o, err)
		}
	}
	return []output.Finding{f}, nil
}

// secretUnread is why the Secret with the cloud's credentials could not be read.
func (p *patient) secretUnread(ctx context.Context, o cloud.KubeObject, err error) error {
	doing := "read Secret " + o.Namespace + "/" + o.Name + ", which has the credentials"
	if errors.Is(err, errNoServer) {
		return &access.Problem{What: doing + ": " + errNoServer.Error(), Next: "mend what check " + checkOfCluster + " says first, or call doctor with a cloud.conf that has the credentials itself"}
	}
	return access.Failed(ctx, p.client, doing, err)
}

// nextOfCloud is what to do where the cloud has answered with an error, or not at all.
func nextOfCloud(err error) string {
	switch cloud.KindOf(err) {
	case cloud.KindDenied:
		return "the cloud refuses the credentials: look at them in the cloud, and at what they may do"
	case cloud.KindInvalid, cloud.KindNotFound, cloud.KindUnsupported:
		return "correct the endpoint, region or account of cloud.conf"
	default:
		return "the cloud does not answer from here: try the endpoint with curl, look at name resolution, proxies and its certificate"
	}
}

// instance is what the cloud says of a Node.
type instance struct {
	*cloud.Instance
	err error
}

// fresh is a Node that is too young to be complained of.
const fresh = 2 * time.Minute

// mostMissing is how many Nodes whose instance is not in the cloud's list have it read by itself, which is one call each.
const mostMissing = 20

func checkNodes(ctx context.Context, p *patient) (found []output.Finding, err error) {
	var refs []cloud.InstanceRef
	var owned []*corev1.Node
	for i := range p.nodes {
		if n := &p.nodes[i]; p.cloud.Owns(n) {
			owned, refs = append(owned, n), append(refs, nodes.RefOf(n, p.cloud.HintLabel))
		}
	}
	peers := &instancecache.Peers{List: func() []cloud.InstanceRef { return refs }}
	nodeOf, missing := map[string]string{}, 0 // by provider ID
	for i, n := range owned {
		answer, err := p.lookup(ctx, refs[i], peers, missing)
		if ctx.Err() != nil {
			p.cannot(theInstances, "the instances of some Nodes were not asked for", "nodes")
			return found, context.Cause(ctx)
		}
		p.instances[n.Name] = &instance{answer, err}
		if cloud.IsNotFound(err) {
			missing++
		}
		if err != nil {
			found = append(found, notMatched(n, err))
			continue
		}
		if other := nodeOf[answer.ProviderID]; other != "" {
			found = append(found, output.Finding{Severity: output.Error, Object: "node/" + n.Name, Message: fmt.Sprintf("it is the same instance as node/%s: %s", other, answer.ProviderID),
				Next: "delete the Node that is not this machine's; its kubelet makes it again"})
		}
		nodeOf[answer.ProviderID] = n.Name
		if answer.Unfit != nil {
			found = append(found, output.Finding{Severity: output.Error, Object: "node/" + n.Name, Message: answer.Unfit.Error(), Next: "mend the instance; the Node is not initialized with it"})
		}
		if p.unmanaged(n) {
			found = append(found, output.Finding{Severity: output.Error, Object: "node/" + n.Name, Message: "it has neither a provider ID nor the taint " + cloudproviderapi.TaintExternalCloudProvider + ": nobody initializes it",
				Next: "start its kubelet with --cloud-provider=external, and delete the Node: its kubelet makes it again, with the taint"})
		}
		found = append(found, otherAddresses(n, answer)...)
		found = append(found, otherPlace(n, answer)...)
	}
	found = append(found, p.routes(owned)...)
	for i := range p.nodes {
		if n := &p.nodes[i]; !p.cloud.Owns(n) && n.Labels[cloud.ExcludeNode] != "true" {
			found = append(found, output.Finding{Severity: output.Warning, Object: "node/" + n.Name, Message: fmt.Sprintf("its provider ID %q is not one of %s: nothing is done for it", n.Spec.ProviderID, p.cloud.Name),
				Next: "where this is meant, label it " + cloud.ExcludeNode + "=true; else delete the Node and start its kubelet without --provider-id"})
		}
	}
	return found, nil
}

// unmanaged reports whether a Node was registered without leave for a cloud controller manager to initialize it, by a kubelet that knows of none.
func (p *patient) unmanaged(n *corev1.Node) bool {
	return n.Spec.ProviderID == "" && !lb.IsNew(n) && p.clock.Since(n.CreationTimestamp.Time) > fresh
}

// lookup answers about a Node's instance where the instances of missing Nodes were not found before.
func (p *patient) lookup(ctx context.Context, ref cloud.InstanceRef, peers *instancecache.Peers, missing int) (*cloud.Instance, error) {
	if missing >= mostMissing && p.cloud.Nodes.Missed(ref, time.Hour) {
		return nil, cloud.Errorf(cloud.KindNotFound, "the cloud's list does not have it; it was not read by itself, as those of %d other Nodes are gone, too", mostMissing)
	}
	return p.cloud.Nodes.Lookup(ctx, ref, time.Hour, peers)
}

func notMatched(n *corev1.Node, err error) output.Finding {
	f := output.Finding{Severity: output.Error, Object: "node/" + n.Name, Message: err.Error()}
	switch {
	case !cloud.IsNotFound(err):
		f.Next = "mend what the cloud says; until then the Node stays as it is"
	case n.Spec.ProviderID != "":
		f.Message = "its instance " + n.Spec.ProviderID + " is not there: " + f.Message
		f.Next = "a Node that is not ready is deleted; where the instance lives in another account, region or project, correct cloud.conf"
	default:
		f.Message = "no instance matches it: " + f.Message
		f.Next = "give the instance the Node's name, or the kubelet the instance's (--hostname-override), or correct account, region or project in cloud.conf"
	}
	return f
}

// otherAddresses: an initialized Node whose addresses are none of the instance's.
func otherAddresses(n *corev1.Node, i *cloud.Instance) []output.Finding {
	if len(n.Status.Addresses) == 0 || len(i.Addresses) == 0 || n.Spec.ProviderID == "" {
		return nil
	}
	for _, a := range n.Status.Addresses {
		for _, b := range i.Addresses {
			if a.Address == b.Address && a.Type != corev1.NodeHostName {
				return nil
			}
		}
	}
	return []output.Finding{{Severity: output.Error, Object: "node/" + n.Name, Message: fmt.Sprintf("none of its addresses is one of %s", i.ProviderID),
		Next: "look whether the Node is this machine's and whether a controller manager leads; addresses are written every 5 minutes"}}
}

// otherPlace: a Node with a label of another zone or region than its instance's.
func otherPlace(n *corev1.Node, i *cloud.Instance) (found []output.Finding) {
	for _, place := range [][2]string{{corev1.LabelTopologyZone, i.Zone}, {corev1.LabelTopologyRegion, i.Region}} {
		if has := n.Labels[place[0]]; has != "" && place[1] != "" && has != place[1] {
			found = append(found, output.Finding{Severity: output.Warning, Object: "node/" + n.Name,
				Message: fmt.Sprintf("its label %s is %q, and the cloud says %q of %s: Pods are placed, and volumes made, for the wrong place", place[0], has, place[1], i.ProviderID),
				Next:    "the label is set once, when the Node is initialized: drain and delete the Node, and restart its kubelet, which makes it again"})
		}
	}
	return found
}

func checkTaints(_ context.Context, p *patient) (found []output.Finding, err error) {
	for i := range p.nodes {
		n := &p.nodes[i]
		answer := p.instances[n.Name]
		for _, t := range n.Spec.Taints {
			f := output.Finding{Severity: output.Error, Object: "node/" + n.Name}
			switch {
			case t.Key == cloudproviderapi.TaintExternalCloudProvider && p.clock.Since(n.CreationTimestamp.Time) > fresh && (answer == nil || answer.err == nil):
				f.Message = "it still has the taint " + t.Key + ", though its instance is found"
				f.Next = "look whether a controller manager leads, and at the Node's events: kubectl describe node " + n.Name
				if answer == nil {
					f.Message = "it has the taint " + t.Key + ", and its provider ID says that this cloud has nothing to do with it"
					f.Next = "nobody takes the taint away: start its kubelet without --cloud-provider=external, and take it away"
				}
			case t.Key == cloudproviderapi.TaintNodeShutdown && answer != nil && answer.err == nil && !answer.Shutdown:
				f.Message = "it still has the taint " + t.Key + ", though the cloud says that its instance runs"
				f.Next = "look whether a controller manager leads, and whether the kubelet has reported that it is ready"
			default:
				continue
			}
			found = append(found, f)
		}
	}
	return found, nil
}
