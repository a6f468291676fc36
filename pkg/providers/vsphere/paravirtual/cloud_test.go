package paravirtual

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// The name of the cluster must have been set, unless the cluster has the name that is the default.
func TestIdentify(t *testing.T) {
	for name, tt := range map[string]struct{ owner, want string }{"guest": {"guest", "u"}, "other": {"guest", "u"}, "kubernetes": {"guest", ""}} {
		got, err := identify(cloud.Cluster{Name: name}, metav1.OwnerReference{Kind: "Cluster", Name: tt.owner, UID: "u"})
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), "--cluster-name") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := identify(cloud.Cluster{Name: "kubernetes"}, metav1.OwnerReference{Name: "kubernetes", UID: "u"}); got != "u" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
