package doctor

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

const guide = "../../../docs/guides/doctor.md"

// TestGuide: the guide has the misconfigurations that TestMisconfigurations seeds, and the clouds on which it finds them.
func TestGuide(t *testing.T) {
	data, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "-update. -->\n\n"
	prose, _, ok := strings.Cut(string(data), begin)
	if !ok {
		t.Fatalf("%s has no line that ends in %q", guide, strings.TrimSpace(begin))
	}
	clouds := []string{"openstack", "aws", "vsphere", "vsphere-paravirtual"}
	var b strings.Builder
	b.WriteString(prose + begin + "| misconfiguration | check | severity | OpenStack | AWS | vSphere | vSphere, paravirtual |\n|---|---|---|---|---|---|---|\n")
	for _, f := range allFaults() {
		severity := output.Warning
		if f.code == 1 {
			severity = output.Error
		}
		fmt.Fprintf(&b, "| %s | %s | %s |", f.name, f.check, severity)
		for _, c := range clouds {
			found := " found |"
			if !f.on(c) {
				found = " – |"
			}
			b.WriteString(found)
		}
		b.WriteString("\n")
	}
	golden.Compare(t, guide, b.String())
}
