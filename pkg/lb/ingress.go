package lb

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// SameIngress reports whether two statuses of a Service show the same, in whatever order. An IP without a mode is
// one of mode VIP: the API server writes that in its place (KEP-1860). It may be called concurrently.
func SameIngress(a, b []corev1.LoadBalancerIngress) bool {
	if len(a) != len(b) {
		return false
	}
	rest := slices.Clone(b)
	for _, in := range a {
		i := slices.IndexFunc(rest, func(x corev1.LoadBalancerIngress) bool {
			return equality.Semantic.DeepEqual(defaulted(in), defaulted(x))
		})
		if i < 0 {
			return false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return true
}

func defaulted(in corev1.LoadBalancerIngress) corev1.LoadBalancerIngress {
	if in.IP != "" && in.IPMode == nil {
		in.IPMode = new(corev1.LoadBalancerIPModeVIP)
	}
	return in
}
