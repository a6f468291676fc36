package integration

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// TestFreshMetrics: a replica that does not lead, and has done nothing, has every metric of the reference, so that a rate over it begins
// with the first event; those of Kubernetes' controllers it has when it leads.
func TestFreshMetrics(t *testing.T) {
	c := newCluster(t)
	now, leases := ptr.To(metav1.NowMicro()), c.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: mainLease}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("somebody else"),
			LeaseDurationSeconds: ptr.To(int32(3600)), AcquireTime: now, RenewTime: now},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := c.launch(ossim.ForTest(t), "--leader-elect=true", "--controllers=*,node-ipam-controller,kubelet-serving-csr-approver-controller",
		"--allocate-node-cidrs", "--webhooks=*", "--webhook-registration=auto", "--webhook-url=https://127.0.0.1:1")
	p.wait("/readyz", http.StatusOK)
	ours, libraries := referenceOfMetrics(t)
	if lacking := p.scrape().lacks(ours); len(lacking) > 0 || len(ours) < 40 {
		t.Errorf("of %d metrics a replica that does not lead lacks %q", len(ours), lacking)
	}
	if err := leases.Delete(t.Context(), mainLease, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Met(t, func() string {
		if lacking := p.scrape().lacks(slices.Concat(ours, libraries)); len(lacking) > 0 {
			return fmt.Sprintf("the leader lacks %q", lacking)
		}
		return ""
	})
}

// referenceOfMetrics are the names of the reference, with _count of histograms: of our metrics, without those that have the labels of
// which it says that they come with the first request, and of Kubernetes' libraries.
func referenceOfMetrics(t *testing.T) (ours, libraries []string) {
	t.Helper()
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	const later = "`service`, `method` and `code` are the cloud's and come with the first request, as do their metrics."
	own, others, ok := strings.Cut(string(reference), "\n## Of Kubernetes' libraries\n")
	if !ok || !strings.Contains(own, later) {
		t.Fatal("the reference has another form")
	}
	names := func(text string) (names []string) {
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_A-Z]+)` \\| ([a-z]+) \\| ([^|]*) \\|").FindAllStringSubmatch(text, -1) {
			name, kind, labels := row[1], row[2], row[3]
			if strings.Contains(labels, "`service`") {
				continue
			}
			if kind == "histogram" {
				name += "_count"
			}
			names = append(names, name)
		}
		return names
	}
	return names(own), names(others)
}

// lacks are those of names of which s has no series.
func (s scrape) lacks(names []string) []string {
	has := map[string]bool{}
	for key := range s.values {
		name, _, _ := strings.Cut(key, "{")
		has[name] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return has[name] })
}
