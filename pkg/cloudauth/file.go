package cloudauth

import (
	"fmt"
	"io"
	"os"
)

// MaxFile is the size over which ReadFile refuses a file: none with a configuration or credentials is longer.
const MaxFile = 1 << 20

// ReadFile reads a whole file that somebody configured. Its errors name the file and show nothing of it.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // somebody names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		return nil, fmt.Errorf("%s is longer than %d KiB", path, MaxFile>>10)
	}
	return data, err
}
