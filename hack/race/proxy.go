package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/test/wiretap"
)

// proxy stands before the APIs of a real cloud and counts the requests.
type proxy struct {
	keystone string
	tap      *wiretap.Tap
	log      *os.File // each request, as it ends

	mu    sync.Mutex
	count calls
}

// startProxy stands before Keystone and the APIs at the addresses. record is told of each request.
func startProxy(keystone string, record func(method, path string, body []byte, status int), addresses ...string) (*proxy, error) {
	log, err := os.CreateTemp("", "isthmus-race-requests-")
	if err != nil {
		return nil, err
	}
	p := &proxy{log: log}
	p.tap, err = wiretap.Start(keystone, addresses, func(_ string, forward http.Handler) http.Handler { return p.counted(forward, record) })
	if err != nil {
		return nil, err
	}
	p.keystone = p.tap.Keystone
	return p, nil
}

func (p *proxy) counted(next http.Handler, record func(string, string, []byte, int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.mu.Lock()
		p.count.open++
		if r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasSuffix(r.URL.Path, "/auth/tokens") {
			p.count.reads++
		} else {
			p.count.writes++
		}
		p.mu.Unlock()
		began := time.Now()
		answer := &wiretap.Answer{ResponseWriter: w, Status: http.StatusOK}
		next.ServeHTTP(answer, r)
		p.mu.Lock()
		p.count.open--
		fmt.Fprintf(p.log, "%s %6d ms %d %s %s\n", began.Format("15:04:05.000"), time.Since(began).Milliseconds(), answer.Status, r.Method, r.URL.RequestURI())
		p.mu.Unlock()
		record(r.Method, r.URL.Path, body, answer.Status)
	})
}

func (p *proxy) calls() calls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (p *proxy) close() {
	p.tap.Close()
	fmt.Println("the requests are in", p.log.Name())
	_ = p.log.Close()
}
