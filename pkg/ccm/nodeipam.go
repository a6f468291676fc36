package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	cmconfig "k8s.io/controller-manager/config"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/controllers/nodeipam"
)

// NodeIPAMOptions are the settings of the node IPAM controller, by the names that
// kube-controller-manager has for them.
type NodeIPAMOptions struct {
	// ServiceCIDR is --service-cluster-ip-range.
	ServiceCIDR string
	// MaskSize, MaskSizeIPv4 and MaskSizeIPv6 are --node-cidr-mask-size, -ipv4 and -ipv6; 0 is the default.
	MaskSize, MaskSizeIPv4, MaskSizeIPv6 int32
}

func (n *NodeIPAMOptions) addFlags(fs *pflag.FlagSet, allocator *string) {
	fs.StringVar(allocator, "cidr-allocator-type", *allocator,
		"Where "+NodeIPAMController+" has pod CIDRs from: "+allocatorRange+" (--cluster-cidr) or "+allocatorCloud+" (what the cloud has given a node's instance, in clouds that do).")
	fs.StringVar(&n.ServiceCIDR, "service-cluster-ip-range", n.ServiceCIDR,
		"CIDRs of Services, comma-separated, at most one of each IP family: nodes get nothing that overlaps them.")
	fs.Int32Var(&n.MaskSize, "node-cidr-mask-size", n.MaskSize,
		"Size of a node's pod CIDR in a cluster of one IP family. Default: 24 for IPv4, 64 for IPv6.")
	fs.Int32Var(&n.MaskSizeIPv4, "node-cidr-mask-size-ipv4", n.MaskSizeIPv4, "Size of a node's IPv4 pod CIDR. Default: 24.")
	fs.Int32Var(&n.MaskSizeIPv6, "node-cidr-mask-size-ipv6", n.MaskSizeIPv6, "Size of a node's IPv6 pod CIDR. Default: 64.")
}

// podCIDRs parses --cluster-cidr.
func (o *Options) podCIDRs() ([]netip.Prefix, error) {
	return nodeipam.ParseCIDRs("cluster-cidr", o.Component.KubeCloudShared.ClusterCIDR)
}

// The values of --cidr-allocator-type: where pod CIDRs come from.
const (
	allocatorRange = "RangeAllocator"
	allocatorCloud = "CloudAllocator"
)

// fromCloud reports whether pod CIDRs are those that the cloud gives instances.
func (o *Options) fromCloud() bool {
	return o.Component.KubeCloudShared.CIDRAllocatorType == allocatorCloud
}

// nodeIPAMEnabled reports whether pod CIDRs are allocated here.
func (o *Options) nodeIPAMEnabled() bool {
	return slices.Contains(o.enabledControllers(), NodeIPAMController)
}

// nodeIPAM is the controller's configuration.
func (o *Options) nodeIPAM() (nodeipam.Config, error) {
	cluster, err := o.podCIDRs()
	services, serviceErr := nodeipam.ParseCIDRs("service-cluster-ip-range", o.NodeIPAM.ServiceCIDR)
	return nodeipam.Config{
		ClusterCIDRs: cluster, ServiceCIDRs: services,
		MaskSize: int(o.NodeIPAM.MaskSize), MaskSizeIPv4: int(o.NodeIPAM.MaskSizeIPv4), MaskSizeIPv6: int(o.NodeIPAM.MaskSizeIPv6),
	}, errors.Join(err, serviceErr)
}

// checkNodeIPAM checks what the controller needs, where it is on.
func (o *Options) checkNodeIPAM() []error {
	if !o.nodeIPAMEnabled() {
		return nil
	}
	if !o.Component.KubeCloudShared.AllocateNodeCIDRs {
		return []error{fmt.Errorf("--controllers names %s, which requires --allocate-node-cidrs", NodeIPAMController)}
	}
	switch o.Component.KubeCloudShared.CIDRAllocatorType {
	case allocatorCloud:
		return nil
	case allocatorRange:
	default:
		return []error{fmt.Errorf("--cidr-allocator-type must be %s or %s, not %.40q", allocatorRange, allocatorCloud, o.Component.KubeCloudShared.CIDRAllocatorType)}
	}
	config, err := o.nodeIPAM()
	if err != nil || o.Component.KubeCloudShared.ClusterCIDR == "" {
		if _, clusterErr := o.podCIDRs(); clusterErr != nil || err == nil {
			return nil // checkCloud says so
		}
		return []error{err}
	}
	return config.Validate()
}

// checkMigratedNodeIPAM refuses a leader migration that forgets the controller: then
// kube-controller-manager and this process would allocate at the same time.
func (o *Options) checkMigratedNodeIPAM(leaders []cmconfig.ControllerLeaderConfiguration) error {
	named := slices.ContainsFunc(leaders, func(l cmconfig.ControllerLeaderConfiguration) bool {
		return migratedName(l.Name) == NodeIPAMController
	})
	if named || !o.nodeIPAMEnabled() {
		return nil
	}
	return fmt.Errorf("--leader-migration-config: name %s in controllerLeaders: it is on here, and nothing keeps kube-controller-manager's from allocating at the same time", NodeIPAMController)
}

// explainNodeIPAM says where pod CIDRs come from, and which flags have no effect.
func (o *Options) explainNodeIPAM(logger klog.Logger) {
	if o.nodeIPAMEnabled() {
		if o.fromCloud() && o.NodeIPAM != (NodeIPAMOptions{}) {
			logger.Info("Sizes of pod CIDRs and --service-cluster-ip-range have no effect with --cidr-allocator-type=" + allocatorCloud)
		}
		return
	}
	if o.Component.KubeCloudShared.AllocateNodeCIDRs {
		logger.Info("Pod CIDRs are left to kube-controller-manager: to have them allocated here, let --controllers name " + NodeIPAMController)
	}
	if o.NodeIPAM != (NodeIPAMOptions{}) || o.Component.KubeCloudShared.CIDRAllocatorType != allocatorRange {
		logger.Info("The settings of the node IPAM controller have no effect: --controllers does not name " + NodeIPAMController)
	}
}

// nodeIPAMController makes the controller and returns what runs it.
func (t *term) nodeIPAMController(ctx context.Context, client kubernetes.Interface, a *adapter) (func(), error) {
	nodes := t.informers.Core().V1().Nodes()
	if t.opts.fromCloud() {
		recorder, shutdown := t.recorder(ctx, "cidrAllocator")
		c := nodeipam.NewFromCloud(client, nodes, recorder, t.provider.Owns, a.instances.withPodCIDRs)
		return t.ours(ctx, NodeIPAMController, "nodeipam", c.Run, shutdown), nil
	}
	config, err := t.opts.nodeIPAM()
	if err != nil {
		return nil, err
	}
	m, err := nodeipam.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	recorder, shutdown := t.recorder(ctx, "cidrAllocator")
	c := nodeipam.New(client, nodes, recorder, config, m)
	return t.ours(ctx, NodeIPAMController, "nodeipam", c.Run, shutdown), nil
}
