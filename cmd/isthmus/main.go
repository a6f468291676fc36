// Command isthmus answers an operator's questions about a cluster and its cloud. It changes nothing of either but what a command is
// asked to.
package main

//go:generate go run ../../hack/gen-flags . isthmus ../../docs/reference/flags-isthmus.md

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/isthmus-cloud/isthmus/pkg/cli"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, filepath.Base(os.Args[0]), os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process; name is what the program was called as. It returns the exit code: 2 where the question could
// not be answered, and what the command says otherwise. Each error is one line on stderr.
func run(ctx context.Context, name string, args []string, stdout, stderr io.Writer) int {
	logger := logr.Discard() // what libraries log is for controllers
	klog.SetLogger(logger)
	ctrl.SetLogger(logger)
	root := cli.Command(name)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(klog.NewContext(ctx, logger))
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[output.Exit](err); ok {
		return int(code)
	}
	if strings.HasPrefix(err.Error(), "unknown command ") { // cobra has no hook for it
		err = cli.Misused(cmd, err)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		if strings.TrimSpace(line) == "" {
			continue // between an unknown command and those that it may mean
		}
		_, _ = fmt.Fprintf(stderr, "isthmus: %s\n", output.Line(line)) // it may be the words of a server
	}
	return 2
}
