package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider/install"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// trust finds what others than root could change of what the kubelet reads and runs, up to the root of the
// file system: its configuration, its programs, and what their arguments and variables name.
func (c *check) trust(entries []kubelet.Entry) {
	paths := []string{c.options.kubeletConfig, c.options.binDir}
	for _, e := range entries {
		paths = append(paths, e.File, filepath.Join(c.options.binDir, e.Name))
		paths = append(paths, namedBy(e)...)
	}
	c.add(untrusted(paths)...)
}

// namedBy are the paths that an entry's arguments and variables have.
func namedBy(e kubelet.Entry) []string {
	var values []string
	for _, arg := range e.Args {
		if _, value, isFlag := strings.Cut(arg, "="); isFlag {
			arg = value
		}
		values = append(values, arg)
	}
	for _, v := range e.Env {
		values = append(values, filepath.SplitList(v.Value)...)
	}
	return slices.DeleteFunc(values, func(v string) bool { return !filepath.IsAbs(v) })
}

// untrusted are the flaws of paths, each once.
func untrusted(paths []string) []kubelet.Finding {
	var findings []kubelet.Finding
	for _, path := range paths {
		for _, f := range install.Flaws(path) {
			found := kubelet.Finding{Level: kubelet.Problem, File: f.Path, Cause: f.Cause, Next: f.Next}
			if !slices.Contains(findings, found) {
				findings = append(findings, found)
			}
		}
	}
	return findings
}
