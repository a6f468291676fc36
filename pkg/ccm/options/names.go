package options

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/cloud-provider/names"

	"github.com/isthmus-cloud/isthmus/pkg/controllers/kubeletserving"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/pvlabel"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// NodeIPAMController is the name that kube-controller-manager has for the controller that
// gives Nodes their pod CIDRs.
const NodeIPAMController = "node-ipam-controller"

// DeleteNodesUntil is the annotation of the namespace kube-system with which an operator lets go what the deletion
// guard holds, until the time that is its value.
const DeleteNodesUntil = "isthmus-cloud.github.io/delete-nodes-until"

// TaggingController is the name that AWS' existing manager has for the controller that tags Nodes' instances.
const TaggingController = "tagging"

// PersistentVolumeLabelController labels PersistentVolumes that slipped past the webhook
// persistentvolume-label.
const PersistentVolumeLabelController = pvlabel.Name

// KubeletServingController approves the certificates with which kubelets serve.
const KubeletServingController = kubeletserving.Name

// controllerNames returns the names of all controllers, sorted.
func controllerNames() []string {
	return []string{names.CloudNodeController, names.CloudNodeLifecycleController, KubeletServingController, NodeIPAMController, names.NodeRouteController,
		PersistentVolumeLabelController, names.ServiceLBController, TaggingController}
}

// offByDefault are the controllers that '*' leaves off. Node IPAM would be a second allocator
// beside kube-controller-manager's: --allocate-node-cidrs does not say that it is wanted here,
// since other cloud controller managers need that flag for their routes. PersistentVolumes
// are labeled where the webhook is turned on, too: what it adds binds Pods to zones. Instances
// get tags where --tags says which. Certificates of kubelets are approved where nobody else does it, on the cloud's word alone.
func (o *Options) offByDefault() []string {
	off := []string{KubeletServingController, NodeIPAMController, TaggingController}
	if !o.LabelPersistentVolumes {
		off = append(off, PersistentVolumeLabelController)
	}
	return off
}

// aliases are other names of controllers: the framework's and kube-controller-manager's old ones.
func aliases() map[string]string {
	all := names.CCMControllerAliases()
	all["nodeipam"] = NodeIPAMController
	all["pvlabel"] = PersistentVolumeLabelController
	return all
}

// CanonicalName returns the controller that name, which may be an alias, stands for.
func CanonicalName(name string) string {
	if n, ok := aliases()[name]; ok {
		return n
	}
	return name
}

// checkControllers returns an error for each item of --controllers that names no controller.
func checkControllers(items []string) []error {
	var errs []error
	for _, item := range items {
		name := strings.TrimPrefix(item, "-")
		if name == "*" || slices.Contains(controllerNames(), CanonicalName(name)) {
			continue
		}
		known := slices.Concat(controllerNames(), slices.Collect(maps.Keys(aliases())))
		hint := "known are " + strings.Join(controllerNames(), ", ")
		if n := nearest.Of(name, known); n != "" {
			hint = "did you mean " + n + "?"
		}
		errs = append(errs, fmt.Errorf("--controllers: %q is not a controller: %s", name, hint))
	}
	return errs
}

// enabled reports whether items (--controllers) turn the controller on. As in the
// framework, an item that names it wins over '*'; of two that name it, the first wins.
// '-*' turns off everything that is not named, and '*' leaves off what off names.
func enabled(controller string, items, off []string) bool {
	star := false
	for _, item := range items {
		switch {
		case CanonicalName(item) == controller:
			return true
		case strings.HasPrefix(item, "-") && CanonicalName(item[1:]) == controller:
			return false
		case item == "*":
			star = true
		}
	}
	return star && !slices.Contains(off, controller) && !slices.Contains(items, "-*")
}

// RoutesWanted reports whether the route controller has something to do.
func (o *Options) RoutesWanted(able bool) bool {
	return able && o.Component.KubeCloudShared.ConfigureCloudRoutes &&
		slices.Contains(o.EnabledControllers(), names.NodeRouteController)
}

// RunsControllers reports whether --controllers turns any on.
func (o *Options) RunsControllers() bool { return len(o.EnabledControllers()) > 0 }

// ServesClassless reports whether Services without a load balancer class are ours: this
// process works on them or, if it runs no controllers, another one with the same flag.
func (o *Options) ServesClassless() bool {
	return o.LoadBalancers.DefaultClass && (!o.RunsControllers() || slices.Contains(o.EnabledControllers(), names.ServiceLBController))
}

// EnabledControllers returns the controllers that --controllers turns on.
func (o *Options) EnabledControllers() []string {
	var out []string
	for _, name := range controllerNames() {
		if enabled(name, o.Component.Generic.Controllers, o.offByDefault()) {
			out = append(out, name)
		}
	}
	return out
}
