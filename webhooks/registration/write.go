package registration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/time/rate"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Reasons of events. The comments are what docs/reference/events.md says of each.
const (
	// Normal on MutatingWebhookConfiguration and ValidatingWebhookConfiguration: it was made, changed, repaired or adopted; the event names
	// who else writes it.
	reasonRegistered = "Registered"
	// Normal on MutatingWebhookConfiguration and ValidatingWebhookConfiguration: the CAs that the API server trusts for the webhooks have
	// changed; the event names them.
	reasonCAsChanged = "CAsChanged"
	// Warning on MutatingWebhookConfiguration and ValidatingWebhookConfiguration: the certificate comes without its CA, so nothing is
	// registered. Next: put the CA beside it as ca.crt.
	reasonNoCA = "NoCA"
	// Warning on MutatingWebhookConfiguration and ValidatingWebhookConfiguration: with policy Fail, webhooks are registered once their
	// Service leads to a ready replica. Next: look whether the Service selects pods, and whether they are ready.
	reasonNoEndpoint = "NoEndpoint"
	// Warning on MutatingWebhookConfiguration and ValidatingWebhookConfiguration: one of that name was not made by Isthmus, and stays. Next:
	// rename it, or label it app.kubernetes.io/name=isthmus to have it taken over.
	reasonNotOurs = "NotOurs"
	// Warning on MutatingWebhookConfiguration and ValidatingWebhookConfiguration: something keeps changing it, so it is put right seldom.
	// Next: stop who the event names from writing it.
	reasonRepairLimited = "RepairLimited"
)

// hindrance says why it is too early to write c in place of live, or too often.
func (r *reconciler) hindrance(ctx context.Context, live, c *configuration, why reason) error {
	if c != nil && why != addCA {
		if len(c.Webhooks) > 0 && len(r.own()) == 0 && r.opts.URL == "" && r.opts.InjectCAFrom == "" {
			return &problem{reasonNoCA, "the certificate comes without its CA, and no API server trusts one for a Service unasked: put the CA beside it as ca.crt; webhooks are registered then"}
		}
		if err := r.reached(ctx, c); err != nil {
			return err
		}
	}
	switch {
	case r.limiter(why).Tokens() >= 1:
		return nil
	case why == removal:
		return &problem{"RemovalLimited", "something keeps making this configuration again: it is removed once in " + r.pace.refill.String() +
			" only; end what was started with --webhook-registration=auto"}
	}
	return &problem{reasonRepairLimited, "something keeps changing or deleting this configuration (other writer: " + lastWriter(live) + "): it is put right once in " +
		r.pace.refill.String() + " only; find out what it is and stop it, or whether the API server is older than 1.30"}
}

// limiter returns which limit what is written for why is counted to.
func (r *reconciler) limiter(why reason) *rate.Limiter {
	if why == addCA && r.additions.Tokens() >= 1 {
		return r.additions
	}
	return r.repairs
}

// write brings the configuration live, nil for none, to c, or removes it.
func (r *reconciler) write(ctx context.Context, live, c *configuration, why reason) error {
	var now *configuration
	var err error
	switch {
	case why == removal:
		err = r.api.remove(ctx, live)
	case live == nil:
		now, err = r.api.create(ctx, c)
	default:
		now, err = r.api.update(ctx, c)
	}
	if err != nil {
		return err
	}
	r.limiter(why).Allow()
	if why == addCA || why == repair && !r.kept {
		why = change
	}
	r.metrics.writes.WithLabelValues(kindName(r.kind), string(why)).Inc()
	if why == removal {
		r.logger.Info("Webhook configuration removed")
		return nil
	}
	by := lastWriter(live)
	r.logger.Info("Webhooks registered", "reason", string(why), "otherWriter", by, "webhooks", len(now.Webhooks))
	r.event(now, corev1.EventTypeNormal, reasonRegistered, "webhook configuration "+string(why)+"; other writer: "+by)
	if live != nil {
		r.sayCAs(live, now)
	}
	return nil
}

// sayCAs makes an event of CAs that came or went.
func (r *reconciler) sayCAs(before, now *configuration) {
	had, has := trusted(before), trusted(now)
	var changes []string
	for _, ca := range sets.List(has.Difference(had)) {
		changes = append(changes, "added "+describe(ca))
	}
	for _, ca := range sets.List(had.Difference(has)) {
		changes = append(changes, "removed "+describe(ca))
	}
	if len(changes) > 0 {
		r.logger.Info("CAs of the webhooks changed", "changes", changes)
		r.event(now, corev1.EventTypeNormal, reasonCAsChanged, fmt.Sprintf("CAs that the API server trusts for the webhooks: %.900s", strings.Join(changes, "; ")))
	}
}

// reached fails until the Service leads to a replica: this one is ready a little before that, and
// until then policy Fail would refuse requests.
func (r *reconciler) reached(ctx context.Context, c *configuration) error {
	if r.opts.URL != "" || !slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		return *w.FailurePolicy == admissionregistrationv1.Fail
	}) {
		return nil
	}
	s := r.opts.Service
	list, err := r.opts.Client.DiscoveryV1().EndpointSlices(s.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name,
	})
	if err != nil {
		return fmt.Errorf("list the EndpointSlices of Service %s/%s, to which policy Fail is to lead: %w; apply manifests/components/webhook-auto", s.Namespace, s.Name, err)
	}
	for _, slice := range list.Items {
		if slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }) {
			return nil
		}
	}
	return &problem{reasonNoEndpoint, fmt.Sprintf("Service %s/%s leads to no ready replica yet: with policy Fail, webhooks are registered once it does", s.Namespace, s.Name)}
}
