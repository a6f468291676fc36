package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Source has the certificate that webhooks are served with, and keeps it valid. It is safe
// for concurrent use.
type Source interface {
	// GetCertificate is for tls.Config. It fails while there is no certificate yet.
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	// CABundle returns, as PEM, every CA that clients are to trust from now on: also one whose
	// certificates are served later, and one whose certificates are still served. It is empty
	// while none is known.
	CABundle() []byte
	// NotAfter returns when the certificate expires; zero while there is none.
	NotAfter() time.Time
	// Err returns nil while the certificate is valid, and otherwise what to do about it.
	Err() error
	// Run keeps the certificate valid until ctx ends.
	Run(ctx context.Context) error
}

// Where certificates come from, as --webhook-cert-source names it.
const (
	SourceFiles       = "files"
	SourceSelfManaged = "self-managed"
	SourceCertManager = "cert-manager"
)

// Options say where certificates come from.
type Options struct {
	// Source is one of the Source constants.
	Source string
	// Dir is where SourceFiles finds tls.crt, tls.key and, optionally, ca.crt.
	Dir string
	// Secret is NAMESPACE/NAME of the Secret in which the other sources keep the certificate.
	Secret string
	// Issuer is [KIND[.GROUP]/]NAME of the issuer that SourceCertManager uses; empty for a CA
	// of its own.
	Issuer string
	// InjectCA says that cert-manager's cainjector writes caBundle as well.
	InjectCA bool

	// Hosts are the DNS names and IP addresses that an issued certificate is for.
	Hosts []string
	// Overlap is how long CABundle has a new CA before a certificate of it is served, where
	// somebody else issues them: as long as who takes CABundle needs to pass it on, 0 where
	// nobody takes it. The CA of SourceSelfManaged has an overlap of its own.
	Overlap time.Duration
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{Source: SourceFiles, Secret: "kube-system/isthmus-webhook-tls"}
}

// AddFlags adds the flags that set o, with o's values as defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Source, "webhook-cert-source", o.Source,
		"Where the webhook server's certificate comes from: 'files' reads --webhook-cert-dir, "+
			"'self-managed' issues and renews it, by a CA of its own, in --webhook-cert-secret, "+
			"'cert-manager' has cert-manager do that.")
	fs.StringVar(&o.Dir, "webhook-cert-dir", o.Dir,
		"Directory with tls.crt, tls.key and, optionally, ca.crt of the webhook server; they are read again when they change. "+
			"For --webhook-cert-source=files, which needs it.")
	fs.StringVar(&o.Secret, "webhook-cert-secret", o.Secret,
		"NAMESPACE/NAME of the Secret that keeps the certificate for all replicas, unless --webhook-cert-source=files.")
	fs.StringVar(&o.Issuer, "webhook-cert-manager-issuer", o.Issuer,
		"[KIND[.GROUP]/]NAME of the issuer with --webhook-cert-source=cert-manager, for example ClusterIssuer/my-ca; an Issuer without KIND. "+
			"If empty, cert-manager makes a CA for the webhooks alone.")
	fs.BoolVar(&o.InjectCA, "webhook-cert-manager-inject-ca", o.InjectCA,
		"With --webhook-cert-source=cert-manager and --webhook-registration=auto: have cert-manager's cainjector write caBundle as well.")
}

// Validate returns all that is wrong with o, by flag.
func (o *Options) Validate() error {
	switch o.Source {
	case SourceFiles:
		if err := o.onlyCertManager(); err != nil {
			return err
		}
		if o.Dir == "" {
			return errors.New("--webhook-cert-dir: required while webhooks are served with --webhook-cert-source=files; " +
				"name a directory with tls.crt and tls.key, or choose --webhook-cert-source=self-managed")
		}
		return nil
	case SourceSelfManaged, SourceCertManager:
	default:
		return fmt.Errorf("--webhook-cert-source: %q is not one of %s, %s, %s", o.Source, SourceFiles, SourceSelfManaged, SourceCertManager)
	}
	_, err := parseIssuer(o.Issuer)
	errs := []error{err}
	if o.Dir != "" {
		errs = append(errs, fmt.Errorf("--webhook-cert-dir: not read with --webhook-cert-source=%s; leave it out", o.Source))
	}
	if o.Source != SourceCertManager {
		errs = append(errs, o.onlyCertManager())
	}
	if _, err := o.secret(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// onlyCertManager refuses what only SourceCertManager reads.
func (o *Options) onlyCertManager() error {
	if o.Issuer != "" || o.InjectCA {
		return fmt.Errorf("--webhook-cert-manager-issuer and --webhook-cert-manager-inject-ca: not read with --webhook-cert-source=%s; leave them out", o.Source)
	}
	return nil
}

// secret parses Secret.
func (o *Options) secret() (types.NamespacedName, error) {
	namespace, name, _ := strings.Cut(o.Secret, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("--webhook-cert-secret: %q is not NAMESPACE/NAME of a Secret", o.Secret)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// New returns the Source that o, which Validate has accepted, names. It reads files, but uses
// no network; config is for the API server, with whatever limits its clients have.
func New(ctx context.Context, o Options, config *rest.Config) (Source, error) {
	if o.Source == SourceFiles {
		return LoadFiles(ctx, FilesOptions{Dir: o.Dir, Overlap: o.Overlap})
	}
	secret, err := o.secret()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent += "/webhook-certs"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("webhook certificate: client of the API server: %w", err)
	}
	if o.Source == SourceCertManager {
		issuer, err := parseIssuer(o.Issuer)
		if err != nil {
			return nil, err
		}
		objects, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("webhook certificate: client of the API server: %w", err)
		}
		return NewCertManager(client, objects, CertManagerOptions{Secret: secret, Issuer: issuer, Hosts: o.Hosts, Overlap: o.Overlap}), nil
	}
	return NewSelfManaged(client, SelfManagedOptions{Secret: secret, Hosts: o.Hosts}), nil
}

// splitHosts tells DNS names from IP addresses.
func splitHosts(hosts []string) (names []string, ips []net.IP) {
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			ips = append(ips, ip)
		} else {
			names = append(names, h)
		}
	}
	return names, ips
}
