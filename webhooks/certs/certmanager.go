package certs

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
)

// CertManagerOptions say which certificate cert-manager is to issue.
type CertManagerOptions struct {
	// Secret is where cert-manager puts the certificate. The Certificate has the same name.
	Secret types.NamespacedName
	// Issuer issues it; the zero value for a CA of its own, which cert-manager keeps, too.
	Issuer cmmeta.IssuerReference
	// Hosts are DNS names and IP addresses.
	Hosts []string
	// Overlap is how long a new CA is in CABundle before a certificate of it is served; 0 for
	// at once.
	Overlap time.Duration
	// Interval is how often is looked at what cert-manager does while there is no valid
	// certificate; 0 means 5 s.
	Interval time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// CertManager is the Source of a certificate that cert-manager issues into a Secret. It asks
// for it with objects of its own, touches no others, and repairs them; any number of
// replicas do the same.
type CertManager struct {
	*adopter
	opts    CertManagerOptions
	objects *cmObjects
	watch   secretWatch

	// Only Run's goroutine uses what follows.
	asked time.Time // when the objects were last brought to what they must be
}

var _ Source = (*CertManager)(nil)

// askEvery is how often the objects are compared with what they must be once all is well.
const askEvery = 5 * time.Minute

// NewCertManager makes a CertManager. It uses no network.
func NewCertManager(client kubernetes.Interface, objects dynamic.Interface, o CertManagerOptions) *CertManager {
	if o.Interval == 0 {
		o.Interval = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	h := newHeld("Secret "+o.Secret.String(), "cert-manager has not renewed it: see its logs", o.Now)
	return &CertManager{
		adopter: &adopter{held: h, overlap: o.Overlap}, opts: o,
		objects: &cmObjects{client: objects, name: o.Secret, issuer: o.Issuer, hosts: o.Hosts},
		watch:   watchSecret(client, o.Secret),
	}
}

// Run asks cert-manager for the certificate and follows the Secret until ctx ends.
func (c *CertManager) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("secret", c.opts.Secret.String()))
	return runWatch(ctx, c.watch, c.opts.Interval, c.reconcile)
}

func (c *CertManager) reconcile(ctx context.Context) {
	err := c.step(ctx)
	var waiting *waitingError
	if errors.As(err, &waiting) {
		klog.FromContext(ctx).Info("Waiting for cert-manager", "object", waiting.object, "state", waiting.state)
		c.waits(err)
		return
	}
	c.problem(ctx, err)
}

// step takes what the Secret holds, and asks for what it lacks.
func (c *CertManager) step(ctx context.Context) error {
	secret, err := c.watch.get()
	if err != nil {
		return err
	}
	if secret != nil && secret.Annotations[certmanagerv1.CertificateNameKey] != c.opts.Secret.Name {
		return fmt.Errorf("the Secret is not of cert-manager's Certificate %s, so it stays as it is; delete it, or name another with --webhook-cert-secret", c.opts.Secret)
	}
	taken := c.take(ctx, secret)
	if taken == nil && c.Err() == nil && c.now().Sub(c.asked) < askEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := c.objects.ensure(ctx); err != nil {
		return err
	}
	c.asked = c.now()
	if taken == nil && c.Err() == nil {
		return nil
	}
	if err := c.objects.waiting(ctx); err != nil {
		return err
	}
	return taken
}

// errNoSecret is while cert-manager has not made the Secret.
var errNoSecret = errors.New("cert-manager has not made the Secret yet")

// take serves what the Secret holds.
func (c *CertManager) take(ctx context.Context, secret *corev1.Secret) error {
	if secret == nil {
		return errNoSecret
	}
	cert, err := parsePair(secret.Data[certFile], secret.Data[keyFile], secret.Data[caFile], func(name string) string { return "key " + name })
	if err != nil {
		return fmt.Errorf("%w; delete the Secret to have it issued anew", err)
	}
	return c.offer(ctx, cert, secret.Data[caFile])
}

// parseIssuer reads [KIND[.GROUP]/]NAME.
func parseIssuer(text string) (cmmeta.IssuerReference, error) {
	if text == "" {
		return cmmeta.IssuerReference{}, nil
	}
	ref := cmmeta.IssuerReference{Kind: "Issuer", Group: certmanagerv1.SchemeGroupVersion.Group}
	if !splitIssuer(text, &ref) {
		return ref, fmt.Errorf("--webhook-cert-manager-issuer: %q is not [KIND[.GROUP]/]NAME, for example ClusterIssuer/my-ca", text)
	}
	if ref.Group == certmanagerv1.SchemeGroupVersion.Group && ref.Kind != "Issuer" && ref.Kind != "ClusterIssuer" {
		return ref, fmt.Errorf("--webhook-cert-manager-issuer: cert-manager has no %s; use Issuer or ClusterIssuer, or add the GROUP of another", ref.Kind)
	}
	return ref, nil
}
