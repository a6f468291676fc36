package controlplane_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// endless, in the environment, makes TestEndedBySignal wait for its end.
const endless = "ISTHMUS_TEST_ENDLESS"

// TestEndedBySignal: a test that is told to end (Ctrl-C, a CI that cancels) leaves no
// kube-apiserver behind.
func TestEndedBySignal(t *testing.T) {
	if os.Getenv(endless) != "" {
		for range 2 { // several may run in one process
			fmt.Println("started", controlplane.Start(t).Config.Host)
		}
		<-t.Context().Done()
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), endless+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var hosts []string
	lines := bufio.NewScanner(out)
	for len(hosts) < 2 && lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "started https://"); ok {
			hosts = append(hosts, strings.TrimSuffix(address, "/"))
		}
	}
	if len(hosts) != 2 {
		t.Fatalf("control planes at %v, want two", hosts)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the test ended with %v, want that the signal ends it", err)
	}
	for _, host := range hosts {
		if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host); err == nil {
			_ = conn.Close()
			t.Errorf("kube-apiserver at %s is left behind", host)
		}
	}
}

func TestServiceAccountKubeconfig(t *testing.T) {
	cp := controlplane.Start(t)
	ctx := t.Context()
	v, err := cp.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kube-apiserver %s", v.GitVersion)

	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tester"}}
	if _, err := cp.Client.CoreV1().ServiceAccounts("default").Create(ctx, sa, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cfg, err := cp.ServiceAccountConfig(ctx, "default", "tester", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, cfg); err != nil {
		t.Fatal(err)
	}
	fromFile, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(fromFile)
	if err != nil {
		t.Fatal(err)
	}
	// RBAC is on: an account that was given nothing may list nothing.
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("list nodes as a ServiceAccount without rights: got %v, want Forbidden", err)
	}
}
