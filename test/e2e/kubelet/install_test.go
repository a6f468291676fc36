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

// checkInstall: the DaemonSet of the manifests, with the component that restarts the kubelet,
// installs what a kubelet then pulls private images with.
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
	container := &set.Spec.Template.Spec.Containers[0]
	container.Image, container.ImagePullPolicy = image, corev1.PullNever
	if _, err := w.plane.Client.AppsV1().DaemonSets(set.Namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := bindPod(t, w, set.Namespace)
	var told []byte
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		told, _ = os.ReadFile(filepath.Join(state, "systemctl")) // the last step
		return len(told) > 0, nil
	})
	if err != nil {
		now, getErr := core.Pods(set.Namespace).Get(t.Context(), pod, metav1.GetOptions{})
		t.Fatalf("the installer does not end its work: %v: %+v (%v)", err, now.Status.ContainerStatuses, getErr)
	}
	if want := "restart -- kubelet.service ignore-chroot=1\n"; !strings.HasPrefix(string(told), want) {
		t.Errorf("systemctl is told %q first, want %q", told, want)
	}
	if info, err := os.Stat(filepath.Dir(installedConfig) + "/cloud.conf"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("cloud.conf: %v, %v", info, err)
	}
	if err := w.plane.Client.AppsV1().DaemonSets(set.Namespace).Delete(t.Context(), set.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	zero := int64(0)
	if err := core.Pods(set.Namespace).Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Error(err)
	}
}

// bindPod waits for the DaemonSet's pod and binds it to the node, in place of a scheduler, which is all that
// this cluster lacks.
func bindPod(t *testing.T, w *world, namespace string) (name string) {
	t.Helper()
	pods := w.plane.Client.CoreV1().Pods(namespace)
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=credential-provider"})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		name = list.Items[0].Name
		return true, nil
	})
	if err != nil {
		t.Fatalf("the DaemonSet has no pod: %v", err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
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

// checkUnusableFolders: file systems that are read-only, full, or without programs.
func checkUnusableFolders(t *testing.T) {
	t.Helper()
	for name, tt := range map[string]struct {
		flags   uintptr
		options string
		want    string
	}{
		"read-only": {syscall.MS_RDONLY, "mode=755", "read-only file system; choose directories that can be written to"},
		"noexec":    {syscall.MS_NOEXEC, "mode=755", "is it mounted noexec?"},
		"full":      {0, "mode=755,size=1m", "was not replaced: write " + state + "/full/bin/.isthmus-install-isthmus-credential-provider.new: no space left on device"},
	} {
		dir := filepath.Join(state, name)
		if err := errors.Join(os.MkdirAll(dir, 0o755), syscall.Mount("tmpfs", dir, "tmpfs", 0, tt.options)); err != nil {
			t.Fatal(err)
		}
		for _, sub := range []string{"bin", "etc"} {
			if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|tt.flags, tt.options); err != nil {
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
