package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// routed are the manager's flags for pod routes.
func routed() []string {
	return []string{"--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true", "--configure-cloud-routes=true", "--route-reconciliation-period=2s"}
}

func (w *world) startCluster(ctx context.Context) (string, error) {
	cp, err := controlplane.Run(controlplane.Options{})
	if err != nil {
		return "", err
	}
	w.onClose(cp.Stop)
	w.cluster = cp
	w.admin = w.file("kubeconfig")
	if err := controlplane.WriteKubeconfig(w.admin, cp.Config); err != nil {
		return "", err
	}
	version, err := cp.Client.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	return version.GitVersion, nil
}

// startManager applies the RBAC that ships and runs the binary with a token of its
// ServiceAccount, as a DaemonSet would.
func (w *world) startManager(ctx context.Context) (string, error) {
	for _, read := range []func() ([]byte, error){manifests.RBAC, manifests.RegistrationRBAC, manifests.SelfManagedRBAC} {
		rbac, err := read()
		if err != nil {
			return "", err
		}
		if err := w.cluster.Apply(ctx, rbac); err != nil {
			return "", err
		}
	}
	cfg, err := w.cluster.ServiceAccountConfig(ctx, manifests.Namespace, manifests.ServiceAccount, 12*time.Hour)
	if err != nil {
		return "", err
	}
	if err := controlplane.WriteKubeconfig(w.file("ccm.kubeconfig"), cfg); err != nil {
		return "", err
	}
	cloud := []string{"--cloud-provider=" + w.scene.provider}
	if w.scene.conf != "" {
		if err := os.WriteFile(w.file("cloud.conf"), []byte(w.scene.conf), 0o600); err != nil {
			return "", err
		}
		cloud = append(cloud, "--cloud-config="+w.file("cloud.conf"))
	}
	port, err := controlplane.FreePort("127.0.0.1")
	if err != nil {
		return "", err
	}
	webhookPort, err := controlplane.FreePort("127.0.0.1")
	if err != nil {
		return "", err
	}
	exited, err := w.start("cloud-controller-manager", slices.Concat(cloud, w.scene.args, []string{
		"--kubeconfig=" + w.file("ccm.kubeconfig"),
		"--authentication-kubeconfig=" + w.file("ccm.kubeconfig"),
		"--authorization-kubeconfig=" + w.file("ccm.kubeconfig"),
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		"--cert-dir=" + w.file("serving"),
		"--webhooks=*",
		"--webhook-bind-address=127.0.0.1",
		"--webhook-secure-port=" + webhookPort,
		"--webhook-registration=auto",
		"--webhook-url=https://127.0.0.1:" + webhookPort,
		"--webhook-cert-source=self-managed",
		"--node-monitor-period=1s",
		"--v=2",
	})...)
	if err != nil {
		return "", err
	}
	url := fmt.Sprintf("https://127.0.0.1:%s/readyz", port)
	if err := w.awaitReady(ctx, url, exited); err != nil {
		return "", err
	}
	return "ready: " + url, nil
}

// awaitReady waits until url answers 200 or the process ends.
func (w *world) awaitReady(ctx context.Context, url string, exited <-chan error) error {
	client := insecureClient()
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := eventually(ctx, func(ctx context.Context) error {
		select {
		case err := <-exited:
			err = fmt.Errorf("the controller manager ended: %w", errors.Join(err, errors.New("see its log")))
			cancel(err)
			return err
		default:
		}
		return get(ctx, client, url)
	})
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return cause
	}
	return err
}

// get is nil when url answers 200.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}

// insecureClient talks to the manager's self-signed health port.
func insecureClient() *http.Client {
	t, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Timeout: 5 * time.Second})
	if err != nil {
		return http.DefaultClient
	}
	return t
}

// lookAround prints what a curious user may type.
func (w *world) lookAround() {
	kubectl := w.bin + "/kubectl --kubeconfig " + w.admin
	fmt.Println("\nLook around (in another terminal):")
	lines := []string{
		"export KUBECTL='" + kubectl + "'",
		"$KUBECTL get nodes -o wide --show-labels",
		"$KUBECTL describe node " + w.scene.machines[0].name,
		"$KUBECTL get pv -o yaml",
		"$KUBECTL delete mutatingwebhookconfiguration isthmus; sleep 3; $KUBECTL get mutatingwebhookconfiguration",
		"$KUBECTL get events -A",
		"tail -f " + w.file("cloud-controller-manager.log"),
	}
	if w.scene.conf != "" {
		lines = append(lines, "cat "+w.file("cloud.conf"))
	}
	for _, line := range slices.Concat(lines, w.scene.look) {
		fmt.Println("  " + line)
	}
	if w.scene.balances {
		fmt.Println("\nAnother Service of type LoadBalancer gets an address too:")
		fmt.Println("  $KUBECTL create service loadbalancer mine --tcp=8081:8081 && $KUBECTL get service mine -w")
	}
	fmt.Println(strings.Repeat("─", 60) + "\nCtrl-C ends everything and cleans up.")
}
