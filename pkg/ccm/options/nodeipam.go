package options

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/controllers/nodeipam"
)

// NodeIPAM are the settings of the node IPAM controller, by the names that
// kube-controller-manager has for them.
type NodeIPAM struct {
	// ServiceCIDR is --service-cluster-ip-range.
	ServiceCIDR string
	// MaskSize, MaskSizeIPv4 and MaskSizeIPv6 are --node-cidr-mask-size, -ipv4 and -ipv6; 0 is the default.
	MaskSize, MaskSizeIPv4, MaskSizeIPv6 int32
}

func (n *NodeIPAM) addFlags(fs *pflag.FlagSet, allocator *string) {
	fs.StringVar(allocator, "cidr-allocator-type", *allocator,
		"Where "+NodeIPAMController+" has pod CIDRs from: "+AllocatorRange+" (--cluster-cidr) or "+AllocatorCloud+" (what the cloud has given a node's instance, in clouds that do).")
	fs.StringVar(&n.ServiceCIDR, "service-cluster-ip-range", n.ServiceCIDR,
		"CIDRs of Services, comma-separated, at most one of each IP family: nodes get nothing that overlaps them.")
	fs.Int32Var(&n.MaskSize, "node-cidr-mask-size", n.MaskSize,
		"Size of a node's pod CIDR in a cluster of one IP family. Default: 24 for IPv4, 64 for IPv6.")
	fs.Int32Var(&n.MaskSizeIPv4, "node-cidr-mask-size-ipv4", n.MaskSizeIPv4, "Size of a node's IPv4 pod CIDR. Default: 24.")
	fs.Int32Var(&n.MaskSizeIPv6, "node-cidr-mask-size-ipv6", n.MaskSizeIPv6, "Size of a node's IPv6 pod CIDR. Default: 64.")
}

// PodCIDRs parses --cluster-cidr.
func (o *Options) PodCIDRs() ([]netip.Prefix, error) {
	return nodeipam.ParseCIDRs("cluster-cidr", o.Component.KubeCloudShared.ClusterCIDR)
}

// The values of --cidr-allocator-type: where pod CIDRs come from.
const (
	AllocatorRange = "RangeAllocator"
	AllocatorCloud = "CloudAllocator"
)

// FromCloud reports whether pod CIDRs are those that the cloud gives instances.
func (o *Options) FromCloud() bool {
	return o.Component.KubeCloudShared.CIDRAllocatorType == AllocatorCloud
}

// NodeIPAMEnabled reports whether pod CIDRs are allocated here.
func (o *Options) NodeIPAMEnabled() bool {
	return slices.Contains(o.EnabledControllers(), NodeIPAMController)
}

// NodeIPAMConfig is the controller's configuration.
func (o *Options) NodeIPAMConfig() (nodeipam.Config, error) {
	cluster, err := o.PodCIDRs()
	services, serviceErr := nodeipam.ParseCIDRs("service-cluster-ip-range", o.NodeIPAM.ServiceCIDR)
	return nodeipam.Config{
		ClusterCIDRs: cluster, ServiceCIDRs: services,
		MaskSize: int(o.NodeIPAM.MaskSize), MaskSizeIPv4: int(o.NodeIPAM.MaskSizeIPv4), MaskSizeIPv6: int(o.NodeIPAM.MaskSizeIPv6),
	}, errors.Join(err, serviceErr)
}

// checkNodeIPAM checks what the controller needs, where it is on.
func (o *Options) checkNodeIPAM() []error {
	if !o.NodeIPAMEnabled() {
		return nil
	}
	if !o.Component.KubeCloudShared.AllocateNodeCIDRs {
		return []error{fmt.Errorf("--controllers names %s, which requires --allocate-node-cidrs", NodeIPAMController)}
	}
	switch o.Component.KubeCloudShared.CIDRAllocatorType {
	case AllocatorCloud:
		return nil
	case AllocatorRange:
	default:
		return []error{fmt.Errorf("--cidr-allocator-type must be %s or %s, not %.40q", AllocatorRange, AllocatorCloud, o.Component.KubeCloudShared.CIDRAllocatorType)}
	}
	config, err := o.NodeIPAMConfig()
	if err != nil || o.Component.KubeCloudShared.ClusterCIDR == "" {
		if _, clusterErr := o.PodCIDRs(); clusterErr != nil || err == nil {
			return nil // checkCloud says so
		}
		return []error{err}
	}
	return config.Validate()
}

// ExplainNodeIPAM says where pod CIDRs come from, and which flags have no effect.
func (o *Options) ExplainNodeIPAM(logger klog.Logger) {
	if o.NodeIPAMEnabled() {
		if o.FromCloud() && o.NodeIPAM != (NodeIPAM{}) {
			logger.Info("Sizes of pod CIDRs and --service-cluster-ip-range have no effect with --cidr-allocator-type=" + AllocatorCloud)
		}
		return
	}
	if o.Component.KubeCloudShared.AllocateNodeCIDRs {
		logger.Info("Pod CIDRs are left to kube-controller-manager: to have them allocated here, let --controllers name " + NodeIPAMController)
	}
	if o.NodeIPAM != (NodeIPAM{}) || o.Component.KubeCloudShared.CIDRAllocatorType != AllocatorRange {
		logger.Info("The settings of the node IPAM controller have no effect: --controllers does not name " + NodeIPAMController)
	}
}
