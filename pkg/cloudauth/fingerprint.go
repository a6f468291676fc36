package cloudauth

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// maxFingerprint bounds what is read of one file: no file with credentials is larger.
const maxFingerprint = 4 << 20

// Fingerprint returns a value that changes when the content of one of the files does, or
// when one of them appears or goes away. It reads the content, because times and inodes
// tell nothing reliable about files that are swapped by symbolic links, as Kubernetes does
// with mounted Secrets.
func Fingerprint(paths ...string) string {
	h := sha256.New()
	for _, p := range paths {
		_, _ = fmt.Fprintf(h, "%q", p) // a hash takes everything
		f, err := os.Open(p)
		if err != nil {
			_, _ = fmt.Fprint(h, "!")
			continue
		}
		n, err := io.Copy(h, io.LimitReader(f, maxFingerprint))
		_, _ = fmt.Fprintf(h, "#%d %t", n, err != nil)
		_ = f.Close()
	}
	return string(h.Sum(nil))
}
