package integration

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// TestFreshMetrics: a replica that does not lead, and has done nothing, has every metric of which the reference says that it is there from
// the start, so that a rate over it begins with the first event; it has all when it leads and has asked the cloud.
func TestFreshMetrics(t *testing.T) {
	c := newCluster(t)
	c.occupyLease()
	p := c.launch(ossim.ForTest(t), "--leader-elect=true", "--controllers=*,node-ipam-controller,kubelet-serving-csr-approver-controller",
		"--allocate-node-cidrs", "--webhooks=*", "--webhook-registration=auto", "--webhook-url=https://127.0.0.1:1",
		"--kubeconfig="+c.unregistered()) // so that nothing is registered, and nothing missing in the roles that ship
	p.wait("/readyz", http.StatusOK)
	start, later := referenceOfMetrics(t)
	if lacking := p.scrape().lacks(start); len(lacking) > 0 || len(start) < 40 || len(later) == 0 {
		t.Errorf("of %d metrics a replica that does not lead lacks %q", len(start), lacking)
	}
	if err := c.client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(t.Context(), mainLease, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Met(t, func() string {
		if lacking := p.scrape().lacks(slices.Concat(start, later)); len(lacking) > 0 {
			return fmt.Sprintf("the leader lacks %q", lacking)
		}
		return ""
	})
}

// referenceOfMetrics are the names of the reference, with _count of histograms: those that it says a replica has from the start, and
// those that come later.
func referenceOfMetrics(t *testing.T) (start, later []string) {
	t.Helper()
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_A-Z]+)` \\| ([a-z]+) \\| [^|]* \\| [A-Z]+ \\| ([a-z]+) \\|").FindAllStringSubmatch(string(reference), -1) {
		name, kind, from := row[1], row[2], row[3]
		if kind == "histogram" {
			name += "_count"
		}
		if from == "start" {
			start = append(start, name)
		} else {
			later = append(later, name)
		}
	}
	return start, later
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
