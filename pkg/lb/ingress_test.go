package lb

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSameIngress(t *testing.T) {
	vip, proxy := new(corev1.LoadBalancerIPModeVIP), new(corev1.LoadBalancerIPModeProxy)
	type list = []corev1.LoadBalancerIngress
	for name, c := range map[string]struct {
		a, b list
		same bool
	}{
		"none":             {nil, list{}, true},
		"another order":    {list{{IP: "192.0.2.1"}, {Hostname: "a"}}, list{{Hostname: "a"}, {IP: "192.0.2.1"}}, true},
		"a default mode":   {list{{IP: "192.0.2.1", IPMode: vip}}, list{{IP: "192.0.2.1"}}, true},
		"another mode":     {list{{IP: "192.0.2.1", IPMode: proxy}}, list{{IP: "192.0.2.1"}}, false},
		"a name's mode":    {list{{Hostname: "a", IPMode: vip}}, list{{Hostname: "a"}}, false},
		"another address":  {list{{IP: "192.0.2.1"}}, list{{IP: "192.0.2.2"}}, false},
		"one more":         {list{{IP: "192.0.2.1"}}, list{{IP: "192.0.2.1"}, {IP: "192.0.2.1"}}, false},
		"twice, not twice": {list{{IP: "192.0.2.1"}, {IP: "192.0.2.1"}}, list{{IP: "192.0.2.1"}, {IP: "192.0.2.2"}}, false},
	} {
		if SameIngress(c.a, c.b) != c.same || SameIngress(c.b, c.a) != c.same {
			t.Errorf("%s: want %v", name, c.same)
		}
	}
}
