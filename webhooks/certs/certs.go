package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/spf13/pflag"
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

// Options say where certificates come from.
type Options struct {
	// Dir holds tls.crt, tls.key and, optionally, ca.crt. Where it has none of them, they are
	// generated for Hosts.
	Dir string
	// Hosts are the DNS names and IP addresses that the certificate is for.
	Hosts []string
}

// AddFlags adds the flags that set o, with o's values as defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Dir, "webhook-cert-dir", o.Dir,
		"Directory with tls.crt, tls.key and, optionally, ca.crt of the webhook server; they are read again when they change. "+
			"If it has none of them, a CA (ca.crt) and a certificate for the Service's DNS names are generated into it.")
}

// Validate returns all that is wrong with o, by flag.
func (o *Options) Validate() error {
	if o.Dir == "" {
		return errors.New("--webhook-cert-dir: required while webhooks are served; " +
			"name a directory with tls.crt and tls.key, or an empty one into which they are generated")
	}
	return nil
}

// New returns the Source that o, which Validate has accepted, names.
func New(o Options) (Source, error) {
	names, ips := splitHosts(o.Hosts)
	return LoadFiles(FilesOptions{Dir: o.Dir, DNSNames: names, IPAddresses: ips})
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
