package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// registered is what the process makes by itself, with policy Fail, and OCCM's Secret.
const registered = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: isthmus}
webhooks:
  - name: persistentvolume-label.isthmus-cloud.github.io
    clientConfig: {service: {name: isthmus-webhook, namespace: kube-system, path: /mutate}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [persistentvolumes]}]
    failurePolicy: Fail
    timeoutSeconds: 1
    sideEffects: None
    admissionReviewVersions: [v1]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: isthmus}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: isthmus-webhook-registration, namespace: kube-system}
---
apiVersion: v1
kind: Secret
metadata: {name: isthmus-webhook-tls, namespace: kube-system}
`

// TestUninstallGuide: the commands for kustomize leave nothing, where what is deleted with the manifests alone
// leaves a registration that refuses every PersistentVolume.
func TestUninstallGuide(t *testing.T) {
	r := newRelease(t)
	r.kubectl("apply", "-k", "../manifests/overlays/openstack")
	r.kubectl("create", "secret", "generic", "isthmus-cloud-config", "-n", "kube-system", "--from-literal=cloud.conf=")
	file := r.written(registered)
	t.Cleanup(func() {
		r.try("delete", "--ignore-not-found", "-f", file)
		r.try("delete", "--ignore-not-found", "-k", "../manifests/overlays/openstack")
		r.try("delete", "--ignore-not-found", "secret", "isthmus-cloud-config", "-n", "kube-system")
	})
	r.kubectl("apply", "-f", file)
	volume := r.written("{apiVersion: v1, kind: PersistentVolume, metadata: {name: after}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}}}")
	r.kubectl("delete", "-k", "../manifests/overlays/openstack")
	if out := r.try("create", "--dry-run=server", "-f", volume); !strings.Contains(out, "failed calling webhook") {
		t.Errorf("the guide warns of what is not so: %s", out)
	}
	sh, ran := r.shell(t.TempDir()), 0
	for _, b := range blocks(t, "uninstall.md") {
		if strings.Contains(b.text, "certificates,issuers") { // cert-manager is not here
			continue
		}
		ran++
		looks := strings.Contains(b.text, "| grep isthmus")
		out, err := sh(t.Context(), b.text)
		switch {
		case looks && strings.Contains(out, "isthmus"):
			t.Errorf("left behind:\n%s", out)
		case !looks && err != nil:
			t.Fatalf("%v\n%s\n%s", err, b.text, out)
		}
	}
	if ran != 3 {
		t.Errorf("%d blocks were run: this test checks nothing", ran)
	}
	if out := r.try("create", "--dry-run=server", "-f", volume); !strings.Contains(out, "persistentvolume/after created") {
		t.Errorf("PersistentVolumes are still refused: %s", out)
	}
}

// TestMigrationOfCloudConf: OCCM's Secret becomes ours, with its files at the paths that our pods have.
func TestMigrationOfCloudConf(t *testing.T) {
	r, dir := newRelease(t), t.TempDir()
	occm := "[Global]\nauth-url = https://keystone.example.com/v3\nca-file = /etc/kubernetes/pki/keystone-ca.pem\n  cert-file=/etc/ssl/a.crt\n[LoadBalancer]\nsubnet-id = 1/2\n"
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("occm.conf", occm)
	write("keystone-ca.pem", "PEM")
	r.kubectl("create", "secret", "generic", "cloud-config", "-n", "kube-system", "--from-file=cloud.conf="+filepath.Join(dir, "occm.conf"))
	t.Cleanup(func() {
		r.try("delete", "--ignore-not-found", "secret", "cloud-config", "isthmus-cloud-config", "-n", "kube-system")
	})
	sh, ran := r.shell(dir), 0
	for _, b := range blocks(t, "migrate-from-occm.md") {
		if !strings.Contains(b.text, "cloud-config") || b.language != "sh" || strings.Contains(b.text, "bin/cloud-controller-manager") {
			continue
		}
		ran++
		out, err := sh(t.Context(), b.text)
		if err != nil || strings.Contains(b.text, "grep") && out != "3:ca-file = /etc/kubernetes/pki/keystone-ca.pem\n4:  cert-file=/etc/ssl/a.crt\n" {
			t.Fatalf("%v\n%s\n%s", err, b.text, out)
		}
	}
	want := strings.NewReplacer("/etc/kubernetes/pki", "/etc/isthmus", "/etc/ssl", "/etc/isthmus").Replace(occm)
	if got, err := os.ReadFile(filepath.Join(dir, "isthmus.conf")); err != nil || string(got) != want || ran != 2 {
		t.Errorf("%d blocks were run: %v\n%s", ran, err, got)
	}
	if got := r.kubectl("get", "secret", "isthmus-cloud-config", "-n", "kube-system", "-o", `jsonpath={.data.keystone-ca\.pem}`); got != "UEVN" {
		t.Errorf("the CA in the Secret is %q", got)
	}
}

// TestBesideAnother: the Role in the guide allows the other lease, which the shipped one does not.
func TestBesideAnother(t *testing.T) {
	r := newRelease(t)
	r.kubectl("apply", "-k", "../manifests/overlays/openstack")
	may := func() string {
		return strings.TrimSpace(r.try("auth", "can-i", "update", "leases.coordination.k8s.io/isthmus-load-balancers", "-n", "kube-system", "--as=system:serviceaccount:kube-system:isthmus-cloud-controller-manager"))
	}
	t.Cleanup(func() {
		r.try("delete", "--ignore-not-found", "-k", "../manifests/overlays/openstack")
		r.try("delete", "--ignore-not-found", "-n", "kube-system", "role,rolebinding", "isthmus-load-balancers")
	})
	if got := may(); !strings.HasPrefix(got, "no") {
		t.Errorf("before: %q", got)
	}
	for _, b := range blocks(t, "load-balancers.md") {
		if strings.Contains(b.text, "create role ") {
			if out, err := r.shell(t.TempDir())(t.Context(), b.text); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	if got := may(); got != "yes" {
		t.Errorf("after: %q", got)
	}
}

// TestClusterGuide: what is rendered for a ClusterResourceSet, and the values of the other distributions, can be read.
func TestClusterGuide(t *testing.T) {
	r, dir := newRelease(t), t.TempDir()
	t.Cleanup(func() { r.try("delete", "--ignore-not-found", "secret", "isthmus-addon") })
	values := blocks(t, "helm.md")[0].text
	for name, content := range map[string]string{"values.yaml": values, "cloud-config.yaml": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ran, read := 0, 0
	sh := r.shell(dir)
	for _, b := range blocks(t, "install-cluster.md") {
		switch {
		case b.language == "yaml":
			for _, document := range strings.Split(b.text, "---\n") {
				var content map[string]any
				if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil || !strings.Contains(document, "cloud-provider") {
					t.Errorf("%v\n%s", err, document)
				}
				read++
			}
		case !strings.Contains(b.text, "kubectl taint"): // there are no Nodes
			if out, err := sh(t.Context(), b.text); err != nil {
				t.Errorf("%v\n%s\n%s", err, b.text, out)
			}
			ran++
		}
	}
	if ran != 1 || read != 4 {
		t.Errorf("%d blocks were run and %d documents read: this test checks too little", ran, read)
	}
}
