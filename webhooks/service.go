package webhooks

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Service names the Service through which the API server calls the webhooks.
type Service struct{ Name, Namespace string }

// DefaultService is the one of the manifests.
func DefaultService() Service { return Service{Name: "isthmus-webhook", Namespace: "kube-system"} }

// AddFlags adds the flags that set s, with s's values as defaults.
func (s *Service) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.Name, "webhook-service-name", s.Name,
		"Name of the Service through which the API server calls the webhooks; certificates are for it.")
	fs.StringVar(&s.Namespace, "webhook-service-namespace", s.Namespace,
		"Namespace of the Service through which the API server calls the webhooks.")
}

// Validate returns all that is wrong with s, by flag.
func (s Service) Validate() error {
	var errs []error
	check := func(flag, name string) {
		if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
			errs = append(errs, fmt.Errorf("%s: %q: %s", flag, name, strings.Join(msgs, "; ")))
		}
	}
	check("--webhook-service-name", s.Name)
	check("--webhook-service-namespace", s.Namespace)
	return errors.Join(errs...)
}

// DNSNames are the names under which the API server and clients in the cluster may call; the
// API server's comes first.
func (s Service) DNSNames() []string {
	svc := s.Name + "." + s.Namespace
	return []string{svc + ".svc", svc + ".svc.cluster.local", svc, s.Name}
}
