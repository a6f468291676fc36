package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/test/docs/markdown"
)

// TestRolesInSecurityModel: the page's table of what the ClusterRole of the controllers has is what it has.
func TestRolesInSecurityModel(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "manifests", "base", "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(doc, &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" || role.Name != "isthmus-cloud-controller-manager" {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				want[resource] = strings.Join(rule.Verbs, ", ")
			}
		}
	}
	all := markdown.Pages(t, root)
	lines := all[slices.IndexFunc(all, func(p markdown.Page) bool { return p.File == "docs/security-model.md" })].Lines
	begin := slices.Index(lines, "## Roles in the cluster")
	shown := map[string]string{}
	for _, line := range lines[begin:] {
		if m := regexp.MustCompile("^\\| `([a-z/]+)` \\| ([a-z, ]+) \\|").FindStringSubmatch(line); m != nil {
			shown[m[1]] = m[2]
		}
	}
	if diff := cmp.Diff(want, shown); diff != "" || len(want) < 8 {
		t.Errorf("(-manifests +page):\n%s", diff)
	}
}
