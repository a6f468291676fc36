package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

// forwarded is a connection to a port of a pod.
type forwarded struct {
	net.Conn
	failed atomic.Pointer[error] // why the kubelet has ended it
}

// Read implements net.Conn.
func (c *forwarded) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.why(err)
}

// Write implements net.Conn.
func (c *forwarded) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.why(err)
}

func (c *forwarded) why(err error) error {
	if failed := c.failed.Load(); err != nil && failed != nil {
		return *failed
	}
	return err
}

// port is one of the pod that by leads to.
type port struct {
	by     httpstream.Connection
	number string
	dialed atomic.Int64
}

// dial makes a connection of two streams, one for what is sent and answered, the other for what fails. It ends with by at the latest.
func (p *port) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, p.number)
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(p.dialed.Add(1), 10))
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := p.by.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("forward a connection: %w", err)
	}
	_ = failures.Close() // nothing is written to it
	failed := make(chan error, 1)
	go func() {
		if why, _ := io.ReadAll(io.LimitReader(failures, maxReason)); len(why) > 0 {
			failed <- errors.New(output.Line(string(why)))
		}
		close(failed)
	}()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := p.by.CreateStream(headers)
	if err != nil { // the kubelet may have known at once that nothing listens there
		select {
		case why := <-failed:
			err = cmp.Or(why, err)
		case <-ctx.Done():
		}
		_ = failures.Reset()
		p.by.RemoveStreams(failures)
		return nil, fmt.Errorf("forward a connection: %w", err)
	}
	here, there := net.Pipe()
	out := &forwarded{Conn: here}
	go func() {
		_, _ = io.Copy(there, data)
		if why := <-failed; why != nil {
			out.failed.Store(&why)
		}
		_ = there.Close()
	}()
	go func() {
		_, _ = io.Copy(data, there)
		_ = data.Reset()
		_ = failures.Reset()
		p.by.RemoveStreams(failures, data)
	}()
	return out, nil
}
