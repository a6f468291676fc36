package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

const name = "isthmus-credential-provider"

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// maxTimeout is a little less than the minute after which the kubelet kills a provider
// without a word.
const maxTimeout = 55 * time.Second

const help = `isthmus-credential-provider gives the kubelet credentials for image registries in an
OpenStack cloud. The kubelet runs it: a CredentialProviderRequest comes in on stdin, a
CredentialProviderResponse goes out on stdout; on failure there is one line on stderr and
the exit code is 1 (2 for wrong flags).

Flags:
  --cloud-config FILE   cloud.conf with the login in [Global] and the registries (default
                        /etc/kubernetes/cloud.conf)
  --timeout DURATION    give up after this time, at most 55s (default 30s)
  --version             print the version
  --help                print this text

Registries in cloud.conf:
  [Registry "keppel.example.com"]    # the registry asks Keystone: it gets the login of [Global]
  type = keppel

  [Registry "registry.local:5000"]   # the credentials are kept in Barbican
  type = barbican
  secret = registry-credentials      # reference, id or name; its payload is a dockerconfigjson
  cache-duration = 10m               # optional; default: the kubelet's configuration

In the kubelet's CredentialProviderConfig:
  providers:
  - name: isthmus-credential-provider
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages: ["keppel.example.com", "registry.local:5000"]
    defaultCacheDuration: 10m
    args: ["--cloud-config=/etc/kubernetes/cloud.conf"]

Try it:
  echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest",
  "image":"registry.local:5000/app"}' | isthmus-credential-provider --cloud-config FILE
`

type options struct {
	cloudConfig string
	timeout     time.Duration
	version     bool
}

// run is the program: it returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOf(write(stdout, help))
	case err != nil:
		complain(stderr, err)
		return exitUsage
	case o.version:
		return exitOf(write(stdout, name+" "+version.String()+"\n"))
	}
	if err := serve(ctx, o, stdin, stdout, stderr); err != nil {
		complain(stderr, err)
		return exitFailed
	}
	return exitOK
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.cloudConfig, "cloud-config", "/etc/kubernetes/cloud.conf", "")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Second, "")
	flags.BoolVar(&o.version, "version", false, "")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w; see --help", err)
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	case o.timeout <= 0 || o.timeout > maxTimeout:
		return o, fmt.Errorf("--timeout is %s; it has to be more than 0 and at most %s, because the kubelet kills its providers after a minute", o.timeout, maxTimeout)
	}
	return o, nil
}

// serve answers one request. What blocks in it (a stdin that is never closed) does not keep
// the program from ending in time.
func serve(ctx context.Context, o options, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var response bytes.Buffer
	var warnings []string
	done := make(chan error, 1)
	go func() {
		var err error
		warnings, err = answer(ctx, o, stdin, &response)
		done <- err
	}()
	ended, err := wait(ctx, done)
	if !ended {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("no request on stdin after %s (--timeout); stdin has to be closed after the request", o.timeout)
		}
		return errors.New("stopped by a signal before there was an answer")
	}
	for _, w := range warnings {
		complain(stderr, errors.New("warning: "+w))
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(stdout, &response)
	return err
}

// grace is how long after the deadline or a signal the answer may still take: a request to
// the cloud that was cut short says by itself what it was waiting for.
const grace = 500 * time.Millisecond

// wait returns true and what done delivers, or false when it delivers nothing in time.
func wait(ctx context.Context, done <-chan error) (bool, error) {
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return true, err
	case <-timer.C:
		return false, nil
	}
}

func answer(ctx context.Context, o options, stdin io.Reader, out io.Writer) ([]string, error) {
	request, err := credentialprovider.ReadRequest(stdin)
	if err != nil {
		return nil, err
	}
	provider, warnings, err := openstack.New(o.cloudConfig, name+"/"+version.String(), o.timeout)
	if err != nil {
		return warnings, err
	}
	response, err := credentialprovider.Answer(ctx, request, provider)
	if err != nil {
		return warnings, err
	}
	return warnings, response.Write(out)
}

// complain writes one line, whatever the error looks like.
func complain(w io.Writer, err error) {
	line := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	_, _ = fmt.Fprintf(w, "%s: %s\n", name, line) // there is nowhere else to say it
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

func exitOf(err error) int {
	if err != nil {
		return exitFailed
	}
	return exitOK
}
