package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports that FreePort returns are below those that the kernel gives to outgoing
// connections and to listeners that do not mind (Linux: 32768 to 60999): no other process
// gets one before the process that it is meant for.
const (
	firstPort = 10000
	lastPort  = 32000
)

// FreePort returns a TCP port of a local address that nobody listens on now, for a process
// that is to be told where to listen.
func FreePort(ip string) (string, error) {
	var err error
	for range 50 {
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort))
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(ip, port)); err == nil { //nolint:noctx // closed at once
			return port, l.Close()
		}
	}
	return "", fmt.Errorf("no free port on %s: %w", ip, err)
}

// MustFreePort is FreePort for a test.
func MustFreePort(t testing.TB, ip string) string {
	t.Helper()
	port, err := FreePort(ip)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
