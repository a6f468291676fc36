package script

import "github.com/isthmus-cloud/isthmus/test/differential/steps"

// patch is a step that patches the Service.
func patch(text string) Step { return Step{Patch: text} }

// annotate is a step that sets an annotation.
func annotate(name, value string) Step { return annotateAll(map[string]string{name: value}) }

// annotateAll is a step that sets annotations.
func annotateAll(annotations map[string]string) Step { return patch(prefix.Set(annotations)) }

// remove is a step that takes annotations away.
func remove(names ...string) Step { return patch(prefix.Remove(names...)) }

// addPort is a step that adds TCP 443.
func addPort() Step { return patch(steps.AddPort) }
