package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HelloName names the Deployment and the Service of StartHello, in the namespace default.
const HelloName = "hello"

//go:embed hello.yaml
var helloManifest string

// StartHello pushes the image of a program that answers HTTP requests with its pod's name, and creates a Deployment
// of two and a Service of type LoadBalancer for them.
func (c *Cluster) StartHello(ctx context.Context) error {
	image, err := c.Registry.pushProgram(ctx, "apps/hello:1", "hello")
	if err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, strings.Replace(helloManifest, "IMAGE", image, 1), "apply", "-f", "-")
	return err
}

// HelloURL is where the Service of StartHello is reached from outside; an error until it has an address.
func (c *Cluster) HelloURL(ctx context.Context) (Hello, error) {
	service, err := c.Client.CoreV1().Services("default").Get(ctx, HelloName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if len(service.Status.LoadBalancer.Ingress) == 0 {
		return "", errors.New("the Service has no address")
	}
	return URLOf(service.Status.LoadBalancer.Ingress[0].IP, int(service.Spec.Ports[0].Port)), nil
}

// Hello is a URL of pods that answer with their name.
type Hello string

// URLOf is the URL of an address.
func URLOf(host string, port int) Hello {
	return Hello("http://" + net.JoinHostPort(host, strconv.Itoa(port)))
}

// WithPort is the URL with another port.
func (h Hello) WithPort(port int) Hello {
	return h[:strings.LastIndexByte(string(h), ':')+1] + Hello(strconv.Itoa(port))
}

// Ask asks once, over a connection of its own, and returns the pod's name.
func (h Hello) Ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(h), nil)
	if err != nil {
		return "", err
	}
	req.Close = true // each time, another member may answer
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return "", err
	}
	pod, ours := strings.CutPrefix(strings.TrimSpace(string(body)), "hello from ")
	if resp.StatusCode != http.StatusOK || !ours {
		return "", fmt.Errorf("%s answers %s: %q", h, resp.Status, body)
	}
	return pod, nil
}

// Traffic asks one URL again and again.
type Traffic struct {
	stop   context.CancelFunc
	ended  sync.WaitGroup
	asked  int
	failed []error
}

// Keep asks h again and again until Stop, or the end of ctx.
func Keep(ctx context.Context, h Hello) *Traffic {
	ctx, stop := context.WithCancel(ctx)
	t := &Traffic{stop: stop}
	t.ended.Go(func() {
		for ctx.Err() == nil {
			if _, err := h.Ask(ctx); err != nil && ctx.Err() == nil {
				t.failed = append(t.failed, fmt.Errorf("request %d at %s: %w", t.asked, time.Now().Format(time.TimeOnly), err))
			}
			t.asked++
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return t
}

// Stop ends the traffic, and returns how many requests there were and what failed first.
func (t *Traffic) Stop() (asked int, failed error) {
	t.stop()
	t.ended.Wait()
	if more := len(t.failed) - 10; more > 0 {
		t.failed = append(t.failed[:10], fmt.Errorf("and %d more", more))
	}
	return t.asked, errors.Join(t.failed...)
}
