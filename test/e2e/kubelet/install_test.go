//go:build e2e

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/manifests"
)

// Where the DaemonSet of the manifests puts things.
const (
	installedBin    = "/opt/isthmus/credential-providers"
	installedConfig = "/etc/isthmus/credential-provider/credential-provider.yaml"
)

// checkInstall: a pod as the DaemonSet of the manifests makes it, with the component that restarts
// the kubelet, installs what a kubelet then pulls private images with.
func checkInstall(t *testing.T, w *world) {
	files := map[string]string{
		"credential-provider.yaml": fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: isthmus-credential-provider
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [%q]
  defaultCacheDuration: 1m
  args: [--config=/etc/isthmus/credential-provider/options.yaml]
`, w.passwords.host),
		"options.yaml": "apiVersion: isthmus-cloud.github.io/v1\nkind: CredentialProviderOptions\nopenstack: {cloudConfig: /etc/isthmus/credential-provider/cloud.conf}\n",
	}
	w.openstack.AddSecret("installed", "text/plain", fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, w.passwords.host, puller, pullerPassword))
	conf, _ := cloudConf(t, w.openstack, "installed", fmt.Sprintf("[Registry %q]\ntype = barbican\nsecret = installed\n", w.passwords.host))
	data, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	files["cloud.conf"] = string(data)

	if err := copyFile(program("systemctl"), "/usr/bin/systemctl"); err != nil {
		t.Fatal(err)
	}
	before := startNode(t, w.plane, "kubelet-before", "", "")
	runInstaller(t, w, files)
	before.kubelet.stop()

	out, err := run(t, "isthmus-credential-provider", "check", "--kubelet-config", installedConfig, "--bin-dir", installedBin)
	if err != nil {
		t.Error(err, out)
	}
	after := startNode(t, w.plane, "kubelet-after", installedConfig, installedBin)
	createPod(t, w.plane.Client, "installed", "", w.passwords.push(t, "installed/app"))
	waitRunning(t, w.plane.Client, "installed")
	if n := after.runs(t, "isthmus-credential-provider"); n != 1 {
		t.Errorf("the kubelet ran the provider %d times, want once", n)
	}
	after.kubelet.stop()
	checkUnusableFolders(t)
}

// runInstaller runs a pod of the DaemonSet until it has installed the files.
func runInstaller(t *testing.T, w *world, files map[string]string) {
	t.Helper()
	set := installer(t, w)
	const image = "isthmus/credential-provider:e2e"
	load(t, image, makeImageOf(t, "isthmus-credential-provider", image))
	core := w.plane.Client.CoreV1()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "isthmus-credential-provider"}, StringData: files}
	if _, err := core.Secrets(set.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := core.ServiceAccounts(set.Namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "installer", Labels: set.Spec.Template.Labels}, Spec: set.Spec.Template.Spec}
	pod.Spec.NodeName, pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = nodeName, image, corev1.PullNever
	if _, err := core.Pods(set.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var told []byte
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		told, _ = os.ReadFile(filepath.Join(state, "systemctl")) // the last step
		return len(told) > 0, nil
	})
	if err != nil {
		now, getErr := core.Pods(set.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		t.Fatalf("the installer does not end its work: %v: %+v (%v)", err, now.Status.ContainerStatuses, getErr)
	}
	if want := "restart -- kubelet.service ignore-chroot=1\n"; string(told) != want {
		t.Errorf("systemctl is told %q, want %q", told, want)
	}
	if info, err := os.Stat(filepath.Dir(installedConfig) + "/cloud.conf"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("cloud.conf: %v, %v", info, err)
	}
	zero := int64(0)
	if err := core.Pods(set.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Error(err)
	}
}

// installer is the DaemonSet with the component, as kustomize builds it.
func installer(t *testing.T, w *world) *appsv1.DaemonSet {
	t.Helper()
	dir := filepath.Join(state, "manifests")
	if err := os.CopyFS(dir, manifests.FS()); err != nil {
		t.Fatal(err)
	}
	write(t, "manifests/with-restart/kustomization.yaml", "resources: [../credential-provider]\ncomponents: [../components/credential-provider-restart]\n")
	out, err := w.plane.Kubectl(t)(t.Context(), "", "kustomize", filepath.Join(dir, "with-restart"))
	if err != nil {
		t.Fatal(err, out)
	}
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict([]byte(out), &set); err != nil {
		t.Fatal(err)
	}
	return &set
}

// checkUnusableFolders: a read-only file system, and one on which nothing runs.
func checkUnusableFolders(t *testing.T) {
	t.Helper()
	for name, tt := range map[string]struct {
		flags uintptr
		want  string
	}{
		"read-only": {syscall.MS_RDONLY, "read-only file system; choose directories that can be written to"},
		"noexec":    {syscall.MS_NOEXEC, "is it mounted noexec?"},
	} {
		dir := filepath.Join(state, name)
		if err := errors.Join(os.MkdirAll(dir, 0o755), syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755")); err != nil {
			t.Fatal(err)
		}
		for _, sub := range []string{"bin", "etc"} {
			if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|tt.flags, "mode=755"); err != nil {
			t.Fatal(err)
		}
		_, err := run(t, "isthmus-credential-provider", "install", "--bin-dir", dir+"/bin", "--config-dir", dir+"/etc")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
		entries, err := os.ReadDir(filepath.Join(dir, "bin"))
		if err != nil || len(entries) != 0 {
			t.Errorf("%s: %v is left, %v", name, entries, err)
		}
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(to), os.WriteFile(to, data, 0o755)) //nolint:gosec // a program
}
