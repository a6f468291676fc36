package lb

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Of the unknown annotations of one Service, so many are warned about, and so many looked at: to
// find what a name was meant to be takes long.
const (
	mostStrangers         = 20
	mostStrangersLookedAt = 100
)

// Check reads the annotations that the vocabulary knows. settings hold the valid ones, texts with
// surrounding blanks removed; problems name each invalid one, its value and what is allowed.
// warnings name those that count as not set because of their value (see isLiteral), and each
// unknown annotation that was probably meant for the vocabulary's provider, with the nearest
// known one, up to some number.
func Check(annotations map[string]string, vocabulary []cloud.Annotation) (settings cloud.Settings, problems field.ErrorList, warnings []string) {
	settings = cloud.Settings{}
	known := newVocabulary(vocabulary, annotations)
	var strange *strangers
	unknown, lookedAt := 0, 0
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		a, key, ok := known.find(name)
		switch {
		case ok && key == "": // what goes before it counts
			warnings = append(warnings, fmt.Sprintf("annotation %s has no effect, as another name of the same is set: %s", name, a.Name))
		case ok && a.NotRead:
		case ok:
			value := valueOf(a, annotations[name])
			switch problem := refuse(a, name, value); {
			case problem == nil:
				settings[key] = value
			case isLiteral(a):
				warnings = append(warnings, problem.Error()+"; until then it is as if it were not set")
			default:
				problems = append(problems, problem)
			}
		case unknown < mostStrangers && lookedAt < mostStrangersLookedAt:
			lookedAt++
			if strange == nil {
				strange = newStrangers(vocabulary)
			}
			more := strange.warn(name)
			unknown += len(more)
			warnings = append(warnings, more...)
		}
	}
	return settings, problems, warnings
}

// valueOf is what a value is read as. Words and numbers are taken to the letter, as existing
// controllers take them: what they do not understand must not begin to have an effect.
func valueOf(a *cloud.Annotation, value string) string {
	if isLiteral(a) {
		return value
	}
	return strings.TrimSpace(value)
}

// isLiteral reports whether a's values are taken to the letter. An invalid one then counts as not
// set: no number or one out of bounds, neither true nor false.
func isLiteral(a *cloud.Annotation) bool {
	return a.Type == cloud.TypeBool || a.Type == cloud.TypeInt || a.Ignorable
}

// refuse says what is allowed when value is not of a's type; nil when it is. An empty value
// is valid for texts and references, where it takes a configured default away, and for words of
// which a wrong one is refused: the default holds.
func refuse(a *cloud.Annotation, name, value string) *field.Error {
	if a.Type == cloud.TypeEnum {
		if value == "" && !a.Ignorable || slices.Contains(a.Enum, value) {
			return nil
		}
		return field.NotSupported(cloud.AnnotationPath(name), shown(value), a.Enum)
	}
	why := allowed(a, value)
	if why == "" && a.Parse != nil {
		if err := a.Parse(value); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		return field.Invalid(cloud.AnnotationPath(name), shown(value), why)
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
		if value != "true" && value != "false" {
			return "use true or false"
		}
	case cloud.TypeInt:
		return refuseInt(a, value)
	case cloud.TypeSelector:
		if _, err := cloud.ParseSelector(value); err != nil {
			return fmt.Sprintf("use a list of labels such as disk=ssd,gpu or a label selector such as zone in (a, b), of at most %d characters", cloud.MaxSelector)
		}
	case cloud.TypeCIDRs:
		if slices.ContainsFunc(splitRanges(value), func(s string) bool { _, ok := parseRange(s); return !ok }) {
			return "use a comma-separated list of CIDRs such as 192.0.2.0/24"
		}
	case cloud.TypeIP:
		if addr, err := netip.ParseAddr(value); value != "" && (err != nil || addr.Zone() != "") {
			return "use an IP address"
		}
	case cloud.TypeUUID:
		if value != "" && !text.IsUUID(value) {
			return "use an ID of the form 01234567-89ab-cdef-0123-456789abcdef"
		}
	case cloud.TypeHostname:
		if value != "" && !isHostname(value) {
			return "use a DNS name in lower case such as web.example.org"
		}
	default:
		return allowedItems(a.Type, value)
	}
	return ""
}

// allowedItems says what is, when a value that is not empty is not of a type with a form of its own.
func allowedItems(kind cloud.AnnotationType, value string) string {
	bad := func(ok func(string) bool) bool {
		return value != "" && slices.ContainsFunc(strings.Split(value, ","), func(s string) bool { return !ok(strings.TrimSpace(s)) })
	}
	switch {
	case kind == cloud.TypeDuration:
		if d, err := time.ParseDuration(value); value != "" && (err != nil || d < 0) {
			return "use a duration such as 30s or 5m"
		}
	case kind == cloud.TypePairs && bad(func(s string) bool { key, _, ok := strings.Cut(s, "="); return ok && strings.TrimSpace(key) != "" }):
		return "use a comma-separated list such as team=web,stage=live"
	case kind == cloud.TypePorts && bad(func(s string) bool { return isPort(s) || s == "*" || len(validation.IsValidPortName(s)) == 0 }):
		return "use a comma-separated list of the Service's ports by number or name, or * for all"
	}
	return ""
}

// isPort reports whether s is the number of a port as it is written usually.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == s
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

// parseRange reads a CIDR, without the bits of a host.
func parseRange(s string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return prefix.Masked(), true
	}
	return netip.Prefix{}, false
}

// isHostname reports whether the API server takes s as a host name in a Service's status.
func isHostname(s string) bool {
	return len(validation.IsDNS1123Subdomain(s)) == 0 && netutils.ParseIPSloppy(s) == nil
}

// splitRanges splits a list whose items are separated by commas or blanks.
func splitRanges(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// portPlace stands in an annotation's name for the number of a port.
const portPlace = "{port}"

// vocabulary finds a provider's annotations by the names that stand at an object.
type vocabulary struct {
	byName      map[string]*cloud.Annotation // also by aliases
	withPort    []*cloud.Annotation
	annotations map[string]string // the object's
}

func newVocabulary(all []cloud.Annotation, annotations map[string]string) *vocabulary {
	v := &vocabulary{byName: make(map[string]*cloud.Annotation, len(all)), annotations: annotations}
	for i := range all {
		a := &all[i]
		if strings.Contains(a.Name, portPlace) {
			v.withPort = append(v.withPort, a)
		}
		for _, name := range append([]string{a.Name}, a.Aliases...) {
			v.byName[name] = a
		}
	}
	return v
}

// find returns the annotation that name is one of, and by which key Settings hold its value: empty
// for an alias where a name that goes before it is set.
func (v *vocabulary) find(name string) (a *cloud.Annotation, key string, ok bool) {
	if a, ok = v.byName[name]; ok && !strings.Contains(name, portPlace) {
		if name != stated(a, v.annotations) {
			return a, "", true
		}
		return a, a.Name, true
	}
	for _, a := range v.withPort {
		before, after, _ := strings.Cut(a.Name, portPlace)
		if rest, ok := strings.CutPrefix(name, before); ok {
			if port, ok := strings.CutSuffix(rest, after); ok && isPort(port) {
				return a, name, true
			}
		}
	}
	return nil, "", false
}

// stated returns that name of an annotation, without a port in it, which counts; its own when it is
// not set.
func stated(a *cloud.Annotation, annotations map[string]string) string {
	for _, name := range append([]string{a.Name}, a.Aliases...) {
		if _, ok := annotations[name]; ok {
			return name
		}
	}
	return a.Name
}

// names are all those of an annotation that stand at an object and count.
func names(a *cloud.Annotation, annotations map[string]string) []string {
	if !strings.Contains(a.Name, portPlace) {
		return []string{stated(a, annotations)}
	}
	v := newVocabulary([]cloud.Annotation{*a}, annotations)
	var out []string
	for name := range annotations {
		if _, key, ok := v.find(name); ok && key != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// strangers tell which of the annotations that a vocabulary lacks were meant for it.
type strangers struct {
	// own begin annotations of the vocabulary's provider only: prefixes that nobody else uses, and
	// those below shared prefixes with the provider's mark, as in service.beta.kubernetes.io/aws-….
	own []string
	// inputs are the names of the vocabulary that are read.
	inputs []string
}

func newStrangers(vocabulary []cloud.Annotation) *strangers {
	s := &strangers{}
	for _, a := range vocabulary {
		if !a.NotRead {
			s.inputs = append(append(s.inputs, a.Name), a.Aliases...)
		}
		prefix, rest, ok := strings.Cut(a.Name, "/")
		if !ok {
			continue
		}
		own := prefix + "/"
		if isShared(prefix) {
			mark, _, marked := strings.Cut(rest, "-")
			if !marked || a.Name == corev1.AnnotationLoadBalancerSourceRangesKey { // Kubernetes' own
				continue
			}
			own += mark + "-"
		}
		s.own = append(s.own, own)
	}
	return s
}

// warn warns of an unknown annotation that begins as the provider's do, or that two letters
// make one of them.
func (s *strangers) warn(name string) []string {
	const typo = 2
	near := ""
	for _, own := range s.own {
		if strings.HasPrefix(name, own) {
			if near = nearest.Of(name, s.inputs); near == "" {
				return []string{fmt.Sprintf("annotation %s is not known and has no effect", name)}
			}
			break
		}
	}
	if near == "" {
		near = nearest.Within(name, s.inputs, typo)
	}
	if near == "" {
		return nil
	}
	return []string{fmt.Sprintf("annotation %s is not known and has no effect; did you mean %s?", name, near)}
}

// isShared reports whether several parties define annotations below prefix, so that one
// which the vocabulary lacks may well be somebody else's.
func isShared(prefix string) bool {
	return prefix == "kubernetes.io" || strings.HasSuffix(prefix, ".kubernetes.io") || strings.HasSuffix(prefix, ".k8s.io")
}
