package orphans

import (
	"os"

	"golang.org/x/sys/unix"
)

// discardTyped has a terminal forget what was typed and not read. An error says that it is none.
func discardTyped(f *os.File) error { return unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
