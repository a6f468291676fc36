// Package webhooks is the list of admission webhooks that Isthmus hosts. A new one is one
// line in All.
package webhooks

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

// Webhook is one admission webhook.
type Webhook struct {
	// Name is what --webhooks calls it.
	Name string
	// Path is where it is served.
	Path string
	// New makes its handler; nil when the provider lacks what the webhook needs.
	New func(p *cloud.Provider) admission.Handler
}

// All returns every webhook there is, sorted by name.
func All() []Webhook {
	return []Webhook{
		{Name: pvlabel.Name, Path: pvlabel.Path, New: newPVLabel},
	}
}

// Names returns the names of All.
func Names() []string {
	var names []string
	for _, w := range All() {
		names = append(names, w.Name)
	}
	return names
}

// Select returns the webhooks that list, the value of --webhooks, turns on: "*" stands for
// all, "name" turns one on, "-name" turns one off whatever else the list says. The empty
// list turns none on. An unknown name is an error.
func Select(list []string) ([]Webhook, error) {
	var unknown []string
	for _, item := range list {
		if name := strings.TrimPrefix(item, "-"); item != "*" && name != "*" && !slices.Contains(Names(), name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("--webhooks: unknown webhook %s; known are %s", strings.Join(unknown, ", "), strings.Join(Names(), ", "))
	}
	var on []Webhook
	for _, w := range All() {
		wanted := slices.Contains(list, w.Name) || (slices.Contains(list, "*") && !slices.Contains(list, "-*"))
		if wanted && !slices.Contains(list, "-"+w.Name) {
			on = append(on, w)
		}
	}
	return on, nil
}

func newPVLabel(p *cloud.Provider) admission.Handler {
	if p.Volumes == nil {
		return nil
	}
	return pvlabel.New(p.Volumes)
}
