package registration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

// The values of --webhook-registration.
const (
	// None leaves the configurations to others.
	None = "none"
	// Auto keeps them in the cluster.
	Auto = "auto"
	// Remove removes them.
	Remove = "remove"
)

// Options say how webhooks are registered. NewOptions gives the defaults.
type Options struct {
	// Mode is None, Auto or Remove.
	Mode string
	// URL, as https://host:port, is where the API server calls; empty for the Service.
	URL string
	// ServicePort is the Service's port.
	ServicePort int
	// FailurePolicies are what --webhook-failure-policy says: Ignore or Fail, and name=Ignore or
	// name=Fail for single webhooks.
	FailurePolicies []string
	// Timeout is how long the API server waits for an answer: whole seconds, 1 to 30.
	Timeout time.Duration

	// Service is what the API server calls without a URL.
	Service webhooks.Service
	// Webhooks are those that are served, for Environment.
	Webhooks    []webhooks.Webhook
	Environment webhooks.Environment
	// CABundle returns the CAs, as PEM, that the API server is to trust; nil for its own roots.
	CABundle func() []byte
	// InjectCAFrom is the cert-manager Certificate, as namespace/name, from which cert-manager's
	// cainjector adds CAs to the caBundle and takes them away when they have expired; empty where
	// replicas do that, who leave it to cainjector then.
	InjectCAFrom string
	// Ready returns nil while this replica serves. Nothing is registered before.
	Ready func(ctx context.Context) error
	// Failed is told, each time that it is tried, why the configurations are not as wanted, for people to read; nil tells nobody.
	// object is kind/name, in small letters.
	Failed func(object, reason, message string)
	// Client is for the API server.
	Client kubernetes.Interface
	// Metrics is where the metrics are registered; nil for controller-runtime's registry.
	Metrics prometheus.Registerer
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		Mode: None, ServicePort: 443, FailurePolicies: []string{string(admissionregistrationv1.Ignore)}, Timeout: 10 * time.Second,
		Service: webhooks.DefaultService(),
	}
}

// AddFlags adds the flags that set o, with o's values as defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Mode, "webhook-registration", o.Mode,
		"Who tells the API server of the webhooks: 'none' leaves it to you, 'auto' keeps the webhook configurations \""+Name+"\" in the cluster as the other flags want them, "+
			"'remove' removes them; with neither controllers nor webhooks turned on, the process ends after that.")
	fs.StringVar(&o.URL, "webhook-url", o.URL,
		"Where the API server calls the webhooks, as https://host:port, in webhook configurations of --webhook-registration=auto; the Service by default.")
	fs.IntVar(&o.ServicePort, "webhook-service-port", o.ServicePort,
		"Port of the Service through which the API server calls the webhooks, in webhook configurations of --webhook-registration=auto.")
	fs.StringSliceVar(&o.FailurePolicies, "webhook-failure-policy", o.FailurePolicies,
		"What becomes of a request when no replica answers: Ignore lets it pass, Fail refuses it. name=Ignore and name=Fail say it for one webhook. "+
			"A webhook that cannot judge because the cloud does not answer does the same. "+
			"Configurations of --webhook-registration=auto have it; give it as well when yours say Fail.")
	fs.DurationVar(&o.Timeout, "webhook-timeout", o.Timeout,
		"How long the API server waits for a webhook's answer, 1s to 30s, in webhook configurations of --webhook-registration=auto.")
}

// Validate returns all that is wrong with the flags' values, by flag; names are those of
// all webhooks that exist.
func (o *Options) Validate(names []string) error {
	var errs []error
	if !slices.Contains([]string{None, Auto, Remove}, o.Mode) {
		errs = append(errs, fmt.Errorf("--webhook-registration: %q is not one of %s, %s, %s", o.Mode, None, Auto, Remove))
	}
	if o.URL != "" {
		errs = append(errs, checkURL(o.URL))
	}
	if msgs := validation.IsValidPortNum(o.ServicePort); len(msgs) > 0 {
		errs = append(errs, fmt.Errorf("--webhook-service-port: %d: %s", o.ServicePort, strings.Join(msgs, "; ")))
	}
	for _, item := range o.FailurePolicies {
		errs = append(errs, checkPolicy(item, names))
	}
	if o.Timeout < time.Second || o.Timeout > 30*time.Second || o.Timeout%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--webhook-timeout: %s: the API server knows whole seconds from 1s to 30s", o.Timeout))
	}
	return errors.Join(errs...)
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return errors.New("--webhook-url: it is no URL; give it as https://host:port")
	}
	if u.User != nil {
		return errors.New("--webhook-url: it must not carry a user or password; give it as https://host:port")
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("--webhook-url: %q: give it as https://host:port; the path is each webhook's own", s)
	}
	return nil
}

func checkPolicy(item string, names []string) error {
	name, policy, single := strings.Cut(item, "=")
	if !single {
		name, policy = "", item
	}
	if single && !slices.Contains(names, name) {
		return fmt.Errorf("--webhook-failure-policy: %q: unknown webhook %q; known are %s", item, name, strings.Join(names, ", "))
	}
	if p := admissionregistrationv1.FailurePolicyType(policy); p != admissionregistrationv1.Ignore && p != admissionregistrationv1.Fail {
		return fmt.Errorf("--webhook-failure-policy: %q: give Ignore or Fail, or name=Ignore or name=Fail", item)
	}
	return nil
}

// FailurePolicy returns the policy of the webhook name: its own, or the one for all, or
// Ignore. Of several, the last counts.
func (o *Options) FailurePolicy(name string) admissionregistrationv1.FailurePolicyType {
	all, own := string(admissionregistrationv1.Ignore), ""
	for _, item := range o.FailurePolicies {
		if n, policy, single := strings.Cut(item, "="); !single {
			all = item
		} else if n == name {
			own = policy
		}
	}
	return admissionregistrationv1.FailurePolicyType(cmp.Or(own, all))
}

// Hosts returns the host of URL, for which the certificate must be as well; empty without a URL.
func (o *Options) Hosts() []string {
	u, err := url.Parse(o.URL)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	return []string{u.Hostname()}
}
