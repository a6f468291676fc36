package hosted_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// target is a server with all webhooks, as it is shipped, on the real provider of a simulated cloud.
type target struct {
	url string
	ca  *x509.CertPool
	log *lines
	sim *ossim.Sim
}

func startTarget(t *testing.T) *target {
	t.Helper()
	sim := ossim.ForTest(t)
	p, _, err := openstack.New(t.Context(), sim.ConfFile(t, ""), cloud.Options{UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	o := server.NewOptions()
	o.Certs, o.Metrics = certstest.Source(t, t.TempDir()), prometheus.NewRegistry()
	if o.Listener, err = net.Listen("tcp", "0.0.0.0:0"); err != nil { //nolint:gosec // clients have several addresses of loopback
		t.Fatal(err)
	}
	s, err := server.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range hosted.All() {
		s.Register(w.Name, w.Path, w.New(webhooks.Environment{Provider: p, Classes: lb.NewClasses(&p.LoadBalancing, true)}))
	}
	_, port, err := net.SplitHostPort(o.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	out := &target{url: "https://127.0.0.1:" + port, ca: x509.NewCertPool(), log: &lines{}, sim: sim}
	out.ca.AppendCertsFromPEM(s.CABundle())
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(5), textlogger.Output(out.log)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(t.Context()), logger))
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	eventually.NoError(t, func() error { return s.Ready((&http.Request{}).WithContext(t.Context())) })
	return out
}

// client is one with this address.
func (s *target) client(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	tr := &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: s.ca, ServerName: "127.0.0.1", InsecureSkipVerify: s.ca == nil}} //nolint:gosec // on loopback
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// ask returns the answer to a request, or to one whose uid is not known the Status.
func (s *target) ask(ctx context.Context, c *http.Client, a attack, timeout string) (size int, resp *admissionv1.AdmissionResponse, status *metav1.Status, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+a.path+"?timeout="+timeout, strings.NewReader(a.body))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := c.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = r.Body.Close() }()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, nil, err
	}
	if r.StatusCode != http.StatusOK {
		status = &metav1.Status{}
		return len(data), nil, status, json.Unmarshal(data, status)
	}
	var review admissionv1.AdmissionReview
	err = json.Unmarshal(data, &review)
	return len(data), review.Response, nil, err
}

// lines takes a log and keeps its longest line.
type lines struct {
	mu      sync.Mutex
	rest    []byte
	count   int
	longest string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		if l.count++; len(line) > len(l.longest) {
			l.longest = string(line)
		}
		l.rest = append([]byte(nil), rest...)
	}
}

func (l *lines) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// cpu is the CPU time of this process so far.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// No request costs more than 64 MB of memory, all that is allocated for it counted, and 1 s of
// CPU time, its client's part counted as well; none gets a long answer or writes long lines.
func TestCostOfARequest(t *testing.T) {
	const answer, line = 64 << 10, 1 << 10
	second := time.Second * slowdown
	memory := uint64(64<<20) * largerBy
	s := startTarget(t)
	c := s.client(t, "127.0.0.1")
	all := attacks()
	if len(all) < 30 {
		t.Fatalf("%d attacks are no corpus", len(all))
	}
	for _, warm := range []string{"quantity", "20,000 ports"} { // connects, logs in, compiles expressions
		if _, _, _, err := s.ask(t.Context(), c, all[warm], "10s"); err != nil {
			t.Fatal(err)
		}
	}
	var dearest, largest string
	var mostCPU time.Duration
	var mostMemory uint64
	for name, a := range all {
		t.Run(name, func(t *testing.T) {
			if len(a.body) > 3<<20 {
				t.Fatalf("%d bytes are too many to be looked at: this checks nothing", len(a.body))
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := cpu(t)
			size, resp, status, err := s.ask(t.Context(), c, a, "10s")
			took := cpu(t) - start
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			if err != nil {
				t.Fatal(err)
			}
			if allocated > memory || took > second || size > answer {
				t.Errorf("%d bytes took %d MB of memory and %s of CPU time, the answer has %d bytes", len(a.body), allocated>>20, took, size)
			}
			if (resp == nil) == (status == nil) || status != nil && (status.Message == "" || status.Code < 400) || resp != nil && resp.UID == "" {
				t.Errorf("answer %+v, status %+v", resp, status)
			}
			said := ""
			if status != nil {
				said = status.Message
			} else if resp.Result != nil {
				said = resp.Result.Message
			}
			t.Logf("%d bytes: %d kB allocated, %s, answer of %d bytes: %.120s", len(a.body), allocated>>10, took, size, said)
			if took > mostCPU {
				mostCPU, dearest = took, name
			}
			if allocated > mostMemory {
				mostMemory, largest = allocated, name
			}
		})
	}
	t.Logf("%d requests: at most %s of CPU time (%s) and %d MB allocated (%s)", len(all), mostCPU, dearest, mostMemory>>20, largest)
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.log.count < len(all) || len(s.log.longest) > line {
		t.Errorf("%d lines logged, the longest of %d bytes:\n%s", s.log.count, len(s.log.longest), s.log.longest)
	}
}
