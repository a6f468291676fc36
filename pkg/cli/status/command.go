package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

// minInterval bounds how often all Nodes and Services are read.
const minInterval = time.Second

type options struct {
	access   access.Flags
	output   string
	watch    bool
	interval time.Duration
	leader   leaderFlags
	lease    leaseFlags

	now   func() time.Time
	after func(time.Duration) <-chan time.Time
	// redraws reports whether what is written there can be cleared.
	redraws func(io.Writer) bool
}

const long = `status shows what the controller manager works on and what waits: Nodes for their cloud's data, Services for
their load balancers, Nodes for their routes, and requests that the cloud throttles. It changes nothing.

What only the leader knows, its queues, throttled requests and last errors, comes from the page /status of its secure
port. The API server leads there, as for kubectl port-forward, and a short-lived token of a ServiceAccount that may read
that page and nothing else is sent. Where the API server does not lead there, name the port with --leader-url and the CA
of its certificate with --leader-ca: your own credentials go to that server, once its certificate was verified with
that CA. Where the leader does not answer, status says why, and shows what the API server knows.

The exit code is 0, whatever waits, and 2 where the question could not be answered.`

const example = `  # What waits now
  isthmus status

  # Look on until Ctrl-C
  isthmus status --watch

  # What the API server knows, without a question to the leader
  isthmus status --leader-service-account=

  # Ask the leader at a port that you can reach
  isthmus status --watch --leader-url=https://10.0.0.5:10258 --leader-ca=ca.crt`

// Command returns the command.
func Command() *cobra.Command {
	return command(&options{now: time.Now, after: time.After, redraws: redraws})
}

func command(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show what the controller manager works on, and what waits",
		Long:    long,
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	o.access.AddClusterTo(fs)
	output.AddFlag(fs, &o.output)
	fs.BoolVarP(&o.watch, "watch", "w", false, "look again and again until Ctrl-C; a terminal is redrawn, other output goes on")
	fs.DurationVar(&o.interval, "interval", 2*time.Second, "with --watch, the time between two looks; each one reads all Nodes and Services where the leader is not asked")
	o.leader.addTo(fs)
	o.lease.addTo(fs)
	return cmd
}

// redraws: consoles of Windows need to be told that there will be control sequences, and terminals of the kind "dumb" know none.
func redraws(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || runtime.GOOS == "windows" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (o *options) validate() error {
	errs := []error{o.access.ValidateCluster(), output.Validate(o.output), o.leader.validate(), o.lease.validate()}
	if o.interval < minInterval {
		errs = append(errs, fmt.Errorf("--interval %s: it must be at least %s", o.interval, minInterval))
	}
	return errors.Join(errs...)
}

func (o *options) run(ctx context.Context, stdout io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	client, config, err := o.access.Client(ctx)
	if err != nil {
		return err
	}
	r := &reader{client: client, lease: o.lease, now: o.now}
	if r.leader, err = o.leader.client(config); err != nil {
		return err
	}
	if r.leader == nil && o.leader.account != "" {
		if r.forwarder, err = o.leader.forwarder(config, o.now); err != nil {
			return err
		}
		defer r.forwarder.close()
	}
	if !o.watch {
		got, err := r.read(ctx)
		if err != nil {
			return err
		}
		return o.write(stdout, got, nil)
	}
	return o.look(ctx, r, stdout)
}

// look shows the status until ctx ends, which is no error. What cannot be read after the first time is shown as that.
func (o *options) look(ctx context.Context, r *reader, stdout io.Writer) error {
	var p *progress
	for {
		got, err := r.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it is how a watch ends
		case err != nil && p == nil:
			return err
		case err != nil:
			got = &report{Problem: err.Error(), Time: o.now().UTC()}
		case p == nil:
			p = newProgress(got)
		}
		if err == nil {
			p.note(got)
		}
		if err := o.write(stdout, got, p); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.after(o.interval):
		}
	}
}

// clear moves the cursor to the first cell and clears the terminal.
const clear = "\x1b[H\x1b[2J"

func (o *options) write(w io.Writer, r *report, p *progress) error {
	var b bytes.Buffer
	switch {
	case o.output == output.JSON:
	case p != nil && o.redraws(w):
		b.WriteString(clear)
	case p != nil && p.written:
		b.WriteByte('\n')
	}
	var err error
	if o.output == output.JSON {
		err = output.Encode(&b, r)
	} else {
		err = r.table(&b, p)
	}
	if err == nil {
		_, err = w.Write(b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if p != nil {
		p.written = true
	}
	return nil
}
