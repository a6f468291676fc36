// Package wiretap stands before the APIs of a real OpenStack, so that the requests to it can be seen.
package wiretap

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
)

// Tap has a listener for each address of the APIs. Keystone's catalog as seen through it names these.
type Tap struct {
	// Keystone is its URL, through the tap.
	Keystone string
	servers  []*httptest.Server
}

// Start stands before Keystone and the APIs at other URLs; see is put around what forwards the requests for a URL. APIs at
// one address have one listener, that of the first URL.
func Start(keystone string, others []string, see func(api string, forward http.Handler) http.Handler) (*Tap, error) {
	t := &Tap{}
	var replacements []string
	known := map[string]string{} // addresses, by those that they stand before
	front := func(api string, change func(*http.Response) error) (string, error) {
		to, err := url.Parse(api)
		if err != nil {
			return "", err
		}
		base := to.Scheme + "://" + to.Host
		if known[base] == "" {
			s := httptest.NewServer(see(api, &httputil.ReverseProxy{ModifyResponse: change, Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host // and the client's Host: links then name the tap
			}}))
			t.servers = append(t.servers, s)
			replacements = append(replacements, base, s.URL)
			known[base] = s.URL
		}
		return known[base] + to.Path, nil
	}
	// Keystone first: where it shares an address, what passes there is changed.
	var err error
	t.Keystone, err = front(keystone, func(resp *http.Response) error {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		body = []byte(strings.NewReplacer(replacements...).Replace(string(body)))
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	})
	for _, api := range others {
		if err == nil {
			_, err = front(api, nil)
		}
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close ends the listeners.
func (t *Tap) Close() {
	for _, s := range t.servers {
		s.Close()
	}
}

// Answer passes an answer on and notes its status.
type Answer struct {
	http.ResponseWriter
	Status int
}

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) {
	a.Status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
