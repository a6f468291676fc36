package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodehelpers "k8s.io/cloud-provider/node/helpers"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/nodes"
	ccmoptions "github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

func explainNode(ctx context.Context, q *question) error {
	n, err := q.client.CoreV1().Nodes().Get(ctx, q.name, metav1.GetOptions{})
	if err != nil {
		return access.Failed(ctx, q.client, "read the Node", err)
	}
	all, err := q.allNodes(ctx)
	if err != nil {
		return err
	}
	o, err := ccmoptions.New()
	if err != nil {
		return err
	}
	lister := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, node := range all {
		if err := lister.Add(node); err != nil {
			return err
		}
	}
	known := corelisters.NewNodeLister(lister)
	nodes.Guard(q.cloud, known, o.NodeDeletion, q.client)
	x := &machine{question: q, node: n, limits: &o.NodeDeletion,
		cloud: nodes.NewAdapter(ctx, q.cloud, known, o.Component.NodeLifecycleController.NodeMonitorPeriod.Duration)}
	q.report.Object = "node/" + n.Name
	x.explain(ctx)
	return nil
}

// machine is a Node and what the node controllers make of it.
type machine struct {
	*question
	node   *corev1.Node
	limits *deletionguard.Limits
	// cloud answers as the node controllers are answered.
	cloud *nodes.Adapter
}

func (x *machine) explain(ctx context.Context) {
	n, r := x.node, x.report
	r.fact("provider ID", cmp.Or(n.Spec.ProviderID, "none yet"))
	r.fact("ready", map[bool]string{true: "yes", false: "no"}[isReady(n)])
	if !x.question.cloud.Owns(n) {
		x.foreign()
		return
	}
	instance, err := x.cloud.Find(ctx, n)
	switch {
	case err == nil:
		x.found(instance)
	case deletionguard.IsHeld(err):
		r.fact("instance", "none was found")
	}
	x.initialize(ctx, err)
	x.lifecycle(instance, err)
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// foreign says why nothing is done for the Node.
func (x *machine) foreign() {
	r, why := x.report, fmt.Sprintf("its provider ID is not one of %s", x.question.cloud.Name)
	if x.node.Labels[cloud.ExcludeNode] == "true" {
		why = "it has the label " + cloud.ExcludeNode + "=true"
	}
	r.fact("instance", "not asked for: "+why)
	r.CloudNote = "the Node is not this cloud's"
	r.Plan.Note = "nothing to do: " + why
	if hasTaint(x.node, cloudproviderapi.TaintExternalCloudProvider) {
		r.problem("it has the taint "+cloudproviderapi.TaintExternalCloudProvider+", which nobody takes away: "+why,
			"start its kubelet without --cloud-provider=external, and take the taint away")
	}
}

// found tells of the instance.
func (x *machine) found(i *cloud.Instance) {
	n, r := x.node, x.report
	by := "what its kubelet tells of its machine"
	switch ref := nodes.RefOf(n, x.question.cloud.HintLabel); {
	case ref.ProviderID != "":
		by = "the provider ID"
	case i.IsMachineOf(ref):
		by = "the machine's UUID"
	case i.Name == n.Name:
		by = "the name"
	}
	r.fact("instance", i.ProviderID+", found by "+by)
	r.fact("type", i.Type)
	r.fact("zone", strings.Trim(i.Region+" "+i.Zone, " "))
	o := &cloud.Owned{Kind: "instance", ID: i.ProviderID, Name: i.Name, State: "not shut down"}
	if i.Shutdown {
		o.State = "shut down"
	}
	for _, a := range i.Addresses {
		if !slices.Contains(o.Addresses, a.Address) { // one may be internal and external
			o.Addresses = append(o.Addresses, a.Address)
		}
	}
	r.owns(o)
}

// initialize says what the node controller sets. err is why there is no instance.
func (x *machine) initialize(ctx context.Context, err error) {
	n, r := x.node, x.report
	fresh := hasTaint(n, cloudproviderapi.TaintExternalCloudProvider)
	if err != nil {
		if fresh {
			r.fact("initialization", "it waits: the taint "+cloudproviderapi.TaintExternalCloudProvider+" stays until its instance is found")
		}
		return
	}
	meta, err := x.cloud.InstanceMetadata(ctx, n)
	if err != nil {
		x.failed("it is not initialized", err, "mend the instance; it is tried again by itself")
		return
	}
	want := meta.NodeAddresses
	if given, ok := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; ok {
		if want, err = nodehelpers.GetNodeAddressesFromNodeIP(given, want); err != nil {
			r.problem("its addresses are not set: "+err.Error(), "start its kubelet with a --node-ip that its instance has")
			return
		}
	}
	if fresh {
		if n.Spec.ProviderID == "" {
			r.kube("set spec.providerID: "+meta.ProviderID, x.put())
		}
		if set := labelsOf(n, meta); len(set) > 0 {
			r.kube("set labels: "+strings.Join(set, ", "), x.put())
		}
		r.kube("take away the taint "+cloudproviderapi.TaintExternalCloudProvider, x.put())
	} else if set := reconciled(n); len(set) > 0 {
		r.kube("set labels: "+strings.Join(set, ", "), "PATCH /api/v1/nodes/"+n.Name)
	}
	if others := otherAddresses(n, want); others != "" {
		r.kube("set the addresses: "+others, "PATCH /api/v1/nodes/"+n.Name+"/status")
	}
}

func (x *machine) put() string { return "PUT /api/v1/nodes/" + x.node.Name }

// labelsOf are those that the Node lacks, or has with another value, each with its old name.
func labelsOf(n *corev1.Node, meta *cloudprovider.InstanceMetadata) (out []string) {
	want := map[string]string{
		corev1.LabelInstanceType: meta.InstanceType, corev1.LabelInstanceTypeStable: meta.InstanceType,
		corev1.LabelFailureDomainBetaZone: meta.Zone, corev1.LabelTopologyZone: meta.Zone,
		corev1.LabelFailureDomainBetaRegion: meta.Region, corev1.LabelTopologyRegion: meta.Region,
	}
	for key, value := range meta.AdditionalLabels {
		if _, has := n.Labels[key]; !has { // what is there stays
			want[key] = value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if want[key] != "" && n.Labels[key] != want[key] {
			out = append(out, key+"="+want[key])
		}
	}
	return out
}

// reconciled are the labels that the node controller sets on a Node that is initialized: each from the older one of the same meaning.
func reconciled(n *corev1.Node) (out []string) {
	for _, keys := range [][2]string{
		{corev1.LabelInstanceType, corev1.LabelInstanceTypeStable},
		{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
		{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	} {
		value, has := n.Labels[keys[0]]
		if now, ok := n.Labels[keys[1]]; has && (!ok || now != value) {
			out = append(out, keys[1]+"="+value)
		}
	}
	return out
}

// otherAddresses are the instance's where the Node lacks one of them, or has one that is none. The host name is the kubelet's.
func otherAddresses(n *corev1.Node, want []corev1.NodeAddress) string {
	if len(want) == 0 {
		return ""
	}
	set := func(in []corev1.NodeAddress) []string {
		var out []string
		for _, a := range in {
			if a.Type != corev1.NodeHostName {
				out = append(out, string(a.Type)+" "+a.Address)
			}
		}
		return slices.Compact(slices.Sorted(slices.Values(out)))
	}
	if slices.Equal(set(n.Status.Addresses), set(want)) {
		return ""
	}
	return strings.Join(set(want), ", ")
}

// lifecycle says whether the node lifecycle controller deletes the Node, or taints it.
func (x *machine) lifecycle(i *cloud.Instance, err error) {
	n, r, ready := x.node, x.report, isReady(x.node)
	off := hasTaint(n, cloudproviderapi.TaintNodeShutdown)
	switch {
	case err == nil && i.Shutdown && !ready && !off:
		r.kube("add the taint "+cloudproviderapi.TaintNodeShutdown+", as its instance is shut down", "PATCH /api/v1/nodes/"+n.Name)
	case ready && off:
		r.kube("take away the taint "+cloudproviderapi.TaintNodeShutdown+", as it is ready", "PATCH /api/v1/nodes/"+n.Name)
	case err == nil && off && !i.Shutdown:
		r.fact("lifecycle", "the taint "+cloudproviderapi.TaintNodeShutdown+" stays until the kubelet reports that the Node is ready")
	}
	if err == nil {
		return
	}
	next := "give the instance the Node's name, or the kubelet the instance's (--hostname-override), or correct account, region or project in cloud.conf"
	if n.Spec.ProviderID != "" {
		next = "delete the Node if its machine is gone; where it lives in another account, region or project, correct cloud.conf"
	}
	switch {
	case deletionguard.IsHeld(err):
		r.problem("no instance was found, and the Node is kept: "+err.Error(), "if the instances are gone, let their Nodes go as docs/guides/operations.md says; by default "+x.limit()+" may go at a time")
	case cloud.IsNotFound(err) && !ready:
		r.kube("delete the Node, as it is not ready and its instance does not exist", "DELETE /api/v1/nodes/"+n.Name)
		r.problem(x.lost()+": "+err.Error(), next)
	case cloud.IsNotFound(err):
		r.fact("lifecycle", "it stays while it is ready; else it would be deleted")
		r.problem(x.lost()+": "+err.Error(), next)
	default:
		x.failed("its instance is not known", err, "mend what it says; until then the Node stays as it is")
	}
}

func (x *machine) lost() string {
	if x.node.Spec.ProviderID != "" {
		return "its instance " + x.node.Spec.ProviderID + " is gone"
	}
	return "no instance matches it"
}

// limit is how many Nodes may lack their instances.
func (x *machine) limit() string {
	return fmt.Sprintf("%d Nodes or %d %%", x.limits.Count, x.limits.Percent)
}
