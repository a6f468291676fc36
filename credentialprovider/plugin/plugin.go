// Package plugin is what the kubelet runs: it answers one request on stdin with one response on stdout, in time,
// whatever hangs.
package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// Options are what is served, and how.
type Options struct {
	Source  config.Source
	Timeout time.Duration
	// Verbose tells which fields of a request are not known, too.
	Verbose bool
}

// Serve answers one request. It returns what else there is to tell, one line each. What blocks in it (a stdin that is never closed) does not keep
// the program from ending in time.
func (o Options) Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) (warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var response bytes.Buffer
	var noted []string
	done := make(chan error, 1)
	asked := make(chan struct{})
	go func() {
		request, err := credentialprovider.ReadRequest(stdin)
		close(asked)
		if err == nil {
			noted, err = o.answer(ctx, request, &response)
		}
		done <- err
	}()
	ended, err := wait(ctx, done)
	switch {
	case !ended: // what it notes is still being written
		return nil, o.unfinished(ctx, asked)
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		err = fmt.Errorf("stopped by a signal: %w", err)
	}
	if err == nil {
		_, err = io.Copy(stdout, &response)
	}
	return noted, err
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

// unfinished says what was waited for when there was no answer in time.
func (o Options) unfinished(ctx context.Context, asked <-chan struct{}) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("stopped by a signal before there was an answer")
	}
	select {
	case <-asked:
		return fmt.Errorf("no answer after %s (--timeout); something on this machine blocks: a file of the configuration on a file system that hangs, or a program that it names", o.Timeout)
	default:
		return fmt.Errorf("no request on stdin after %s (--timeout); stdin has to be closed after the request", o.Timeout)
	}
}

func (o Options) answer(ctx context.Context, request *credentialprovider.Request, out io.Writer) (warnings []string, err error) {
	c, err := o.Source.Read()
	if err != nil {
		return nil, err
	}
	set := c.Set(o.forProviders(), func(w string) { warnings = append(warnings, w) })
	if o.Verbose && len(request.Ignored) > 0 {
		warnings = append(warnings, fmt.Sprintf("fields of the request that are not known here are ignored: %q", request.Ignored))
	}
	response, err := set.Answer(ctx, request)
	if err != nil {
		return warnings, err
	}
	return warnings, response.Write(out)
}

// forProviders is what every kind of registry is told. What hangs costs a third of the time at most, as no request is
// sent again that is not answered in time: then there is time left to say so, and for what else is asked.
func (o Options) forProviders() credentialprovider.Options {
	return credentialprovider.Options{UserAgent: credentialprovider.Program + "/" + version.String(), Timeout: o.Timeout / 3}
}
