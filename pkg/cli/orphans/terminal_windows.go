package orphans

import (
	"os"

	"golang.org/x/sys/windows"
)

// discardTyped has a console forget what was typed and not read. An error says that it is none.
func discardTyped(f *os.File) error {
	return windows.FlushConsoleInputBuffer(windows.Handle(f.Fd()))
}
