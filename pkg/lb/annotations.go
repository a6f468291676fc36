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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// mostStrangers is how many unknown annotations of one Service are warned about.
const mostStrangers = 20

// Check reads the annotations that the vocabulary knows. settings hold the valid ones, with
// surrounding blanks removed; problems name each invalid one, its value and what is allowed;
// warnings name each unknown annotation that was probably meant for the vocabulary's provider,
// with the nearest known one, up to some number.
func Check(annotations map[string]string, vocabulary []cloud.Annotation) (settings cloud.Settings, problems field.ErrorList, warnings []string) {
	settings = cloud.Settings{}
	known := make(map[string]*cloud.Annotation, len(vocabulary))
	for i := range vocabulary {
		known[vocabulary[i].Name] = &vocabulary[i]
	}
	var strange *strangers
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		a, ok := known[name]
		switch {
		case ok && a.NotRead:
		case ok:
			value := strings.TrimSpace(annotations[name])
			if problem := refuse(a, value); problem != nil {
				problems = append(problems, problem)
				continue
			}
			settings[name] = value
		case len(warnings) < mostStrangers:
			if strange == nil {
				strange = newStrangers(vocabulary)
			}
			warnings = append(warnings, strange.warn(name)...)
		}
	}
	return settings, problems, warnings
}

// refuse says what is allowed when value is not of a's type; nil when it is. An empty value
// is valid for texts and references, where it takes a configured default away.
func refuse(a *cloud.Annotation, value string) *field.Error {
	if a.Type == cloud.TypeEnum {
		if slices.Contains(a.Enum, value) {
			return nil
		}
		return field.NotSupported(cloud.AnnotationPath(a.Name), shown(value), a.Enum)
	}
	if allowed := allowed(a, value); allowed != "" {
		return field.Invalid(cloud.AnnotationPath(a.Name), shown(value), allowed)
	}
	return nil
}

// shown is as much of a value as a message repeats.
func shown(value string) string {
	const most = 200
	if runes := []rune(value); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return value
}

// allowed says what is, when value is not of a's type.
func allowed(a *cloud.Annotation, value string) string {
	switch a.Type {
	case cloud.TypeBool:
		if _, err := strconv.ParseBool(value); err != nil {
			return "use true or false"
		}
	case cloud.TypeInt:
		return refuseInt(a, value)
	case cloud.TypeSelector:
		if _, err := labels.Parse(value); err != nil {
			return "use a label selector such as disk=ssd,zone in (a, b)"
		}
	case cloud.TypeCIDRs:
		if slices.ContainsFunc(splitList(value), func(s string) bool { return !isCIDR(s) }) {
			return "use a comma-separated list of CIDRs such as 192.0.2.0/24"
		}
	case cloud.TypeIP:
		if addr, err := netip.ParseAddr(value); value != "" && (err != nil || addr.Zone() != "") {
			return "use an IP address"
		}
	case cloud.TypeUUID:
		if value != "" && !isUUID(value) {
			return "use an ID of the form 01234567-89ab-cdef-0123-456789abcdef"
		}
	case cloud.TypeHostname:
		if value != "" && !isHostname(value) {
			return "use a DNS name in lower case such as web.example.org"
		}
	case cloud.TypeEnum, cloud.TypeString:
	}
	return ""
}

func refuseInt(a *cloud.Annotation, value string) string {
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

func isCIDR(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// isHostname reports whether the API server takes s as a host name in a Service's status.
func isHostname(s string) bool {
	return len(validation.IsDNS1123Subdomain(s)) == 0 && netutils.ParseIPSloppy(s) == nil
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
