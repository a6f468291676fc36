package service

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// verdict is what is to be said of a Service.
type verdict struct {
	// problems reject it.
	problems field.ErrorList
	warnings []string
	// more problems than these there are.
	more int
}

// most is how many problems, and how many warnings, an answer names.
const most = 50

// limited leaves out what is more than most.
func (v verdict) limited() verdict {
	if n := len(v.problems); n > most {
		v.problems, v.more = v.problems[:most], n-most
	}
	if n := len(v.warnings); n > most {
		v.warnings = append(slices.Clone(v.warnings[:most]), fmt.Sprintf("and %d more", n-most))
	}
	return v
}

// review judges a Service that takes the place of old; nil at its creation.
func (h *Handler) review(old, service *corev1.Service) verdict {
	e := h.environment
	class, ours := h.wants(service)
	misspelled := wants(service) && service.Spec.LoadBalancerClass != nil && e.Classes.Misspelled(*service.Spec.LoadBalancerClass)
	if !ours && !misspelled || old != nil && same(old, service, e.Provider.Annotations) {
		return verdict{}
	}
	if misspelled {
		return verdict{warnings: []string{fmt.Sprintf("spec.loadBalancerClass %q is no class of this cloud's configuration, nothing will be done for it: use one of %s",
			*service.Spec.LoadBalancerClass, strings.Join(e.Classes.All(), ", "))}}
	}
	var v verdict
	v.problems, v.warnings = lb.Review(service, class, e.Provider)
	if old == nil || len(v.problems) == 0 {
		return v
	}
	if class, ours := h.wants(old); ours {
		before, _ := lb.Review(old, class, e.Provider)
		return v.excuse(before)
	}
	return v
}

// wants says whether a Service asks for a load balancer of ours, and by which class.
func (h *Handler) wants(service *corev1.Service) (class string, ours bool) {
	class, ours = h.environment.Classes.Of(service)
	return class, ours && wants(service)
}

// wants reports whether a Service asks for a load balancer.
func wants(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil
}

// same reports whether nothing has changed that load balancers are made of.
func same(old, service *corev1.Service, vocabulary []cloud.Annotation) bool {
	if !equality.Semantic.DeepEqual(old.Spec, service.Spec) {
		return false
	}
	settings, problems, warnings := lb.Check(service.Annotations, vocabulary)
	oldSettings, oldProblems, oldWarnings := lb.Check(old.Annotations, vocabulary)
	return reflect.DeepEqual(settings, oldSettings) && reflect.DeepEqual(problems, oldProblems) && reflect.DeepEqual(warnings, oldWarnings)
}

// excuse turns the problems that there were before into warnings: a Service must stay
// editable, also for whoever has nothing to do with what is wrong with it.
func (v verdict) excuse(before field.ErrorList) verdict {
	known := map[string]int{}
	for _, p := range before {
		known[keyOf(p)]++
	}
	out := verdict{}
	for _, p := range v.problems {
		if key := keyOf(p); known[key] > 0 {
			known[key]--
			out.warnings = append(out.warnings, "not rejected, as it was so before: "+p.Error())
			continue
		}
		out.problems = append(out.problems, p)
	}
	out.warnings = append(out.warnings, v.warnings...)
	return out
}

var index = regexp.MustCompile(`\[\d+\]`)

// keyOf is the same for the same problem, also when the items of a list have moved.
func keyOf(p *field.Error) string {
	if p.Type == field.ErrorTypeTooMany { // however many
		return string(p.Type) + p.Field
	}
	return index.ReplaceAllString(p.Error(), "[]")
}
