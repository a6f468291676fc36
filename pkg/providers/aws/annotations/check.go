package annotations

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// CheckClassic says what is wrong with the values that only classic load balancers read. Empty ones count as not set.
func CheckClassic(s cloud.Settings) (problems field.ErrorList) {
	if v := s.String(ProxyProtocol, ""); v != "" && v != "*" {
		problems = append(problems, field.NotSupported(cloud.AnnotationPath(ProxyProtocol), v, []string{"*"}))
	}
	if v := s.String(DrainingEnabled, ""); v != "" && !slices.Contains(truths, v) {
		problems = append(problems, field.NotSupported(cloud.AnnotationPath(DrainingEnabled), v, truths))
	}
	for _, name := range []string{IdleTimeout, DrainingTimeout, LogInterval} {
		v := s.String(name, "")
		if v == "" {
			continue
		}
		if err := parseNumber(v); err != nil {
			problems = append(problems, field.Invalid(cloud.AnnotationPath(name), v, err.Error()))
		}
	}
	return append(problems, CheckGroups(s, SecurityGroups, ExtraSecurityGroups)...)
}

// groupID is how IDs of security groups look. Whatever else a Service names must never become the source of a rule.
var groupID = regexp.MustCompile(`^sg-[0-9a-f]+$`)

// CheckGroups says what is wrong with lists of security groups.
func CheckGroups(s cloud.Settings, names ...string) (problems field.ErrorList) {
	for _, name := range names {
		for _, id := range text.List(s.String(name, "")) {
			if !groupID.MatchString(id) {
				problems = append(problems, field.Invalid(cloud.AnnotationPath(name), text.Clip(s.String(name, ""), 200),
					fmt.Sprintf("%q is no ID of a security group; use IDs such as sg-0123456789abcdef0", text.Clip(id, 50))))
				break
			}
		}
	}
	return problems
}
