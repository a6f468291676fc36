//go:build unix

package install

import (
	"os"
	"syscall"
	"testing"
)

// Temporary directories are for their owner alone to write to, as those of nodes are, whatever the user's umask is.
func TestMain(m *testing.M) {
	syscall.Umask(0o022)
	os.Exit(m.Run())
}
