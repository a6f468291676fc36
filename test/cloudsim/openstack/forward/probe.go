package openstack

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// probe is one question to one member.
type probe struct {
	at      netip.AddrPort
	typ     string
	method  string
	path    string
	codes   string
	timeout time.Duration
}

// ask reports whether the member lives. What cannot be asked without privileges or TLS is asked by
// connecting, UDP by whether the port refuses.
func (p *probe) ask(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	switch p.typ {
	case "HTTP":
		return p.askHTTP(ctx)
	case "UDP-CONNECT":
		return p.askUDP(ctx)
	case "PING":
		return true // whoever has an address answers
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.at.String())
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func (p *probe) askHTTP(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, p.method, "http://"+p.at.String()+p.path, nil)
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
	return expected(p.codes, res.StatusCode)
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

func (p *probe) askUDP(ctx context.Context) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", p.at.String())
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
