package cloud

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AnnotationPath is where an annotation of an object stands, as a client is told of it.
func AnnotationPath(name string) *field.Path {
	return field.NewPath("metadata", "annotations").Key(name)
}

// Refuse returns an error of kind that names all problems, each with its field, its value and
// what is allowed; nil when there are none. op is Error.Op.
func Refuse(kind Kind, op string, problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return &Error{Kind: kind, Op: op, Err: errors.Join(errs...)}
}
