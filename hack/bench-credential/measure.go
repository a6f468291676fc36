package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// measured is a program in a world with what its runs took.
type measured struct {
	name    string
	program string
	run     world
	// first says that the run ends with the first byte that it sends.
	first bool
	took  []time.Duration
}

func (m *measured) median() time.Duration {
	slices.Sort(m.took)
	return m.took[len(m.took)/2]
}

// address is where simulators listen.
var address = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

// once runs the program once.
func (m *measured) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	env, args := m.run.env, m.run.args
	killed := make(chan bool, 1)
	cmd := exec.CommandContext(ctx, m.program)
	if m.first && !m.run.silent {
		gate, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer func() { _ = gate.Close() }()
		instead := func(list []string) []string {
			var out []string
			for _, one := range list {
				out = append(out, address.ReplaceAllString(one, gate.Addr().String()))
			}
			return out
		}
		env, args = instead(env), instead(args)
		if m.run.conf != nil {
			file, err := m.run.conf(gate.Addr().String())
			if err != nil {
				return err
			}
			args = append(slices.Clone(args), "--cloud-config="+file)
		}
		go func() { killed <- firstByte(gate, cancel) }() // which may be before this process knows the other's id
	} else if m.run.conf != nil {
		file, err := m.run.conf("")
		if err != nil {
			return err
		}
		args = append(slices.Clone(args), "--cloud-config="+file)
	}
	var stdout, stderr bytes.Buffer
	cmd.Args = append(cmd.Args, args...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}, env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(m.run.request), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return err
	case m.first && !m.run.silent:
		select {
		case ok := <-killed:
			if !ok {
				return fmt.Errorf("it sent nothing: %s", stderr.String())
			}
		case <-time.After(time.Second):
			return fmt.Errorf("it sent nothing: %s", stderr.String())
		}
	case err != nil:
		return fmt.Errorf("%w: %s", err, stderr.String())
	case m.run.request != "" && !strings.Contains(stdout.String(), "password"):
		return errors.New("it gave no credentials")
	}
	m.took = append(m.took, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	return nil
}

// firstByte waits for the first byte that arrives, and then calls then, which kills who sent it.
func firstByte(gate net.Listener, then func()) bool {
	conn, err := gate.Accept()
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	n, err := conn.Read(make([]byte, 1))
	then()
	return err == nil && n == 1
}
