package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/ccm"
	ccmoptions "github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// announceCA is how long a CA is registered before its certificate is served, where somebody
// else issues it: registration, or cert-manager's cainjector, writes it within seconds.
const announceCA = time.Minute

// webhookOptions are the flags of everything about webhooks.
type webhookOptions struct {
	// list is the value of --webhooks.
	list    []string
	server  *server.Options
	certs   *certs.Options
	service webhooks.Service

	registration *registration.Options
}

func newWebhookOptions() *webhookOptions {
	return &webhookOptions{server: server.NewOptions(), certs: certs.NewOptions(), service: webhooks.DefaultService(), registration: registration.NewOptions()}
}

func (o *webhookOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.list, "webhooks", o.list,
		"Admission webhooks to serve: '*' means all, 'foo' serves foo, '-foo' does not; none by default.\nWebhooks: "+strings.Join(webhooks.Names(hosted.All()), ", "))
	o.server.AddFlags(fs)
	o.certs.AddFlags(fs)
	o.service.AddFlags(fs)
	o.registration.AddFlags(fs)
}

// validate returns all that is wrong with the flags, alone or beside those of c.
func (o *webhookOptions) validate(c *ccmoptions.Options) error {
	selected, err := webhooks.Select(hosted.All(), o.list)
	errs := []error{err, o.checkRegistration(len(selected) > 0, c)}
	if len(selected) > 0 && c.DryRun {
		errs = append(errs, errors.New("--dry-run: webhooks change the objects that they are asked about: leave --webhooks out"))
	}
	if len(selected) > 0 {
		errs = append(errs, o.server.Validate())
		if o.server.Enabled() {
			errs = append(errs, o.certs.Validate(), o.service.Validate())
		}
		if p := o.server.Port; p != 0 && p == c.Serving.Port {
			errs = append(errs, fmt.Errorf("--webhook-secure-port and --secure-port must differ, both are %d", p))
		}
		if delay, end := o.server.ShutdownDelay, c.ShutdownTimeout; delay > 0 && delay >= end {
			errs = append(errs, fmt.Errorf("--webhook-shutdown-delay: %s leaves no time to finish within --shutdown-timeout=%s; lower it or raise that", delay, end))
		}
	}
	return errors.Join(errs...)
}

// on reports whether --webhooks turns the webhook on.
func (o *webhookOptions) on(name string) bool {
	selected, err := webhooks.Select(hosted.All(), o.list)
	return err == nil && slices.Contains(webhooks.Names(selected), name)
}

// addTo adds the webhook server to m, if --webhooks turns one on.
func (o *webhookOptions) addTo(ctx context.Context, m *ccm.Manager, p *decorate.Provider, c *ccmoptions.Options) error {
	selected, err := webhooks.Select(hosted.All(), o.list)
	if err != nil {
		return err
	}
	if len(selected) == 0 {
		return o.addRegistration(m, nil, webhooks.Environment{}, nil)
	}
	o.server.Ready, o.server.FailurePolicy = p.Ready, o.registration.FailurePolicy
	if o.server.Enabled() {
		o.certs.Hosts = slices.Concat(o.service.DNSNames(), o.server.Hosts(), o.registration.Hosts())
		if o.registration.Mode == registration.Auto || o.certs.Source == certs.SourceCertManager {
			o.certs.Overlap = announceCA
		}
		if o.server.Certs, err = certs.New(ctx, *o.certs, m.Config()); err != nil {
			return err
		}
	}
	s, err := server.New(*o.server)
	if err != nil {
		return err
	}
	env := webhooks.Environment{
		Provider: &p.Provider,
		Classes:  lb.NewClasses(&p.LoadBalancing, c.ServesClassless()),
	}
	var served []webhooks.Webhook
	for _, w := range selected {
		env.FailurePolicy = o.registration.FailurePolicy(w.Name)
		handler := w.New(env)
		if handler == nil && !slices.Contains(o.list, w.Name) { // "*" asks for what there is
			klog.InfoS("Webhook left out: it needs something that the cloud, as it is configured, does not have", "webhook", w.Name, "cloud", p.Name)
			continue
		}
		if handler == nil {
			return fmt.Errorf("--webhooks: %s needs something that cloud %s, as it is configured, does not have", w.Name, p.Name)
		}
		s.Register(w.Name, w.Path, handler)
		served = append(served, w)
	}
	m.Add(s)
	if err := o.addRegistration(m, served, env, s); err != nil {
		return err
	}
	return m.AddReadyCheck("webhooks", s.Ready)
}
