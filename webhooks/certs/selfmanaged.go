package certs

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// SelfManagedOptions say which Secret, and whom the certificate is for.
type SelfManagedOptions struct {
	Secret types.NamespacedName
	// Hosts are DNS names and IP addresses. A Secret's certificate is for those of all
	// replicas that use it.
	Hosts []string
	// Interval is how often it is checked what is due; 0 means a minute.
	Interval time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// SelfManaged is the Source of a CA of ours in a Secret that all replicas share. Whoever
// comes first creates it. All state is in the Secret, each change is one update of it, and
// none is made of what another replica has changed meanwhile: so it does not matter which
// replica does something, nor when one ends. What is served has been in the Secret before.
type SelfManaged struct {
	*held
	opts   SelfManagedOptions
	policy policy
	client kubernetes.Interface
	watch  secretWatch
	// manager is what the API server calls this replica's creation.
	manager string

	// Only Run's goroutine uses what follows.
	last     state  // as last served; the zero state before
	replaced string // resourceVersion of the Secret that we updated and whose update was not seen yet
}

var _ Source = (*SelfManaged)(nil)

// NewSelfManaged makes a SelfManaged. It uses no network.
func NewSelfManaged(client kubernetes.Interface, o SelfManagedOptions) *SelfManaged {
	if o.Interval == 0 {
		o.Interval = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &SelfManaged{opts: o, policy: defaultPolicy(o.Hosts), client: client, watch: watchSecret(client, o.Secret), manager: "isthmus-webhook-certs-" + rand.Text()}
	s.held = newHeld("Secret "+o.Secret.String(), "it is renewed as soon as the API server lets us", o.Now)
	return s
}

// Run creates, follows, renews and repairs the Secret until ctx ends.
func (s *SelfManaged) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("secret", s.opts.Secret.String()))
	return runWatch(ctx, s.watch, s.opts.Interval, s.reconcile)
}

// reconcile does what is due.
func (s *SelfManaged) reconcile(ctx context.Context) {
	err := s.step(ctx)
	if apierrors.IsConflict(err) {
		klog.FromContext(ctx).V(4).Info("Another replica was first with the webhook certificate")
		return // the watch brings it
	}
	s.problem(ctx, err)
}

// step brings the Secret to what it must be, and serves it.
func (s *SelfManaged) step(ctx context.Context) error {
	secret, err := s.watch.get()
	if err != nil {
		return err
	}
	var content state
	var repaired []string
	switch {
	case secret == nil:
		content, s.replaced = s.last, "" // as it was, where we know it: who deleted it must not break what is served
	case secret.Type != secretTypeOwn:
		return fmt.Errorf("the Secret is of type %q, so it is not ours and stays as it is; delete it, or name another with --webhook-cert-secret", secret.Type)
	case secret.ResourceVersion == s.replaced:
		return nil // the watch lags behind our own update
	default:
		if content, repaired, err = parse(secret.Data); err != nil {
			if s.last.issuer == nil {
				return fmt.Errorf("%w; put back what it was, or delete the Secret to have everything issued anew", err)
			}
			content, repaired = s.last, []string{err.Error()}
			content.bundle = nil // differs: written again
		}
	}
	if err := s.early(ctx, content); err != nil {
		return err
	}
	wanted, why, err := s.policy.rotate(content, s.opts.Now())
	if err != nil {
		return err
	}
	if secret == nil && s.last.issuer != nil {
		why = append(why, "the Secret was deleted")
	}
	if len(why) > 0 {
		if err := s.write(ctx, secret, wanted); err != nil {
			return err
		}
		klog.FromContext(ctx).Info("Webhook certificate was issued", "reason", strings.Join(append(repaired, why...), "; "),
			"notAfter", wanted.leaf.Leaf.NotAfter)
	}
	s.last = wanted
	s.serve(ctx, wanted.leaf, wanted.bundle)
	return nil
}

// early fails when content, of a replica whose clock runs ahead, is not valid yet, but what is
// served is: that stays, and is trusted beside what will be. Nothing is written, or the two clocks
// would fight.
func (s *SelfManaged) early(ctx context.Context, content state) error {
	now := s.opts.Now()
	if s.last.leaf == nil || expired(s.last.leaf.Leaf, now) || early(s.last.leaf.Leaf, now) {
		return nil
	}
	certs := []*x509.Certificate{content.issuer.cert}
	if content.leaf != nil {
		certs = append(certs, content.leaf.Leaf)
	}
	for _, cert := range certs {
		if early(cert, now) {
			s.serve(ctx, s.last.leaf, slices.Concat(s.last.bundle, content.trusted()))
			return checkTime(cert, now, "")
		}
	}
	return nil
}

// write creates the Secret, or updates the one seen.
func (s *SelfManaged) write(ctx context.Context, seen *corev1.Secret, content state) error {
	ctx, cancel := context.WithTimeout(quiet(ctx), writeTimeout)
	defer cancel()
	secrets := s.client.CoreV1().Secrets(s.opts.Secret.Namespace)
	if seen == nil {
		data, err := content.encode(nil)
		if err != nil {
			return err
		}
		// Unlike a creation, this has a name that RBAC can ask for. As every replica is another
		// manager of the fields, it conflicts with a Secret that somebody else has just created.
		secret := applycorev1.Secret(s.opts.Secret.Name, s.opts.Secret.Namespace).WithType(secretTypeOwn).WithData(data)
		if _, err := secrets.Apply(ctx, secret, metav1.ApplyOptions{FieldManager: s.manager}); err != nil {
			return fmt.Errorf("create the Secret: %w%s", err, nextStep(err))
		}
		return nil
	}
	secret := seen.DeepCopy()
	var err error
	if secret.Data, err = content.encode(secret.Data); err != nil {
		return err
	}
	updated, err := secrets.Update(ctx, secret, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update the Secret: %w%s", err, nextStep(err))
	}
	if updated.ResourceVersion != seen.ResourceVersion {
		s.replaced = seen.ResourceVersion
	}
	return nil
}

// writeTimeout limits a write to the API server.
const writeTimeout = 30 * time.Second
