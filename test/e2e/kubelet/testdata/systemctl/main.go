// Command systemctl stands in for systemd's, which needs a booted system: it writes down what it
// is told to do.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	line := strings.Join(os.Args[1:], " ") + " ignore-chroot=" + os.Getenv("SYSTEMD_IGNORE_CHROOT") + "\n"
	f, err := os.OpenFile("/run/isthmus-e2e/systemctl", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
