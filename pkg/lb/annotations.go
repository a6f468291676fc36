package lb

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// Check reads the annotations that the vocabulary knows. settings hold the valid ones, with
// surrounding blanks removed; problems name each invalid one, its value and what is allowed;
// warnings name each unknown annotation below a prefix that only the vocabulary's provider
// uses, with the nearest known one.
func Check(annotations map[string]string, vocabulary []cloud.Annotation) (settings cloud.Settings, problems []error, warnings []string) {
	settings = cloud.Settings{}
	known := make(map[string]cloud.Annotation, len(vocabulary))
	prefixes := map[string]bool{}
	for _, a := range vocabulary {
		known[a.Name] = a
		if prefix, _, ok := strings.Cut(a.Name, "/"); ok && !isShared(prefix) {
			prefixes[prefix] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		a, ok := known[name]
		switch prefix, _, _ := strings.Cut(name, "/"); {
		case ok && a.NotRead:
		case ok:
			value := strings.TrimSpace(annotations[name])
			if allowed := refuse(a, value); allowed != "" {
				problems = append(problems, fmt.Errorf("annotation %s: %.200q is not valid: %s", name, value, allowed))
				continue
			}
			settings[name] = value
		case prefixes[prefix]:
			warnings = append(warnings, fmt.Sprintf("annotation %s is not known and has no effect%s", name, didYouMean(name, vocabulary)))
		}
	}
	return settings, problems, warnings
}

// isShared reports whether several parties define annotations below prefix, so that one
// which the vocabulary lacks may well be somebody else's.
func isShared(prefix string) bool {
	return prefix == "kubernetes.io" || strings.HasSuffix(prefix, ".kubernetes.io") || strings.HasSuffix(prefix, ".k8s.io")
}

// refuse says what is allowed when value is not of a's type, and nothing when it is. An
// empty value is valid for texts and references, where it takes a configured default away.
func refuse(a cloud.Annotation, value string) string {
	switch a.Type {
	case cloud.TypeBool:
		if _, err := strconv.ParseBool(value); err != nil {
			return "use true or false"
		}
	case cloud.TypeInt:
		return refuseInt(a, value)
	case cloud.TypeEnum:
		if !slices.Contains(a.Enum, value) {
			return "use one of " + strings.Join(a.Enum, ", ")
		}
	case cloud.TypeSelector:
		if _, err := labels.Parse(value); err != nil {
			return "use a label selector such as disk=ssd,zone in (a, b)"
		}
	case cloud.TypeCIDRs:
		for _, item := range splitList(value) {
			if _, err := netip.ParsePrefix(item); err != nil {
				return "use a comma-separated list of CIDRs such as 192.0.2.0/24"
			}
		}
	case cloud.TypeIP:
		if addr, err := netip.ParseAddr(value); value != "" && (err != nil || addr.Zone() != "") {
			return "use an IP address"
		}
	case cloud.TypeUUID:
		if value != "" && !isUUID(value) {
			return "use an ID of the form 01234567-89ab-cdef-0123-456789abcdef"
		}
	case cloud.TypeString:
	}
	return ""
}

func refuseInt(a cloud.Annotation, value string) string {
	n, err := strconv.ParseInt(value, 10, 32)
	unbounded := a.Min == 0 && a.Max == 0
	switch {
	case err != nil && unbounded:
		return "use an integer"
	case err != nil, !unbounded && (n < a.Min || n > a.Max):
		return fmt.Sprintf("use an integer between %d and %d", a.Min, a.Max)
	}
	return ""
}

func isUUID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// splitList splits a comma-separated list, dropping blanks and empty items.
func splitList(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// didYouMean names the annotation of the vocabulary that is nearest to name, if any is near.
func didYouMean(name string, vocabulary []cloud.Annotation) string {
	var inputs []string
	for _, a := range vocabulary {
		if !a.NotRead {
			inputs = append(inputs, a.Name)
		}
	}
	if near := nearest.Of(name, inputs); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
