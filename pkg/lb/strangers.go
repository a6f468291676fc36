package lb

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

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
