package pv

import (
	"fmt"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Condition is a CEL expression over a PersistentVolume, "object", that is false only where
// nothing would be decided: for those that are not dynamically provisioned with both labels
// (Trusted), and are of none of the sources, name no volume yet, or come from a CSI driver's
// provisioner. It needs no field to be there.
func Condition(sources []cloud.VolumeSource) string {
	var ours []string
	for _, s := range sources {
		is := fmt.Sprintf("has(object.spec.%s)", s.Field)
		if s.Driver != "" {
			is += fmt.Sprintf(" && object.spec.%s.driver == %q", s.Field, s.Driver)
		}
		ours = append(ours, fmt.Sprintf("(%s && object.spec.%s.%s != %q)", is, s.Field, s.NameField, cloud.VolumePlaceholder))
	}
	own := strings.Join(ours, " || ")
	if own == "" {
		own = "false"
	}
	var pairs []string
	for _, keys := range trustedPairs() {
		pairs = append(pairs, fmt.Sprintf("(%q in object.metadata.labels && %q in object.metadata.labels)", keys[0], keys[1]))
	}
	return fmt.Sprintf("has(object.metadata.annotations) && %q in object.metadata.annotations\n"+
		"? (has(object.metadata.labels) && (%s)) || (!has(object.spec.csi) && (%s))\n"+
		": (%s)", annotationProvisionedBy, strings.Join(pairs, " || "), own, own)
}
