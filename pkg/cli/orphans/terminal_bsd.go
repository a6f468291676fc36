//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package orphans

import (
	"os"

	"golang.org/x/sys/unix"
)

// read is FREAD of sys/fcntl.h: what waits to be read.
const read = 1

// discardTyped has a terminal forget what was typed and not read. An error says that it is none.
func discardTyped(f *os.File) error {
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, read)
}
