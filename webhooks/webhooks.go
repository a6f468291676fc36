// Package webhooks says what an admission webhook is (Webhook). Package hosted lists those
// that Isthmus hosts, server serves them, and registration tells the API server of them.
package webhooks

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// Domain ends the names of our webhooks in webhook configurations, and begins our labels.
const Domain = "isthmus-cloud.github.io"

// Type says what a webhook may answer.
type Type string

// The types, as the API server knows them.
const (
	Mutating   Type = "Mutating"
	Validating Type = "Validating"
)

// Webhook is one admission webhook: what the API server has to know of it, and who answers.
type Webhook struct {
	// Name is what --webhooks calls it, a DNS label. In webhook configurations it is
	// Name + "." + Domain.
	Name string
	// Path is where it is served, e.g. "/webhooks/" + Name.
	Path string
	// Type is Mutating or Validating.
	Type Type
	// Rules are the requests that the API server sends.
	Rules []admissionregistrationv1.RuleWithOperations
	// OptOutLabel on an object, with the value "true", keeps the API server from sending it.
	OptOutLabel string
	// MatchConditions narrow Rules, so that requests about which the cloud has nothing to say
	// never get on the wire; nil for none.
	MatchConditions func(e Environment) []admissionregistrationv1.MatchCondition
	// Reinvocation says whether a mutating webhook is asked again when a later one has changed
	// the object; empty for never, which is right where the answer does not depend on what
	// others change.
	Reinvocation admissionregistrationv1.ReinvocationPolicyType
	// New makes the handler: nil when the cloud lacks what the webhook needs. The handler may
	// be called concurrently and must heed its context, which ends before the API server's
	// timeout does.
	New func(e Environment) admission.Handler
}

// Environment is what webhooks are made for.
type Environment struct {
	// Provider is the cloud, decorated.
	Provider *cloud.Provider
	// Classes say which Services of type LoadBalancer are ours.
	Classes lb.Classes
	// FailurePolicy is what the webhook configurations tell the API server to do while no
	// webhook answers. With Ignore, a webhook also lets pass what it cannot judge because the
	// cloud does not answer, with a warning; otherwise it refuses that.
	FailurePolicy admissionregistrationv1.FailurePolicyType
}

// Select returns the webhooks of all that list, the value of --webhooks, turns on: "*"
// stands for all, "name" turns one on, "-name" turns one off whatever else the list says.
// The empty list turns none on. An unknown name is an error.
func Select(all []Webhook, list []string) ([]Webhook, error) {
	names := Names(all)
	var unknown []string
	for _, item := range list {
		if name := strings.TrimPrefix(item, "-"); item != "*" && name != "*" && !slices.Contains(names, name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("--webhooks: unknown webhook %s; known are %s", strings.Join(unknown, ", "), strings.Join(names, ", "))
	}
	var on []Webhook
	for _, w := range all {
		wanted := slices.Contains(list, w.Name) || (slices.Contains(list, "*") && !slices.Contains(list, "-*"))
		if wanted && !slices.Contains(list, "-"+w.Name) {
			on = append(on, w)
		}
	}
	return on, nil
}

// Names returns the names of all.
func Names(all []Webhook) []string {
	names := make([]string, 0, len(all))
	for _, w := range all {
		names = append(names, w.Name)
	}
	return names
}
