package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider/install"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// trust finds what others than root could change of what the kubelet reads and runs, up to the root of the
// file system: its configuration, its programs, and what their arguments and variables name.
func (c *check) trust(entries []kubelet.Entry) {
	c.add(untrusted(kubelet.Problem, c.options.kubeletConfig, c.options.binDir)...)
	for _, e := range entries {
		program := filepath.Join(c.options.binDir, e.Name)
		c.add(untrusted(kubelet.Problem, e.File, program)...)
		c.add(untrustedNames(e, program)...)
	}
}

// untrustedNames is about the paths that an entry's arguments and variables have. What another program does with them is
// not known: it may only write there. In a directory like /tmp nobody replaces what belongs to another.
func untrustedNames(e kubelet.Entry, program string) []kubelet.Finding {
	level := kubelet.Warning
	if isOurs(program) {
		level = kubelet.Problem
	}
	return untrusted(level, slices.DeleteFunc(namedBy(e), func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.IsDir() && info.Mode()&fs.ModeSticky != 0
	})...)
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
