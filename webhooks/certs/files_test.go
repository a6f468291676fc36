package certs

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// TestFileError: tests may run as root, whom no permission stops, so the words are checked alone.
func TestFileError(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EACCES: "open /certs/tls.key: permission denied; give the user that runs this process (uid ",
		syscall.ENOENT: "open /certs/tls.key: no such file or directory; put tls.crt and tls.key there",
		syscall.EROFS:  "open /certs/tls.key: read-only file system",
	} {
		err := fileError(&fs.PathError{Op: "open", Path: "/certs/tls.key", Err: errno})
		if err == nil || !strings.HasPrefix(err.Error(), "webhook certificate: "+want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := fileError(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
