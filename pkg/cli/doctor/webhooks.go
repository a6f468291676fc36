package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/webhooks"
)

// registered is a webhook of ours in a configuration.
type registered struct {
	object   string // of the configuration, as kubectl names it
	name     string
	client   *admissionregistrationv1.WebhookClientConfig
	failures *admissionregistrationv1.FailurePolicyType
}

// checkWebhooks finds nothing where no webhook is registered: it is no fault to have none.
func checkWebhooks(ctx context.Context, p *patient) ([]output.Finding, error) {
	all, err := p.registered(ctx)
	p.absent = len(all) == 0 && err == nil
	var found []output.Finding
	var unread error // why a Service was not
	for _, r := range all {
		if r.client.Service == nil {
			continue // a URL is somebody's own way
		}
		object := r.object + " " + r.name
		if problem := p.bundleProblem(r.client.CABundle); problem != "" {
			found = append(found, output.Finding{Severity: r.severity(), Object: object, Message: problem + r.effect(),
				Next: "look at the log of the replica that keeps the registration; with cert-manager at the Certificate and at cainjector"})
		}
		problem := ""
		if unread == nil { // else each one may take until a timeout
			problem, unread = p.serviceProblem(ctx, r.client.Service)
		}
		if problem != "" {
			found = append(found, output.Finding{Severity: r.severity(), Object: object, Message: problem + r.effect(),
				Next: "look at that Service and at the pods behind it: kubectl -n " + r.client.Service.Namespace + " describe service " + r.client.Service.Name})
		}
	}
	return found, errors.Join(err, unread)
}

// ignores says that the API server goes on without an answer.
func (r *registered) ignores() bool {
	return r.failures != nil && *r.failures == admissionregistrationv1.Ignore
}

func (r *registered) severity() output.Severity {
	if r.ignores() {
		return output.Warning
	}
	return output.Error
}

func (r *registered) effect() string {
	if r.ignores() {
		return "; the API server goes on without it (failurePolicy: Ignore)"
	}
	return "; the API server refuses what it would ask about (failurePolicy: Fail)"
}

func (p *patient) registered(ctx context.Context) (out []registered, err error) {
	mutating := access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := p.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, c := range list.Items {
			for _, w := range c.Webhooks {
				if isOurs(w.Name) {
					out = append(out, registered{"mutatingwebhookconfiguration/" + c.Name, w.Name, &w.ClientConfig, w.FailurePolicy})
				}
			}
		}
		return list, nil
	})
	validating := access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := p.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, c := range list.Items {
			for _, w := range c.Webhooks {
				if isOurs(w.Name) {
					out = append(out, registered{"validatingwebhookconfiguration/" + c.Name, w.Name, &w.ClientConfig, w.FailurePolicy})
				}
			}
		}
		return list, nil
	})
	return out, errors.Join(access.Failed(ctx, p.client, "list MutatingWebhookConfigurations", mutating), access.Failed(ctx, p.client, "list ValidatingWebhookConfigurations", validating))
}

func isOurs(webhook string) bool { return strings.HasSuffix(webhook, "."+webhooks.Domain) }

// soon is how long before its end an authority is complained of. Ours are renewed much earlier.
const soon = 7 * 24 * time.Hour

// bundleProblem says what is wrong with the authorities that the API server trusts, "" for nothing.
func (p *patient) bundleProblem(bundle []byte) string {
	if len(bundle) == 0 {
		return "it has no caBundle: the API server trusts no certificate of it"
	}
	now, last := p.clock.Now(), time.Time{}
	for len(bundle) > 0 {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err == nil && c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	switch {
	case last.IsZero():
		return "its caBundle has no certificate"
	case !last.After(now):
		return "its caBundle ended at " + last.UTC().Format(time.RFC3339)
	case last.Before(now.Add(soon)):
		return "its caBundle ends at " + last.UTC().Format(time.RFC3339)
	}
	return ""
}

// serviceProblem says why the Service of a webhook has nobody who answers, "" where it has.
func (p *patient) serviceProblem(ctx context.Context, r *admissionregistrationv1.ServiceReference) (string, error) {
	name := r.Namespace + "/" + r.Name
	s, err := p.client.CoreV1().Services(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "its Service " + name + " does not exist", nil
	case err != nil:
		return "", access.Failed(ctx, p.client, "read service "+name, err)
	case s.Spec.ExternalName != "":
		return "", nil
	}
	problem := "no pod behind its Service " + name + " is ready"
	err = access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		o.LabelSelector = discoveryv1.LabelServiceName + "=" + r.Name
		list, err := p.client.DiscoveryV1().EndpointSlices(r.Namespace).List(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					problem = ""
				}
			}
		}
		return list, nil
	})
	if err != nil {
		return "", access.Failed(ctx, p.client, "list EndpointSlices of service "+name, err)
	}
	return problem, nil
}
