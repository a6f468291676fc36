// Package controlplane starts a real etcd and a real kube-apiserver on loopback, for
// tests and for the quickstart. The binaries come from $KUBEBUILDER_ASSETS or, without
// it, from the repository's bin/ (make bin/etcd bin/kube-apiserver).
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Options of a control plane; the zero value is usable.
type Options struct {
	// APIServerArgs are set on kube-apiserver (without the leading dashes), replacing defaults.
	APIServerArgs map[string][]string
	// Audit has kube-apiserver log all writes, and what ServiceAccounts ask for; see ControlPlane.Writes and Requests.
	Audit bool
	// DataDir is where etcd has its data, which stay when it stops. Empty is a folder that goes with it.
	DataDir string
	// Output shows what etcd and kube-apiserver print on this process's stdout and stderr.
	Output bool
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Config is a client configuration with all rights (group system:masters), without a
	// client-side rate limit.
	Config *rest.Config
	// Client is a client of Config.
	Client *kubernetes.Clientset

	env   *envtest.Environment
	audit *audit // nil without Options.Audit
}

// Run starts etcd and kube-apiserver, which takes 3 to 5 s, and returns when the API
// answers. The caller must Stop it.
func Run(o Options) (*ControlPlane, error) {
	assets, err := assetsDir()
	if err != nil {
		return nil, err
	}
	existing := false
	env := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		UseExistingCluster:       &existing,
		AttachControlPlaneOutput: o.Output,
		ControlPlaneStartTimeout: 2 * time.Minute, // a busy machine of two cores takes its time
		ControlPlaneStopTimeout:  time.Minute,
	}
	if o.DataDir != "" {
		env.ControlPlane.Etcd = &envtest.Etcd{DataDir: o.DataDir}
	}
	args := env.ControlPlane.GetAPIServer().Configure()
	for name, values := range o.APIServerArgs {
		args.Set(name, values...)
	}
	c := &ControlPlane{env: env}
	if o.Audit {
		if c.audit, err = newAudit(func(name string, values ...string) { args.Set(name, values...) }); err != nil {
			return nil, err
		}
	}
	if c.Config, err = env.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the control plane: %w", err), c.Stop())
	}
	c.Config.QPS = -1 // no client-side limit
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Start is Run for a test or benchmark: it fails t on errors and stops with it, also when
// the process is told to end.
func Start(t testing.TB, options ...Options) *ControlPlane {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	cp, err := Run(o)
	if err != nil {
		t.Fatalf("control plane: %v", err)
	}
	unwatch := cp.stopOnSignal()
	t.Cleanup(func() {
		unwatch()
		if err := cp.Stop(); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	return cp
}

// stopOnSignal stops c before a signal ends this process: etcd and kube-apiserver are process
// groups of their own and would stay behind. The returned function ends the watch.
func (c *ControlPlane) stopOnSignal() (unwatch func()) {
	signals, done, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(ended)
		defer signal.Stop(signals)
		select {
		case <-done:
		case s := <-signals:
			_ = c.Stop() // nobody is left to tell
			signal.Stop(signals)
			// Once nobody else waits for it, the signal does what it does to any process.
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Signal(s)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// Stop ends kube-apiserver and etcd and removes their data.
func (c *ControlPlane) Stop() error { return errors.Join(c.env.Stop(), c.audit.remove()) }

// ServiceAccountConfig returns a client configuration that acts as an existing
// ServiceAccount, with a token of its own from the TokenRequest API, valid for ttl (at
// least 10 minutes).
func (c *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string, ttl time.Duration) (*rest.Config, error) {
	seconds := int64(max(ttl, 10*time.Minute).Seconds())
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, req, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	cfg := rest.AnonymousClientConfig(c.Config)
	cfg.BearerToken = token.Status.Token
	return cfg, nil
}

// UserConfig returns a client configuration, with a certificate, for a user in groups: a node
// is system:node:NAME in system:nodes.
func (c *ControlPlane) UserConfig(name string, groups ...string) (*rest.Config, error) {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("certificate of user %s: %w", name, err)
	}
	return user.Config(), nil
}

// Kubeconfig is a kubeconfig for cfg, which must carry its credentials inline.
func Kubeconfig(cfg *rest.Config) *clientcmdapi.Config {
	k := clientcmdapi.NewConfig()
	k.Clusters["isthmus"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	k.AuthInfos["isthmus"] = &clientcmdapi.AuthInfo{
		Token:                 cfg.BearerToken,
		ClientCertificateData: cfg.CertData,
		ClientKeyData:         cfg.KeyData,
	}
	k.Contexts["isthmus"] = &clientcmdapi.Context{Cluster: "isthmus", AuthInfo: "isthmus"}
	k.CurrentContext = "isthmus"
	return k
}

// WriteKubeconfig writes a kubeconfig file (mode 0600) for cfg, as Kubeconfig makes it.
func WriteKubeconfig(file string, cfg *rest.Config) error {
	if err := clientcmd.WriteToFile(*Kubeconfig(cfg), file); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", file, err)
	}
	return nil
}

// assetsDir returns the folder that holds etcd and kube-apiserver.
func assetsDir() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		root, err := repositoryRoot()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, "bin")
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("no %s in %s: run `make bin/etcd bin/kube-apiserver`, or set KUBEBUILDER_ASSETS to a folder that has both", name, dir)
		}
	}
	return dir, nil
}

// repositoryRoot is the nearest folder above the working directory that holds go.mod.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside the Isthmus repository (no go.mod found): run from a checkout, or set KUBEBUILDER_ASSETS")
		}
		dir = parent
	}
}
