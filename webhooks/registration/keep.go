package registration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plan is what to do about a configuration, and what it is to be then.
type plan struct {
	verdict verdict
	content *configuration
	stamp   stamp
	// onlyCAs says that all but the CAs stays as it stands.
	onlyCAs bool
}

// keep puts the configuration right.
func (o *one) keep(ctx context.Context) (time.Duration, error) {
	o.ownCAs()
	live := o.live()
	o.report(o.bundle, o.untrusted(live))
	if live != nil && live.ResourceVersion == o.settled {
		return o.pace.look, nil
	}
	if p := o.decide(live); !p.verdict.writes() {
		return o.rest(live, p.verdict), nil
	}
	return o.write(ctx, live)
}

// ownCAs notes which CAs this replica's certificates are of.
func (o *one) ownCAs() {
	if o.opts.CABundle == nil {
		return
	}
	bundle := o.opts.CABundle()
	if bytes.Equal(bundle, o.bundle) {
		return
	}
	o.bundle, o.trust.own, o.settled = bundle, authorities(bundle), ""
	o.want()
}

// want notes what is wanted, which depends on the certificate only in whether it has a CA.
func (o *one) want() {
	o.wanted = render(o.opts, o.kind, nil)
	if o.opts.Mode == Auto && o.opts.URL != "" && o.opts.InjectCAFrom == "" && len(o.trust.own) == 0 {
		metav1.SetMetaDataAnnotation(&o.wanted.ObjectMeta, rootsAnnotation, systemRoots)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.judge.want(fingerprint(o.wanted))
}

// untrusted says that webhooks are registered, but requests that come to this replica fail.
func (o *one) untrusted(live *configuration) error {
	if !standsAsWritten(live) || !o.trust.lacks(live, time.Now()) {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	err := fmt.Errorf("%s %s does not have the CA of this replica's certificate yet", kindName(o.kind), Name)
	if o.said != "" {
		err = fmt.Errorf("%w: %s", err, o.said)
	}
	return err
}

// standsAsWritten reports whether live is there and one of ours has written it so.
func standsAsWritten(live *configuration) bool {
	return live != nil && isOurs(live) && stampOf(live) != stamp{}
}

// decide returns what to do about live, nil for none.
func (o *one) decide(live *configuration) plan {
	now := time.Now()
	o.mu.Lock()
	v, next := o.judge.judge(live, now)
	o.mu.Unlock()
	o.trust.observe(live, now)
	p := plan{verdict: v, content: o.wanted, stamp: next}
	if (v == asWanted || v == leave) && standsAsWritten(live) && !o.trust.right(live, now) {
		if v == leave { // the CAs are not a matter of who prevails
			p.content = o.withoutCAs(live)
		}
		p.verdict, p.stamp, p.onlyCAs = change, stampOf(live), true
		if _, ok := standingCAs(live); !ok {
			p.verdict = repair
		}
	}
	cas, leaving := o.trust.wanted(now)
	if public(p.content) {
		cas, leaving = nil, nil
	}
	p.content = trusting(p.content, cas, leaving)
	return p
}

// adds returns the plan that only adds the CAs of this replica's that live lacks. It needs no
// ready replica: rather, no replica is to be ready before.
func (o *one) adds(live *configuration) (plan, bool) {
	now := time.Now()
	if !standsAsWritten(live) || !o.trust.lacks(live, now) {
		return plan{}, false
	}
	cas, leaving, ok := o.trust.added(live, now)
	return plan{verdict: change, content: trusting(o.withoutCAs(live), cas, leaving), stamp: stampOf(live), onlyCAs: true}, ok
}

// withoutCAs returns what stands, which is to be written with other CAs.
func (o *one) withoutCAs(live *configuration) *configuration {
	out := o.wanted.DeepCopy()
	out.Annotations, out.Webhooks = nil, live.Webhooks
	for _, key := range []string{injectAnnotation, rootsAnnotation} {
		if value := live.Annotations[key]; value != "" {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	return out
}

// rest says why nothing is written, if that is worth saying.
func (o *one) rest(live *configuration, v verdict) time.Duration {
	up := 0.0
	switch v {
	case asWanted:
		up = 1
		o.mu.Lock()
		o.said = ""
		o.mu.Unlock()
	case notOurs:
		o.warn(live, "NotOurs", errNotOurs(kindName(o.kind)).Error())
	case leave:
		o.warn(live, "OtherReplica", "another replica has registered other webhooks later than this one, which leaves it at that for "+o.pace.standDown.String()+
			": harmless during a rollout; otherwise give all replicas the same flags and the same certificate source")
	}
	o.metrics.upToDate.WithLabelValues(kindName(o.kind)).Set(up)
	return o.pace.look
}

// write writes what is wanted, unless another replica does so first or it happens too often.
func (o *one) write(ctx context.Context, live *configuration) (time.Duration, error) {
	o.metrics.upToDate.WithLabelValues(kindName(o.kind)).Set(0)
	unready := o.opts.Ready(ctx)
	o.ownCAs() // a certificate that is there since then is not one without a CA
	if _, adds := o.adds(live); unready != nil && !adds {
		o.logger.V(4).Info("Webhooks are registered once this replica serves", "reason", unready.Error())
		return o.pace.look, nil
	}
	if len(o.trust.own) == 0 && o.opts.URL == "" && o.opts.InjectCAFrom == "" && len(o.wanted.Webhooks) > 0 {
		o.warn(nil, "NoCA", "the certificate comes without its CA, and no API server trusts one for a Service unasked: "+
			"put the CA beside it as ca.crt; webhooks are registered then")
		return o.pace.look, nil
	}
	if !o.wait(ctx) {
		return 0, nil
	}
	live, err := o.get(ctx)
	if err != nil {
		return 0, err
	}
	p := o.decide(live)
	if !p.verdict.writes() {
		return o.rest(live, p.verdict), nil
	}
	may := unready == nil
	if may && !p.onlyCAs {
		may, err = o.reached(ctx)
	}
	if !may {
		if p, may = o.adds(live); !may {
			return 2 * o.pace.look, err
		}
	}
	return o.put(ctx, live, p)
}

// put brings the configuration live, nil for none, to p.
func (o *one) put(ctx context.Context, live *configuration, p plan) (time.Duration, error) {
	by := lastWriter(live)
	if lacks := o.trust.lacks(live, time.Now()); (!lacks || !o.additions.Allow()) && !o.repairs.Allow() {
		o.warn(live, "RepairLimited", "something keeps changing or deleting this configuration (other writer: "+by+"): it is put right once in "+o.pace.refill.String()+" only; find out what it is and stop it")
		return o.pace.look, nil
	}
	now, err := apply(ctx, o.api, p.content, live, p.stamp)
	if now != nil {
		o.mu.Lock()
		o.judge.observe(now, time.Now())
		o.mu.Unlock()
	}
	if errors.Is(err, errKept) {
		o.settled = now.ResourceVersion
	}
	if err != nil {
		return 0, err
	}
	o.metrics.writes.WithLabelValues(kindName(o.kind), string(p.verdict)).Inc()
	o.logger.Info("Webhooks registered", "reason", string(p.verdict), "otherWriter", by, "webhooks", len(now.Webhooks), "stamp", p.stamp.String())
	o.event(now, corev1.EventTypeNormal, "Registered", "webhook configuration "+string(p.verdict)+"; other writer: "+by)
	if live != nil {
		o.sayCAs(live, now)
	}
	return o.pace.look, nil
}

// sayCAs makes an event of CAs that came or went.
func (o *one) sayCAs(before, now *configuration) {
	had, _ := standingCAs(before)
	has, _ := standingCAs(now)
	var changes []string
	for _, ca := range has {
		if !slices.Contains(had, ca) {
			changes = append(changes, "added "+describe(ca))
		}
	}
	for _, ca := range had {
		if !slices.Contains(has, ca) {
			changes = append(changes, "removed "+describe(ca))
		}
	}
	if len(changes) > 0 {
		o.logger.Info("CAs of the webhooks changed", "changes", changes)
		o.event(now, corev1.EventTypeNormal, "CAsChanged", fmt.Sprintf("CAs that the API server trusts for the webhooks: %.900s", strings.Join(changes, "; ")))
	}
}

// reached reports whether the Service leads to a replica: this one is ready a little before
// that, and until then policy Fail would refuse requests.
func (o *one) reached(ctx context.Context) (bool, error) {
	if o.opts.URL != "" || !fails(o.wanted) {
		return true, nil
	}
	s := o.opts.Service
	list, err := o.opts.Client.DiscoveryV1().EndpointSlices(s.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name,
	})
	if err != nil {
		return false, fmt.Errorf("list the EndpointSlices of Service %s/%s, to which policy Fail is to lead: %w; apply manifests/components/webhook-auto", s.Namespace, s.Name, err)
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return true, nil
			}
		}
	}
	o.warn(nil, "NoEndpoint", fmt.Sprintf("Service %s/%s leads to no ready replica yet: with policy Fail, webhooks are registered once it does", s.Namespace, s.Name))
	return false, nil
}

// fails reports whether a webhook of c has policy Fail.
func fails(c *configuration) bool {
	return slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		return *w.FailurePolicy == admissionregistrationv1.Fail
	})
}

// removeIt removes the configuration whenever it is there.
func (o *one) removeIt(ctx context.Context) (time.Duration, error) {
	live := o.live()
	if live != nil && !isOurs(live) {
		return o.rest(live, notOurs), nil
	}
	if live == nil {
		return o.rest(nil, asWanted), nil
	}
	if !o.wait(ctx) {
		return 0, nil
	}
	live, err := o.get(ctx)
	if err != nil || live == nil || !isOurs(live) {
		return o.pace.look, err
	}
	if !o.repairs.Allow() {
		o.warn(live, "RemovalLimited", "something keeps making this configuration again: it is removed once in "+o.pace.refill.String()+" only; end what was started with --webhook-registration=auto")
		return o.pace.look, nil
	}
	if err := remove(ctx, o.api, render(NewOptions(), o.kind, nil), live); err != nil {
		return 0, err
	}
	o.metrics.writes.WithLabelValues(kindName(o.kind), "removed").Inc()
	o.logger.Info("Webhook configuration removed")
	return o.pace.look, nil
}
