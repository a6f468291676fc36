package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// proxy stands before the APIs of a real cloud and counts the requests. Keystone's catalog as seen through
// it names its own addresses.
type proxy struct {
	keystone string
	servers  []*httptest.Server
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
	var replacements []string
	front := func(address string, change func(*http.Response) error) (string, error) {
		to, err := url.Parse(address)
		if err != nil {
			return "", err
		}
		base := to.Scheme + "://" + to.Host
		rp := &httputil.ReverseProxy{ModifyResponse: change, Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host // and the client's Host: links then name the proxy
		}}
		s := httptest.NewServer(p.counted(rp, record))
		p.servers = append(p.servers, s)
		replacements = append(replacements, base, s.URL)
		return s.URL + to.Path, nil
	}
	for _, address := range addresses {
		if _, err := front(address, nil); err != nil {
			return nil, err
		}
	}
	p.keystone, err = front(keystone, func(resp *http.Response) error {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		body = []byte(strings.NewReplacer(replacements...).Replace(string(body)))
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	})
	return p, err
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
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		p.mu.Lock()
		p.count.open--
		fmt.Fprintf(p.log, "%s %6d ms %d %s %s\n", began.Format("15:04:05.000"), time.Since(began).Milliseconds(), answer.status, r.Method, r.URL.RequestURI())
		p.mu.Unlock()
		record(r.Method, r.URL.Path, body, answer.status)
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (p *proxy) calls() calls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (p *proxy) close() {
	for _, s := range p.servers {
		s.Close()
	}
	fmt.Println("the requests are in", p.log.Name())
	_ = p.log.Close()
}
