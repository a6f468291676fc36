package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// files finds files that are named and are not there.
func (o *ourEntry) files(k config.Kind) {
	for _, f := range k.Files() {
		at := o.locate(f.Path)
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrPermission):
			o.add(kubelet.Unchecked, "args", fmt.Sprintf("%s of %s is %s, which cannot be looked at", f.Key, k.Name, at), "run this as root")
		case err != nil && o.installs != "" && filepath.Dir(filepath.Clean(f.Path)) != filepath.Clean(o.installs):
			// Another's file, which may come later, or be out of the sight of a container.
			o.add(kubelet.Unchecked, "args", fmt.Sprintf("%s of %s is %s, which is not there yet", f.Key, k.Name, at), "see that it comes")
		case err != nil:
			o.add(kubelet.Problem, "args", fmt.Sprintf("%s of %s is %s, which is not there: every image of %s is refused", f.Key, k.Name, at, k.Name), "put it there, or correct "+f.Key)
		case !info.Mode().IsRegular():
			o.add(kubelet.Problem, "args", fmt.Sprintf("%s of %s is %s, which is no file: every image of %s is refused", f.Key, k.Name, at, k.Name), "correct "+f.Key)
		case runtime.GOOS != "windows" && at == f.Path && info.Mode().Perm()&0o004 != 0:
			o.add(kubelet.Warning, "args", fmt.Sprintf("%s of %s is %s, which every user of the node can read", f.Key, k.Name, at), "chmod o-r "+at)
		}
	}
}
