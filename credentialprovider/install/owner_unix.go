//go:build unix

package install

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// fileOwner is the user to whom a file belongs.
func fileOwner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return os.Geteuid()
}

// lockFile keeps others out of an open directory until it is closed; false if somebody is in it.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
