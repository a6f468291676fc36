package check

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/isthmus-cloud/isthmus/credentialprovider/install"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// trust finds what others than root could change of what the kubelet reads and runs, up to the root of the
// file system: its configuration, its programs, and what their arguments and variables name, and that again.
func (c *Check) trust(entries []kubelet.Entry) {
	if user := os.Geteuid(); user > 0 {
		c.add(kubelet.Finding{Level: kubelet.Unchecked, Cause: fmt.Sprintf("what belongs to the user %d, who runs this, is trusted like what is root's: whether the kubelet may trust it was not looked at", user), Next: "run this as root"})
	}
	c.add(untrusted(kubelet.Problem, c.options.KubeletConfig, c.options.BinDir)...)
	for _, e := range entries {
		program := filepath.Join(c.options.BinDir, e.Name)
		c.add(untrusted(kubelet.Problem, e.File, program)...)
		switch ours := isOurs(program); { // what ours has in its entry is looked at with the rest of it
		case !ours:
			c.add(untrustedNames(kubelet.Warning, namedBy(e), asNamed)...)
		case c.kubelet.pid != 0:
			c.add(untrustedNames(kubelet.Problem, inherited(c.environ), asNamed)...)
		}
	}
}

// asNamed is where a file can be read on a node: where it is named.
func asNamed(file string) string { return file }

// untrustedNames is about named paths, and all that the files there name; what find has elsewhere is about to be installed,
// and gets its owner and mode then. What another program does with them is not known: it may only write there. In a
// directory like /tmp nobody replaces what belongs to another.
func untrustedNames(level kubelet.Level, paths []string, find func(string) string) []kubelet.Finding {
	paths, unread := named(paths, find)
	findings := untrusted(level, slices.DeleteFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return find(path) != path || err == nil && info.IsDir() && info.Mode()&fs.ModeSticky != 0
	})...)
	for _, file := range unread {
		findings = append(findings, kubelet.Finding{Level: kubelet.Unchecked, File: file, Cause: "it may not be read by who runs this: what it names was not looked at", Next: "run this as root"})
	}
	return findings
}

// untrusted are the flaws of paths, each once.
func untrusted(level kubelet.Level, paths ...string) []kubelet.Finding {
	var findings []kubelet.Finding
	for _, path := range paths {
		for _, f := range install.Flaws(path) {
			found := kubelet.Finding{Level: level, File: f.Path, Cause: f.Cause, Next: f.Next}
			if !slices.Contains(findings, found) {
				findings = append(findings, found)
			}
		}
	}
	return findings
}
