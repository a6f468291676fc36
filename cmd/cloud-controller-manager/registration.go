package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/pkg/ccm"
	ccmoptions "github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// checkRegistration returns what is wrong with the flags about registration, alone or beside
// others; selected says whether webhooks are turned on.
func (o *webhookOptions) checkRegistration(selected bool, c *ccmoptions.Options) error {
	r, d := o.registration, registration.NewOptions()
	errs := []error{r.Validate(webhooks.Names(hosted.All()))}
	switch {
	case r.Mode == registration.Auto && !selected:
		errs = append(errs, errors.New("--webhook-registration=auto: no webhook is turned on; name some with --webhooks, or take away what is registered with --webhook-registration=remove"))
	case r.Mode == registration.Auto && !o.server.Enabled():
		errs = append(errs, errors.New("--webhook-registration=auto: nothing is served with --webhook-secure-port=0"))
	case r.Mode == registration.Remove && c.DryRun:
		errs = append(errs, errors.New("--dry-run: --webhook-registration=remove does nothing but change the cluster"))
	case r.Mode == registration.None && (r.ServicePort != d.ServicePort || r.Timeout != d.Timeout):
		errs = append(errs, errors.New("--webhook-timeout and --webhook-service-port have an effect with --webhook-registration=auto only: set it, or write them into your webhook configurations"))
	}
	return errors.Join(errs...)
}

// onlyRemoves reports whether all that is to be done is to remove webhook configurations.
func (o *webhookOptions) onlyRemoves(c *ccmoptions.Options) bool {
	selected, err := webhooks.Select(hosted.All(), o.list)
	return err == nil && len(selected) == 0 && o.registration.Mode == registration.Remove && !c.RunsControllers()
}

// addRegistration makes m keep the webhook configurations, or remove them; s serves what is
// registered, nil if nothing is served.
func (o *webhookOptions) addRegistration(m *ccm.Manager, served []webhooks.Webhook, env webhooks.Environment, s *server.Server) error {
	r := *o.registration
	if r.Mode == registration.None {
		return nil
	}
	var err error
	if r.Client, err = registrationClient(m); err != nil {
		return err
	}
	r.Service, r.Webhooks, r.Environment, r.Failed = o.service, served, env, m.Failed
	if s != nil {
		r.CABundle = s.CABundle
		if o.certs.InjectCA {
			r.InjectCAFrom = o.certs.Secret // of the same name as the Certificate
		}
		r.Ready = func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
			if err != nil {
				return err
			}
			return s.Ready(req)
		}
	}
	k, err := registration.New(r)
	if err != nil {
		return err
	}
	m.Add(k)
	return m.AddReadyCheck("webhook-registration", k.Trusted)
}

// removeRegistration removes the webhook configurations, and that is all.
func (o *options) removeRegistration(ctx context.Context, m *ccm.Manager) error {
	client, err := registrationClient(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, max(o.ccm.StartTimeout, time.Second))
	defer cancel()
	if err := registration.Away(ctx, client); err != nil {
		return fmt.Errorf("--webhook-registration=remove: %w", err)
	}
	return nil
}

func registrationClient(m *ccm.Manager) (kubernetes.Interface, error) {
	config := m.Config()
	config.UserAgent += "/webhook-registration"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the webhook registration: %w", err)
	}
	return client, nil
}
