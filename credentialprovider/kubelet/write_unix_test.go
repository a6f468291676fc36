//go:build unix

package kubelet

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// A file that cannot take its place, as a directory has come to be there meanwhile, leaves nothing behind and says so.
func TestWriteFileThatCannotTakeItsPlace(t *testing.T) {
	dir := t.TempDir()
	file, aside := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "aside")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	swapped := make(chan error, 1)
	go func() {
		var w *os.File
		eventually.True(t, "it is read", func() (open bool) {
			var err error
			w, err = os.OpenFile(file, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			return err == nil // else nobody reads yet
		})
		err := os.Rename(file, aside)
		if err == nil {
			err = os.Mkdir(file, 0o700)
		}
		if closeErr := w.Close(); err == nil { // it is empty
			err = closeErr
		}
		swapped <- err
	}()
	changed, err := WriteFile(file, []byte("new"), true)
	if swapErr := <-swapped; swapErr != nil {
		t.Fatal(swapErr)
	}
	if err == nil || changed {
		t.Errorf("it is said to be there: %t, %v", changed, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("it leaves %v, %v", entries, err)
	}
}
