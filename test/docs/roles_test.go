package docs

import (
	"bytes"
	"io/fs"
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

// TestRolesAreExplained: the page names each role that ships.
func TestRolesAreExplained(t *testing.T) {
	all := markdown.Pages(t, root)
	text := strings.Join(all[slices.IndexFunc(all, func(p markdown.Page) bool { return p.File == "docs/security-model.md" })].Lines, "\n")
	role, names := regexp.MustCompile(`(?m)^kind: (?:Cluster)?Role\nmetadata:\n  name: (\S+)$`), 0
	err := fs.WalkDir(os.DirFS(root), "manifests", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".yaml") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		for _, m := range role.FindAllSubmatch(data, -1) {
			names++
			name := string(m[1])
			if _, part, ok := strings.Cut(name, ":"); ok {
				name = "…:" + part
			}
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("docs/security-model.md does not say what %s of %s is for", m[1], file)
			}
		}
		return err
	})
	if err != nil || names < 10 {
		t.Errorf("%d roles, %v: this test checks too little", names, err)
	}
}
