package loadbalancers

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// The labels and annotations of VirtualMachineServices, which are those of the existing manager but for the first.
const (
	labelClusterUID  = "isthmus-cloud.github.io/cluster-uid"
	labelCluster     = "run.tanzu.vmware.com/cluster.name"
	labelName        = "run.tanzu.vmware.com/service.name"
	labelNamespace   = "run.tanzu.vmware.com/service.namespace"
	annotationPolicy = "virtualmachineservice.vmoperator.vmware.com/service.externalTrafficPolicy"
	annotationCheck  = "virtualmachineservice.vmoperator.vmware.com/service.healthCheckNodePort"
)

// vmService is what is read of a VirtualMachineService.
type vmService struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              vmServiceSpec `json:"spec"`
	Status            struct {
		LoadBalancer struct {
			Ingress []ingress `json:"ingress"`
		} `json:"loadBalancer"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

type ingress struct {
	IP       string `json:"ip"`
	Hostname string `json:"hostname"`
}

// vmServiceSpec is of its spec what is written.
type vmServiceSpec struct {
	Type                     string            `json:"type"`
	Ports                    []port            `json:"ports,omitempty"`
	Selector                 map[string]string `json:"selector,omitempty"`
	LoadBalancerIP           string            `json:"loadBalancerIP,omitempty"`
	LoadBalancerSourceRanges []string          `json:"loadBalancerSourceRanges,omitempty"`
	IPFamilies               []string          `json:"ipFamilies,omitempty"`
	IPFamilyPolicy           string            `json:"ipFamilyPolicy,omitempty"`
}

type port struct {
	Name       string `json:"name"`
	Protocol   string `json:"protocol"`
	Port       int32  `json:"port"`
	TargetPort int32  `json:"targetPort"`
}

// nameOf is the name of a Service's object. With that of a cluster, of 41 bytes at most, it has the 63 of a name.
func nameOf(r cloud.LoadBalancerRef) string {
	sum := sha256.Sum256([]byte(r.Name + "." + r.Namespace))
	return r.Cluster.Name + "-" + hex.EncodeToString(sum[:])[:21]
}

// labelsOf are those by which a Service's object is found, whatever its name.
func labelsOf(r cloud.LoadBalancerRef) map[string]string {
	return map[string]string{labelCluster: r.Cluster.Name, labelName: r.Name, labelNamespace: r.Namespace}
}

// desired is what the object of a Service is to say. ipFamilies says that it can say families.
func desired(s *cloud.LoadBalancerSpec, legacy, ipFamilies bool) (*vmService, error) {
	domain := "capv.vmware.com/"
	if legacy {
		domain = "capw.vmware.com/"
	}
	out := &vmService{ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(s.LoadBalancerRef)}, Spec: vmServiceSpec{Type: "LoadBalancer",
		Selector: map[string]string{domain + "cluster.name": s.Cluster.Name, domain + "cluster.role": "node"}}}
	out.Labels[labelClusterUID] = s.Cluster.UID
	for _, p := range s.Ports {
		if p.NodePort == 0 {
			return nil, cloud.Errorf(cloud.KindInvalid, "port %d of the Service has no node port, which a VirtualMachineService needs; remove spec.allocateLoadBalancerNodePorts: false", p.Port)
		}
		out.Spec.Ports = append(out.Spec.Ports, port{Name: p.Name, Protocol: string(p.Protocol), Port: p.Port, TargetPort: p.NodePort})
	}
	if s.LoadBalancerIP.IsValid() {
		out.Spec.LoadBalancerIP = s.LoadBalancerIP.String()
	}
	for _, r := range s.SourceRanges {
		out.Spec.LoadBalancerSourceRanges = append(out.Spec.LoadBalancerSourceRanges, r.String())
	}
	if h := s.HealthCheck; h != nil {
		out.Annotations = map[string]string{annotationPolicy: string(corev1.ServiceExternalTrafficPolicyLocal), annotationCheck: strconv.Itoa(int(h.Port))}
	}
	if ipFamilies {
		for _, f := range s.IPFamilies {
			out.Spec.IPFamilies = append(out.Spec.IPFamilies, string(f))
		}
		if out.Spec.IPFamilyPolicy = string(corev1.IPFamilyPolicySingleStack); len(s.IPFamilies) > 1 {
			out.Spec.IPFamilyPolicy = string(corev1.IPFamilyPolicyPreferDualStack)
		}
	}
	return out, nil
}

// fields are the fields of the spec in which what there is differs from what is desired, each with what it is to be; nil takes it
// away. What means the same is no difference.
func fields(is, want *vmServiceSpec) map[string]any {
	out := map[string]any{}
	if !slices.Equal(sortedPorts(is.Ports), sortedPorts(want.Ports)) {
		out["ports"] = want.Ports
	}
	if address(is.LoadBalancerIP) != address(want.LoadBalancerIP) {
		out["loadBalancerIP"] = want.LoadBalancerIP
	}
	if has, wants := sortedRanges(is.LoadBalancerSourceRanges), sortedRanges(want.LoadBalancerSourceRanges); !slices.Equal(has, wants) && (len(wants) > 0 || !everyone(has, is.IPFamilies)) {
		out["loadBalancerSourceRanges"] = want.LoadBalancerSourceRanges
	}
	if want.IPFamilies == nil {
		return out
	}
	if !slices.Equal(is.IPFamilies, want.IPFamilies) {
		out["ipFamilies"] = want.IPFamilies
	}
	if !fits(is.IPFamilyPolicy, len(want.IPFamilies)) {
		out["ipFamilyPolicy"] = want.IPFamilyPolicy
	}
	return out
}

// fits reports whether a Service of that many families may have the policy: which of two it has is not known here.
func fits(policy string, families int) bool {
	if families > 1 {
		return policy == string(corev1.IPFamilyPolicyPreferDualStack) || policy == string(corev1.IPFamilyPolicyRequireDualStack)
	}
	return policy != string(corev1.IPFamilyPolicyRequireDualStack)
}

func sortedPorts(in []port) []port {
	return slices.SortedFunc(slices.Values(in), func(a, b port) int {
		if a.Port != b.Port {
			return int(a.Port - b.Port)
		}
		return strings.Compare(a.Protocol, b.Protocol)
	})
}

// address is one written in one way.
func address(s string) string {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String()
	}
	return s
}

// sortedRanges are ranges written in one way.
func sortedRanges(in []string) []string {
	var out []string
	for _, s := range in {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil {
			s = p.Masked().String()
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// everyone reports whether ranges let in all clients of the families, IPv4 where there are none: the same is said by no ranges.
func everyone(ranges, families []string) bool {
	v4, v6 := slices.Contains(ranges, "0.0.0.0/0"), slices.Contains(ranges, "::/0")
	return (v4 || len(families) > 0 && !slices.Contains(families, string(corev1.IPv4Protocol))) && (v6 || !slices.Contains(families, string(corev1.IPv6Protocol)))
}

// statusOf is what is published of an object, nil while it has no address.
func statusOf(s *vmService) *cloud.LoadBalancerStatus {
	out := &cloud.LoadBalancerStatus{ID: s.Namespace + "/" + s.Name}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" || in.Hostname != "" {
			out.Ingress = append(out.Ingress, corev1.LoadBalancerIngress{IP: in.IP, Hostname: in.Hostname})
		}
	}
	if len(out.Ingress) == 0 {
		return nil
	}
	return out
}

// why says why there is no address yet, as far as conditions tell.
func why(s *vmService) string {
	for _, c := range s.Status.Conditions {
		if c.Status == metav1.ConditionFalse {
			return ": " + c.Type + " is false: " + c.Reason + " " + c.Message
		}
	}
	return ""
}

// published reports whether the Service shows an address of the object.
func published(s *vmService, r cloud.LoadBalancerRef) bool {
	return slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(in ingress) bool {
		return slices.ContainsFunc(r.CurrentIngress, func(c corev1.LoadBalancerIngress) bool {
			return in.IP != "" && in.IP == c.IP || in.Hostname != "" && in.Hostname == c.Hostname
		})
	})
}
