// Package forwardtest is the two ends of what simulated load balancers forward, for tests: who answers, and who asks.
package forwardtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

const patience = 5 * time.Second

// Backend answers each TCP connection on an address with its name and the first line it gets, until stop is called or the test ends.
func Backend(t *testing.T, name, addr string) (stop func()) {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(patience))
			line, _ := bufio.NewReader(conn).ReadString('\n')
			_, _ = fmt.Fprintf(conn, "%s %s", name, strings.TrimSpace(line))
			_ = conn.Close()
		}
	}()
	stop = func() {
		_ = ln.Close()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// Ask sends the line "hello" to an address and reads the answer; from is the client's own address, "" for any.
func Ask(addr, from string) (string, error) {
	d := net.Dialer{Timeout: patience}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return "", err
	}
	out, err := io.ReadAll(conn)
	return string(out), err
}
