package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// namedFile is a file that a kind of registry reads only when there is an image to pull.
type namedFile struct{ kind, key, path string }

// namedFiles are those of a configuration.
func namedFiles(c *config) []namedFile {
	var all []namedFile
	for _, s := range sections() {
		if s.files == nil || s.identity(c) == nil {
			continue
		}
		for _, f := range s.files(c) {
			if f.path != "" {
				all = append(all, f)
			}
		}
	}
	return all
}

// files finds files that are named and are not there.
func (o *ourEntry) files(c *config) {
	for _, f := range namedFiles(c) {
		at := o.locate(f.path)
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrPermission):
			o.add(kubelet.Unchecked, "args", fmt.Sprintf("%s of %s is %s, which cannot be looked at", f.key, f.kind, at), "run this as root")
		case err != nil && o.installs != "" && filepath.Dir(filepath.Clean(f.path)) != filepath.Clean(o.installs):
			// Another's file, which may come later, or be out of the sight of a container.
			o.add(kubelet.Unchecked, "args", fmt.Sprintf("%s of %s is %s, which is not there yet", f.key, f.kind, at), "see that it comes")
		case err != nil:
			o.add(kubelet.Problem, "args", fmt.Sprintf("%s of %s is %s, which is not there: every image of %s is refused", f.key, f.kind, at, f.kind), "put it there, or correct "+f.key)
		case !info.Mode().IsRegular():
			o.add(kubelet.Problem, "args", fmt.Sprintf("%s of %s is %s, which is no file: every image of %s is refused", f.key, f.kind, at, f.kind), "correct "+f.key)
		case runtime.GOOS != "windows" && at == f.path && info.Mode().Perm()&0o004 != 0:
			o.add(kubelet.Warning, "args", fmt.Sprintf("%s of %s is %s, which every user of the node can read", f.key, f.kind, at), "chmod o-r "+at)
		}
	}
}
