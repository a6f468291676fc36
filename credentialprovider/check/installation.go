package check

import (
	"path/filepath"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// Installation is a configuration that is about to be installed.
type Installation struct {
	// BinDir has the programs of others, and ConfigDir is where the files go.
	BinDir, ConfigDir string
	// Find says where a file that is named can be read now.
	Find func(file string) string
	// Parse reads arguments as the program does when the kubelet runs it.
	Parse func(args []string) (config.Source, error)
}

// IsOurs reports whether an entry of this name will run this program.
func IsOurs(entry string) bool {
	return entry == credentialprovider.Program || strings.HasPrefix(entry, credentialprovider.Program+"-")
}

// Findings are whatever would keep the kubelet from starting with these entries, or this program from answering.
func (i Installation) Findings(entries []kubelet.Entry) []kubelet.Finding {
	findings := kubelet.Validate(entries, "")
	var ours []*ourEntry
	for _, e := range entries {
		if IsOurs(e.Name) {
			ours = append(ours, &ourEntry{Entry: e, parse: i.Parse, find: i.Find, installs: i.ConfigDir})
			continue
		}
		// Another program has to be there.
		findings = append(findings, kubelet.Validate([]kubelet.Entry{e}, i.BinDir)...)
		findings = append(findings, untrusted(kubelet.Problem, filepath.Join(i.BinDir, e.Name))...)
		findings = append(findings, untrustedNames(kubelet.Warning, namedBy(e), i.Find)...)
	}
	return append(findings, checkOurs(ours)...)
}
