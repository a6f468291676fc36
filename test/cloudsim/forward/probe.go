package forward

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Probe is one question to one member.
type Probe struct {
	At      netip.AddrPort
	Type    string
	Method  string
	Path    string
	Codes   string
	Timeout time.Duration
}

// Ask reports whether the member lives. What cannot be asked without privileges or TLS is asked by
// connecting, UDP by whether the port refuses.
func (p *Probe) Ask(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	switch p.Type {
	case "HTTP":
		return p.askHTTP(ctx)
	case "UDP-CONNECT":
		return p.askUDP(ctx)
	case "PING":
		return true // whoever has an address answers
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.At.String())
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func (p *Probe) askHTTP(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, p.Method, "http://"+p.At.String()+p.Path, nil)
	if err != nil {
		return false
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	return expected(p.Codes, res.StatusCode)
}

// expected reports whether a status is among "200", "200,202" or "200-204".
func expected(codes string, status int) bool {
	if low, high, is := strings.Cut(codes, "-"); is {
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		return errA == nil && errB == nil && a <= status && status <= b
	}
	for part := range strings.SplitSeq(codes, ",") {
		if strings.TrimSpace(part) == strconv.Itoa(status) {
			return true
		}
	}
	return false
}

// udpPatience is how long a UDP port has to refuse.
const udpPatience = 100 * time.Millisecond

func (p *Probe) askUDP(ctx context.Context) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", p.At.String())
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(nil); err != nil {
		return false
	}
	if conn.SetReadDeadline(time.Now().Add(udpPatience)) != nil {
		return false
	}
	_, err = conn.Read(make([]byte, 1))
	timeout, is := err.(net.Error) //nolint:errorlint // net returns it unwrapped
	return err == nil || is && timeout.Timeout()
}
