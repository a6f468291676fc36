package manifests_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
)

const providerDir = "credential-provider"

// TestCredentialProviderPieces: the DaemonSet that puts the credential provider on nodes has what it
// needs, and no more.
func TestCredentialProviderPieces(t *testing.T) {
	set := find[*appsv1.DaemonSet](t, build(t, providerDir))
	pod, secret := set.Spec.Template.Spec, find[*corev1.Secret](t, decode(t, read(t, "examples/credential-provider-secret.yaml")))
	container := pod.Containers[0]
	security := container.SecurityContext
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || security.Privileged != nil ||
		!slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(security.Capabilities.Add) != 0 || pod.HostPID || pod.HostIPC || *pod.AutomountServiceAccountToken {
		t.Errorf("it has more rights than it needs: %+v", security)
	}
	if set.Namespace != secret.Namespace || set.Namespace != manifests.Namespace {
		t.Errorf("it is in namespace %s, its Secret in %s", set.Namespace, secret.Namespace)
	}
	paths := map[string]string{} // of mounts, by volume
	for _, m := range container.VolumeMounts {
		paths[m.Name] = m.MountPath
	}
	for _, v := range pod.Volumes {
		switch {
		case v.Secret != nil && v.Secret.SecretName != secret.Name:
			t.Errorf("it mounts Secret %s, not %s", v.Secret.SecretName, secret.Name)
		case v.HostPath != nil && (v.HostPath.Path != paths[v.Name] || !slices.Contains(container.Args, "--"+v.Name+"="+v.HostPath.Path)):
			t.Errorf("the node's %s is mounted as %s, and the args are %v", v.HostPath.Path, paths[v.Name], container.Args)
		}
	}
	if len(pod.Volumes) != 3 || !slices.Contains(container.Args, "--from="+paths["from"]) {
		t.Errorf("volumes %v, args %v", pod.Volumes, container.Args)
	}
}

// TestCredentialProviderInstalls: the binary takes the DaemonSet's args, and the example's files.
func TestCredentialProviderInstalls(t *testing.T) {
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../cmd/credential-provider")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	secret := find[*corev1.Secret](t, decode(t, read(t, "examples/credential-provider-secret.yaml")))
	for name, content := range secret.StringData {
		path := filepath.Join(dir, "from", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		content = strings.ReplaceAll(content, "=/etc/", "="+dir+"/etc/")
		content = strings.ReplaceAll(content, ": /etc/", ": "+dir+"/etc/")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var args []string
	for _, a := range workload(t, decode(t, read(t, providerDir+"/daemonset.yaml"))).Spec.Containers[0].Args {
		if name, path, ok := strings.Cut(a, "=/"); ok {
			a = name + "=" + filepath.Join(dir, path)
		}
		if !strings.HasPrefix(a, "--every") {
			args = append(args, a)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "credential-provider"), args...).CombinedOutput() //nolint:gosec // our own binary
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for file, mode := range map[string]fs.FileMode{"opt/isthmus/credential-providers/isthmus-credential-provider": 0o755, "etc/isthmus/credential-provider/cloud.conf": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestCredentialProviderRestart: the component adds what a restart of the kubelet takes.
func TestCredentialProviderRestart(t *testing.T) {
	restart := workload(t, build(t, providerDir, "credential-provider-restart")).Spec
	container := restart.Containers[0]
	if args := container.Args[len(container.Args)-2:]; !slices.Equal(args, []string{"--restart-unit=kubelet.service", "--host-root=/host"}) {
		t.Errorf("args %v", args)
	}
	if add := container.SecurityContext.Capabilities.Add; !slices.Equal(add, []corev1.Capability{"SYS_CHROOT"}) {
		t.Errorf("capabilities %v", add)
	}
	if n := len(container.VolumeMounts); container.VolumeMounts[n-1].MountPath != "/host" || !container.VolumeMounts[n-1].ReadOnly || restart.Volumes[len(restart.Volumes)-1].HostPath.Path != "/" {
		t.Errorf("mounts %v", container.VolumeMounts)
	}
}
