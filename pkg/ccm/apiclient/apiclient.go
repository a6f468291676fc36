package apiclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// Config returns the configuration of the API server's client. flag is what names kubeconfig.
func Config(flag, kubeconfig, master string) (*rest.Config, error) {
	if kubeconfig == "" && master == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no API server: this process runs in no pod; name a kubeconfig with --kubeconfig")
		}
		if err != nil {
			return nil, fmt.Errorf("no API server: the pod's ServiceAccount cannot be used: %w", err)
		}
		return userAgent(config), nil
	}
	config, err := clientcmd.BuildConfigFromFlags(master, kubeconfig)
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("--%s %s: it names no API server: set clusters, users, contexts and current-context in it", flag, kubeconfig)
	case err != nil:
		return nil, fmt.Errorf("--%s %s: %w", flag, kubeconfig, err)
	}
	return userAgent(config), nil
}

func userAgent(config *rest.Config) *rest.Config {
	config.UserAgent = "isthmus-cloud-controller-manager/" + version.String()
	return config
}

// Named returns a copy of config whose requests carry name in their user agent, and whose
// clients have a rate limit of their own.
func Named(config *rest.Config, name string) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent += "/" + name
	return config
}

// retryEvery is the time between attempts to reach the API server at start.
const retryEvery = 500 * time.Millisecond

// ClusterUID returns the UID of the namespace kube-system, which tells clusters apart. It
// waits for an API server that does not answer yet until ctx ends.
func ClusterUID(ctx context.Context, client kubernetes.Interface) (string, error) {
	for {
		ns, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		switch {
		case err == nil:
			return string(ns.UID), nil
		case apierrors.IsUnauthorized(err):
			return "", fmt.Errorf("the API server does not accept our credentials: %w: renew those in the kubeconfig", err)
		case apierrors.IsForbidden(err):
			return "", fmt.Errorf("read namespace %s, whose UID names this cluster in the cloud: %w: apply the RBAC manifests", metav1.NamespaceSystem, err)
		}
		timer := time.NewTimer(retryEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			if apierrors.IsNotFound(err) {
				return "", fmt.Errorf("read namespace %s, whose UID names this cluster in the cloud: %w: check that --kubeconfig or --master name an API server", metav1.NamespaceSystem, err)
			}
			return "", fmt.Errorf("the API server cannot be reached: %w: check --kubeconfig, --master and the network", err)
		case <-timer.C:
		}
	}
}
