package ccm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/cloud-provider/names"

	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// ControllerNames returns the names of all controllers, sorted.
func ControllerNames() []string {
	return []string{names.CloudNodeController, names.CloudNodeLifecycleController, names.NodeRouteController, names.ServiceLBController}
}

// canonicalName returns the controller that name, which may be one of the framework's old
// names, stands for.
func canonicalName(name string) string {
	if n, ok := names.CCMControllerAliases()[name]; ok {
		return n
	}
	return name
}

// checkControllers returns an error for each item of --controllers that names no controller.
func checkControllers(items []string) []error {
	var errs []error
	for _, item := range items {
		name := strings.TrimPrefix(item, "-")
		if name == "*" || slices.Contains(ControllerNames(), canonicalName(name)) {
			continue
		}
		known := slices.Concat(ControllerNames(), slices.Collect(maps.Keys(names.CCMControllerAliases())))
		hint := "known are " + strings.Join(ControllerNames(), ", ")
		if n := nearest.Of(name, known); n != "" {
			hint = "did you mean " + n + "?"
		}
		errs = append(errs, fmt.Errorf("--controllers: %q is not a controller: %s", name, hint))
	}
	return errs
}

// enabled reports whether items (--controllers) turn the controller on. As in the
// framework, an item that names it wins over '*'; of two that name it, the first wins.
// '-*' turns off everything that is not named.
func enabled(controller string, items []string) bool {
	star := false
	for _, item := range items {
		switch {
		case canonicalName(item) == controller:
			return true
		case strings.HasPrefix(item, "-") && canonicalName(item[1:]) == controller:
			return false
		case item == "*":
			star = true
		}
	}
	return star && !slices.Contains(items, "-*")
}
