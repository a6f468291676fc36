// Command credential-provider (binary isthmus-credential-provider) is a kubelet image
// credential provider: it reads a CredentialProviderRequest from stdin and writes a
// CredentialProviderResponse to stdout.
package main

//go:generate go run ../../hack/gen-flags . isthmus-credential-provider ../../docs/reference/flags-isthmus-credential-provider.md config check install

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}
