package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// Where the control plane's files are on its machine.
const (
	pki           = "/etc/kubernetes/pki/"
	managerConf   = "/etc/kubernetes/controller-manager.conf"
	schedulerConf = "/etc/kubernetes/scheduler.conf"
)

// writeControlPlane puts keys, certificates and kubeconfigs of the control plane onto its machine.
func (c *Cluster) writeControlPlane(m *Machine) error {
	serving, servingKey, err := c.ca.issue("kube-apiserver", nil, []string{m.Address.String(), apiIP.String(), "127.0.0.1", "localhost", "kubernetes.default.svc"})
	if err != nil {
		return err
	}
	client, clientKey, err := c.ca.issue("kube-apiserver-kubelet-client", []string{"system:masters"}, nil)
	if err != nil {
		return err
	}
	tokens, tokensKey, err := c.ca.issue("service-accounts", nil, nil)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt": c.ca.pem, "apiserver.crt": serving, "apiserver.key": servingKey, "kubelet-client.crt": client, "kubelet-client.key": clientKey,
		"sa.crt": tokens, "sa.key": tokensKey,
	} {
		if err := m.Write(pki+name, string(content)); err != nil {
			return err
		}
	}
	for file, user := range map[string]string{managerConf: "system:kube-controller-manager", schedulerConf: "system:kube-scheduler"} {
		if err := c.writeKubeconfig(m, file, user); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig puts a kubeconfig with a certificate of its own onto a machine.
func (c *Cluster) writeKubeconfig(m *Machine, file, user string, groups ...string) error {
	config, err := c.ca.client(c.server(), user, groups...)
	if err != nil {
		return err
	}
	data, err := clientcmd.Write(*controlplane.Kubeconfig(config))
	if err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return m.Write(file, string(data))
}

// server is the API server's URL.
func (c *Cluster) server() string { return fmt.Sprintf("https://%s:6443", c.Machines[0].Address) }

// startControlPlane starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and returns
// when the API answers.
func (c *Cluster) startControlPlane(ctx context.Context, m *Machine) error {
	for _, p := range [][]string{
		{"etcd", "--data-dir=/var/lib/etcd", "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:0", "--log-level=warn", "--unsafe-no-fsync"},
		{"kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--advertise-address=" + m.Address.String(), "--secure-port=6443",
			"--service-cluster-ip-range=" + serviceIPs.String(), "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
			"--client-ca-file=" + pki + "ca.crt", "--tls-cert-file=" + pki + "apiserver.crt", "--tls-private-key-file=" + pki + "apiserver.key",
			"--kubelet-client-certificate=" + pki + "kubelet-client.crt", "--kubelet-client-key=" + pki + "kubelet-client.key", "--kubelet-preferred-address-types=InternalIP,Hostname",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + pki + "sa.crt", "--service-account-signing-key-file=" + pki + "sa.key"},
	} {
		if err := m.Start(ctx, p[0], p[1:]...); err != nil {
			return err
		}
	}
	err := poll(ctx, time.Minute, func(ctx context.Context) error {
		return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("kube-apiserver is not ready %w: see %s", err, c.Logs())
	}
	// Before, they would not have their roles yet, and end.
	return errors.Join(
		m.Start(ctx, "kube-controller-manager", "--cloud-provider=external", "--kubeconfig="+managerConf, "--authentication-kubeconfig="+managerConf, "--authorization-kubeconfig="+managerConf,
			"--use-service-account-credentials=true", "--service-account-private-key-file="+pki+"sa.key", "--root-ca-file="+pki+"ca.crt", "--node-monitor-grace-period=20s", "--leader-elect=false"),
		m.Start(ctx, "kube-scheduler", "--kubeconfig="+schedulerConf, "--authentication-kubeconfig="+schedulerConf, "--authorization-kubeconfig="+schedulerConf, "--leader-elect=false"),
	)
}
