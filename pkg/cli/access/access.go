// Package access reaches the cluster and the cloud that a command asks about, as its flags name them, and lets nothing be changed
// in either, unless Flags.ChangeCloud says so: what would be written ends in dry runs.
package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/providers"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// Flags name a cluster and a cloud. The zero value is the cluster of the user's kubeconfig, and no cloud.
type Flags struct {
	// Kubeconfig and Context are as kubectl has them: empty for what its environment and files say.
	Kubeconfig, Context string
	// CloudProvider and CloudConfig are the controller manager's flags of these names.
	CloudProvider, CloudConfig string
	// ClusterName is the controller manager's flag of this name. It is empty for a command that has no use of it.
	ClusterName string
	// RequestTimeout bounds each request to the API server and to the cloud.
	RequestTimeout time.Duration
	// ChangeCloud lets the cloud be changed. It is no flag: a command sets it when its user has asked for a change.
	ChangeCloud bool
}

// AddTo adds the flags to a command's.
func (f *Flags) AddTo(fs *pflag.FlagSet) {
	f.AddClusterTo(fs)
	fs.StringVar(&f.CloudProvider, "cloud-provider", "", "the cloud: "+strings.Join(clouds(), ", "))
	fs.StringVar(&f.CloudConfig, "cloud-config", "", "the cloud's configuration file (cloud.conf), with the credentials of the controller manager")
	fs.Lookup("request-timeout").Usage = "bound of each request to the API server and to the cloud"
}

// AddClusterTo adds the flags to those of a command that asks no cloud.
func (f *Flags) AddClusterTo(fs *pflag.FlagSet) {
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig file; as with kubectl, $KUBECONFIG or ~/.kube/config where it is not given")
	fs.StringVar(&f.Context, "context", "", "context of the kubeconfig; its current one where it is not given")
	fs.DurationVar(&f.RequestTimeout, "request-timeout", 30*time.Second, "bound of each request")
}

// AddClusterNameTo adds --cluster-name to the flags of a command that asks about what is named after the cluster.
func (f *Flags) AddClusterNameTo(fs *pflag.FlagSet) {
	fs.StringVar(&f.ClusterName, "cluster-name", "kubernetes", "the cluster's name in what is made in the cloud, as the controller manager has it by its flag of this name")
}

func clouds() []string { return slices.Sorted(maps.Keys(providers.All())) }

// Validate says what is wrong with the flags of AddTo.
func (f *Flags) Validate() error {
	var errs []error
	if f.CloudProvider == "" {
		errs = append(errs, fmt.Errorf("--cloud-provider is missing; there are: %s", strings.Join(clouds(), ", ")))
	} else if _, err := providers.Named(f.CloudProvider); err != nil {
		errs = append(errs, fmt.Errorf("--cloud-provider: %w", err))
	}
	return errors.Join(append(errs, f.ValidateCluster())...)
}

// ValidateCluster says what is wrong with the flags of AddClusterTo.
func (f *Flags) ValidateCluster() error {
	if f.RequestTimeout <= 0 {
		return fmt.Errorf("--request-timeout %s: it must be greater than 0", f.RequestTimeout)
	}
	return nil
}

func (f *Flags) kubeconfig() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.Context})
}

// Namespace is that of the context, "default" where it has none.
func (f *Flags) Namespace() (string, error) {
	namespace, _, err := f.kubeconfig().Namespace()
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return namespace, nil
}

// Client returns a client of the API server, which stores nothing, and the configuration for others. An error is a Problem.
func (f *Flags) Client(ctx context.Context) (kubernetes.Interface, *rest.Config, error) {
	config, err := f.kubeconfig().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nil, &Problem{What: "no kubeconfig names a cluster", Next: "name a kubeconfig with --kubeconfig or $KUBECONFIG", err: err}
	}
	var client kubernetes.Interface
	if err == nil {
		config.UserAgent = userAgent()
		config.Timeout = f.RequestTimeout
		config.QPS, config.Burst = 50, 100
		apiclient.DryRun(config, klog.FromContext(ctx))
		client, err = kubernetes.NewForConfig(config)
	}
	if err != nil {
		return nil, nil, &Problem{What: "kubeconfig: " + err.Error(), Next: "correct the file, or name another with --kubeconfig or another context of it with --context; kubectl config get-contexts lists them", err: err}
	}
	return client, config, nil
}

// Cloud makes the cloud's Provider, which changes nothing unless f.ChangeCloud, and says in ctx's log what it would; Close ends what it has running. warnings are about its configuration,
// one line each; they may come with an error, which joins all that is wrong in it.
func (f *Flags) Cloud(ctx context.Context, client kubernetes.Interface) (p *decorate.Provider, warnings []string, err error) {
	factory, err := providers.Named(f.CloudProvider)
	if err != nil {
		return nil, nil, err
	}
	plain, warnings, err := factory(ctx, f.CloudConfig, cloud.Options{
		UserAgent: userAgent(), RequestTimeout: f.RequestTimeout, Kube: apiclient.NewKube(client), DryRun: !f.ChangeCloud,
	})
	if err != nil {
		return nil, warnings, err
	}
	counted, err := caller.NewMetrics(prometheus.NewRegistry()) // nobody reads them
	if err != nil {
		return nil, warnings, err
	}
	p, err = decorate.New(plain, caller.Options{Metrics: counted})
	return p, warnings, err
}

// Cluster is the cluster as the cloud's marks name it.
func (f *Flags) Cluster(ctx context.Context, client kubernetes.Interface, p *decorate.Provider) (cloud.Cluster, error) {
	ns, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return cloud.Cluster{}, Failed(ctx, client, "read namespace "+metav1.NamespaceSystem+", whose UID names this cluster in the cloud", err)
	}
	cluster := cloud.Cluster{Name: f.ClusterName, UID: string(ns.UID), ID: string(ns.UID)}
	if p.Identify != nil {
		if cluster.ID, err = p.Identify(ctx, cluster); err != nil {
			return cloud.Cluster{}, fmt.Errorf("what marks this cluster in cloud %s: %w", p.Name, err)
		}
	}
	return cluster, nil
}

// Account is a ServiceAccount.
type Account struct{ Namespace, Name string }

// String is NAMESPACE/NAME.
func (a Account) String() string { return a.Namespace + "/" + a.Name }

// ParseAccount reads NAMESPACE/NAME, the value of a flag.
func ParseAccount(flag, value string) (Account, error) {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Account{}, fmt.Errorf("--%s %.100q: it must be NAMESPACE/NAME", flag, value)
	}
	return Account{namespace, name}, nil
}

func userAgent() string { return "isthmus/" + version.String() }
