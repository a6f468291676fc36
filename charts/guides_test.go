package charts

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

const guides = "../docs/guides"

// block is what a guide shows between fences.
type block struct{ language, text string }

func blocks(t *testing.T, guide string) (out []block) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(guides, guide))
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range strings.Split(string(data), "```") {
		if language, text, ok := strings.Cut(part, "\n"); ok && i%2 == 1 {
			out = append(out, block{language, text})
		}
	}
	return out
}

// elsewhereOnly are commands that need what is not here: pods that run, cert-manager, kubeadm.
var elsewhereOnly = []string{"rollout status", "get mutatingwebhookconfiguration,", "certificates,issuers", "kubeadm ", "create service loadbalancer"}

// shell runs a guide's commands in dir, beside which are the chart and the manifests, as in a checkout.
func (r *release) shell(dir string) func(ctx context.Context, script string) (string, error) {
	r.t.Helper()
	here, err := os.Getwd()
	if err != nil {
		r.t.Fatal(err)
	}
	for name, target := range map[string]string{
		"charts": here, "manifests": filepath.Join(filepath.Dir(here), "manifests"),
		"helm": controlplane.Tool(r.t, "helm"), "kubectl": controlplane.Tool(r.t, "kubectl"),
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			r.t.Fatal(err)
		}
	}
	return func(ctx context.Context, script string) (string, error) {
		cmd := exec.CommandContext(ctx, "sh", "-euc", script) //nolint:gosec // our own guide
		cmd.Dir, cmd.Env = dir, append(os.Environ(), append(r.env, "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// TestHelmGuide follows the guide literally, on a real kube-apiserver.
func TestHelmGuide(t *testing.T) {
	r, dir := newRelease(t), t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cloud.conf", "[Global]\n")
	sh := r.shell(dir)
	clear := func(ctx context.Context) {
		_, _ = sh(ctx, "helm uninstall isthmus -n isthmus-system; true") // whichever is there
		_, _ = sh(ctx, "helm uninstall isthmus -n kube-system; true")
		_, _ = sh(ctx, "kubectl delete --ignore-not-found -f isthmus.yaml; true")
	}
	t.Cleanup(func() {
		clear(context.WithoutCancel(t.Context()))
		_, _ = sh(context.WithoutCancel(t.Context()), "kubectl -n isthmus-system delete secret isthmus-cloud-config")
	})
	ran := 0
	for _, b := range blocks(t, "helm.md") {
		switch {
		case strings.HasPrefix(b.text, "# values.yaml\n"):
			write("values.yaml", b.text)
		case b.language == "sh" && !slices.ContainsFunc(elsewhereOnly, func(s string) bool { return strings.Contains(b.text, s) }):
			if strings.Contains(b.text, "helm install") && !strings.Contains(b.text, "--take-ownership") {
				clear(t.Context())
			}
			script := strings.Replace(b.text, "kubectl create namespace isthmus-system", "kubectl create namespace isthmus-system || true", 1) // other tests may have made it
			if out, err := sh(t.Context(), script); err != nil {
				t.Fatalf("%v\n%s\n%s", err, b.text, out)
			}
			ran++
		}
	}
	if ran < 6 {
		t.Errorf("only %d blocks of the guide were run", ran)
	}
}

// TestKustomizationsInGuides: a real kube-apiserver takes what kustomize makes of each kustomization in
// the guides.
func TestKustomizationsInGuides(t *testing.T) {
	r := newRelease(t)
	files, err := os.ReadDir(guides)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		for _, b := range blocks(t, file.Name()) {
			if b.language != "yaml" || !strings.Contains(b.text, "kind: Kustomization") {
				continue
			}
			n++
			dir := t.TempDir()
			own := filepath.Join(dir, "own")
			for _, beside := range []string{"own/isthmus/manifests", "manifests"} { // as the guides have it
				if err := os.CopyFS(filepath.Join(dir, beside), manifests.FS()); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out := r.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", own); !strings.Contains(out, "daemonset.apps") && !strings.Contains(out, "deployment.apps") {
				t.Errorf("%s: %s", file.Name(), out)
			}
			if out := r.kubectl("kustomize", own); strings.Contains(b.text, "images:") == strings.Contains(out, "registry.invalid") {
				t.Errorf("%s: images are not as the guide says", file.Name())
			}
		}
	}
	if n < 2 {
		t.Errorf("only %d kustomizations in the guides", n)
	}
}

// TestTrustPoliciesInGuide: the roles of the pods trust the ServiceAccounts that ship.
func TestTrustPoliciesInGuide(t *testing.T) {
	trusted := map[string]int{}
	for _, b := range blocks(t, "install-aws.md") {
		if b.language != "json" {
			continue
		}
		var policy struct {
			Statement []struct {
				Action    string
				Principal map[string]string
				Condition map[string]map[string]string
			}
		}
		if err := json.Unmarshal([]byte(b.text), &policy); err != nil {
			t.Fatalf("%v in\n%s", err, b.text)
		}
		for _, s := range policy.Statement {
			issuer, ok := strings.CutPrefix(s.Principal["Federated"], "arn:aws:iam::111122223333:oidc-provider/")
			equal := s.Condition["StringEquals"]
			if !ok || s.Action != "sts:AssumeRoleWithWebIdentity" || equal[issuer+":aud"] != "sts.amazonaws.com" || len(equal) != 2 {
				t.Errorf("%+v", s)
			}
			trusted[equal[issuer+":sub"]]++
		}
	}
	account := "system:serviceaccount:" + manifests.Namespace + ":"
	if diff := gocmp.Diff(map[string]int{account + manifests.ServiceAccount: 1, account + manifests.WebhookServiceAccount: 1}, trusted); diff != "" {
		t.Errorf("(-want +trusted):\n%s", diff)
	}
}

// TestFromKustomize: a release takes over what was applied from the manifests, as it is.
func TestFromKustomize(t *testing.T) {
	r := newRelease(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, manifests.FS()); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlays", "openstack")
	r.kubectl("apply", "-k", overlay)
	ids := func() string {
		return r.kubectl("get", "-k", overlay, "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}`)
	}
	before := ids()
	if out, err := helm(t, r.env, "install", "isthmus", chart, "--namespace", manifests.Namespace, "--values", filepath.Join(chart, "examples", "openstack.yaml"), "--take-ownership", "--force-conflicts"); err != nil {
		t.Fatal(err, out)
	}
	if after := ids(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if out, err := helm(t, r.env, "uninstall", "isthmus", "--namespace", manifests.Namespace); err != nil {
		t.Fatal(err, out)
	}
	if left := r.kubectl("get", "-k", overlay, "--ignore-not-found"); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}
