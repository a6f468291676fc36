package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// binVariable is set by hack/sandbox: the folder with the programs that are run.
const binVariable = "ISTHMUS_E2E_BIN"

// environment is the sandbox that all machines are in.
type environment struct {
	root   string    // of the repository
	bin    string    // programs
	dir    string    // all that is written
	events io.Writer // what happens to programs
}

// newEnvironment checks that this process is in the sandbox.
func newEnvironment(dir string, events io.Writer) (*environment, error) {
	bin := os.Getenv(binVariable)
	if bin == "" {
		return nil, errors.New("a cluster needs namespaces of its own: run `make e2e-cluster`, or `make quickstart CLUSTER=1`")
	}
	e := &environment{root: filepath.Join(bin, "../.."), bin: bin, dir: dir, events: events}
	return e, os.MkdirAll(e.logs(), 0o755)
}

// program is the path of a program: of the sandbox, if it has no folder and is there.
func (e *environment) program(name string) string {
	if path := filepath.Join(e.bin, name); !strings.Contains(name, "/") {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return name
}

// libraries is the variable by which the programs find what Debian's packages have for them.
func (e *environment) libraries() string { return "LD_LIBRARY_PATH=" + filepath.Join(e.bin, "lib") }

func (e *environment) logs() string { return filepath.Join(e.dir, "logs") }

// log opens the log of a program in a boot of a machine.
func (e *environment) log(machine, program string, boot int) (*os.File, error) {
	name := fmt.Sprintf("%s-%s-%d.log", machine, filepath.Base(program), boot)
	return os.OpenFile(filepath.Join(e.logs(), name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// run runs a program outside of the machines, in the cloud's network.
func (e *environment) run(ctx context.Context, program string, args ...string) error {
	_, err := e.output(ctx, nil, program, args...)
	return err
}

// output is run with an input and its output.
func (e *environment) output(ctx context.Context, in io.Reader, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, e.program(program), args...)
	cmd.Stdin, cmd.Env = in, append(os.Environ(), e.libraries())
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, tail(out, 2<<10))
	}
	return string(out), err
}
