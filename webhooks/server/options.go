package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/webhooks/certs"
)

// DefaultPort is where the webhooks of a cloud controller manager are served.
const DefaultPort = 10260

// Options configures a Server. NewOptions gives the defaults; zero values of the durations
// and of MaxBodyBytes mean the defaults, too.
type Options struct {
	// BindAddress is the IP address to listen on; unspecified (0.0.0.0, ::) for all.
	BindAddress string
	// Port is where to listen; 0 turns the server off: nothing is bound and no certificate is needed.
	Port int
	// MinTLSVersion is VersionTLS12 or VersionTLS13.
	MinTLSVersion string
	// CipherSuites are those of TLS 1.2 that are accepted; empty for Go's choice.
	CipherSuites []string
	// CurvePreferences are the key exchange mechanisms, as numbers of tls.CurveID; empty for Go's choice.
	CurvePreferences []int32
	// DisableHTTP2 leaves HTTP/1.1 only.
	DisableHTTP2 bool
	// ClientCAFile holds the authorities of the clients that may ask webhooks; empty lets everyone ask.
	ClientCAFile string
	// ClientNames are the common names or DNS names of these clients' certificates; empty for any.
	ClientNames []string
	// ShutdownDelay is how long requests are still accepted after the end was asked for, with
	// readiness gone, so that load balancing turns away first.
	ShutdownDelay time.Duration
	// DrainTimeout is how long requests in flight may take after that.
	DrainTimeout time.Duration
	// RequestTimeout is the deadline of a request that names none.
	RequestTimeout time.Duration
	// MaxBodyBytes is the largest request body accepted.
	MaxBodyBytes int64

	// Certs has the certificate; required where the server is on. Start runs it.
	Certs certs.Source
	// Ready says whether the webhooks can do their work, e.g. the cloud.Provider's Ready; nil
	// for always. Once it has agreed it is not asked again: a webhook without its cloud still
	// says so better than no webhook does.
	Ready func(ctx context.Context) error
	// FailurePolicy is that of the webhook configurations, by webhook: what becomes of requests
	// that are too many at a time, or too large. With Ignore they pass, with a warning;
	// otherwise, and where this is nil, they are refused.
	FailurePolicy func(webhook string) admissionregistrationv1.FailurePolicyType
	// Metrics is where the server's metrics are registered; nil for controller-runtime's registry.
	Metrics prometheus.Registerer
	// Listener replaces BindAddress and Port where the caller has a socket already.
	Listener net.Listener
	// Clock is for ShutdownDelay, client certificates and what bodies may take to arrive; nil for
	// the real one.
	Clock clock.WithDelayedExecution
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		BindAddress:    "0.0.0.0",
		Port:           DefaultPort,
		MinTLSVersion:  "VersionTLS12",
		DrainTimeout:   20 * time.Second,
		RequestTimeout: 10 * time.Second,
		// etcd keeps objects of up to 1.5 MiB, and a review holds two of them at most.
		MaxBodyBytes: 3 << 20,
		Clock:        clock.RealClock{},
	}
}

// AddFlags adds the flags that set o, with o's values as defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, "webhook-bind-address", o.BindAddress,
		"IP address on which the webhooks are served; 0.0.0.0 or :: for all interfaces.")
	fs.IntVar(&o.Port, "webhook-secure-port", o.Port,
		"Port on which the webhooks are served with TLS; 0 turns webhook serving off.")
	fs.StringVar(&o.MinTLSVersion, "webhook-tls-min-version", o.MinTLSVersion,
		"Oldest TLS version that the webhook server accepts: VersionTLS12 or VersionTLS13.")
	fs.StringSliceVar(&o.CipherSuites, "webhook-tls-cipher-suites", o.CipherSuites,
		"Cipher suites that the webhook server accepts with TLS 1.2, comma-separated; Go's choice by default. "+
			"Those of TLS 1.3 are not for choosing, and insecure ones are refused.\nPossible: "+strings.Join(cliflag.PreferredTLSCipherNames(), ", "))
	fs.Int32SliceVar(&o.CurvePreferences, "webhook-tls-curve-preferences", o.CurvePreferences,
		"Key exchange mechanisms of the webhook server as numbers of Go's tls.CurveID, comma-separated; Go's choice by default.")
	fs.BoolVar(&o.DisableHTTP2, "webhook-disable-http2-serving", o.DisableHTTP2, "Serve webhooks over HTTP/1.1 only.")
	fs.StringVar(&o.ClientCAFile, "webhook-client-ca-file", o.ClientCAFile,
		"Only clients with a certificate of an authority in this file may ask webhooks: the API server must be given one "+
			"(--admission-control-config-file). The file is read again when it changes. Health endpoints stay open. "+
			"Without it, who reaches the port may ask.")
	fs.StringSliceVar(&o.ClientNames, "webhook-client-allowed-names", o.ClientNames,
		"With --webhook-client-ca-file, only clients whose certificate has one of these as common name or DNS name; empty for any.")
	fs.DurationVar(&o.ShutdownDelay, "webhook-shutdown-delay", o.ShutdownDelay,
		"How long webhooks are still served, already not ready, after the process was asked to end.")
}

// Enabled reports whether the server is to listen at all.
func (o *Options) Enabled() bool { return o.Port != 0 || o.Listener != nil }

// Validate returns all that is wrong with o, by flag. Options that turn the server off are
// checked only for their port.
func (o *Options) Validate() error {
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("--webhook-secure-port: %d is not a port; give one from 1 to 65535, or 0 to turn webhook serving off", o.Port)
	}
	if !o.Enabled() {
		return nil
	}
	var errs []error
	if net.ParseIP(o.BindAddress) == nil {
		errs = append(errs, fmt.Errorf("--webhook-bind-address: %q is not an IP address", o.BindAddress))
	}
	if _, err := o.tlsConfig(); err != nil {
		errs = append(errs, err)
	}
	if len(o.ClientNames) > 0 && o.ClientCAFile == "" {
		errs = append(errs, errors.New("--webhook-client-allowed-names requires --webhook-client-ca-file: without it no certificate is looked at"))
	}
	if slices.Contains(o.ClientNames, "") {
		errs = append(errs, errors.New("--webhook-client-allowed-names: a name is empty; remove the comma too many"))
	}
	if o.ShutdownDelay < 0 {
		errs = append(errs, fmt.Errorf("--webhook-shutdown-delay: %s is negative", o.ShutdownDelay))
	}
	return errors.Join(errs...)
}

// withDefaults returns o with the defaults in place of zero values.
func (o Options) withDefaults() Options {
	d := NewOptions()
	setDefault(&o.BindAddress, d.BindAddress)
	setDefault(&o.MinTLSVersion, d.MinTLSVersion)
	setDefault(&o.DrainTimeout, d.DrainTimeout)
	setDefault(&o.RequestTimeout, d.RequestTimeout)
	setDefault(&o.MaxBodyBytes, d.MaxBodyBytes)
	setDefault(&o.Clock, d.Clock)
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Hosts are what certificates must be for where API servers call by URL: on the same host,
// or the address bound.
func (o *Options) Hosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if ip := net.ParseIP(o.BindAddress); ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
		hosts = append(hosts, ip.String())
	}
	return hosts
}
