package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	serviceName = "hello"
	servicePort = 8080 // above 1024: the load balancer's address is on this machine, and nobody is root
	greeting    = "hello through the load balancer"
)

// serviceWorks creates a Service of type LoadBalancer, plays kube-proxy and the pod on every
// node, and sends a request through each address that the cloud gave.
func (w *world) serviceWorks(ctx context.Context) (string, error) {
	services := w.cluster.Client.CoreV1().Services("default")
	service, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName, Annotations: w.scene.annotations},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": serviceName},
			Ports:    []corev1.ServicePort{{Name: "http", Port: servicePort, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	for _, m := range w.scene.machines {
		if err := w.startBackend(ctx, net.JoinHostPort(m.address, strconv.Itoa(int(service.Spec.Ports[0].NodePort)))); err != nil {
			return "", err
		}
	}
	var urls []string
	err = eventually(ctx, func(ctx context.Context) error {
		service, err := services.Get(ctx, serviceName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("the Service has no address yet")
		}
		urls, err = w.urlsOf(service.Status.LoadBalancer.Ingress[0])
		return err
	})
	if err != nil {
		return "", err
	}
	for _, url := range urls {
		if err := eventually(ctx, func(ctx context.Context) error { return answers(ctx, url, greeting) }); err != nil {
			return "", err
		}
	}
	return "GET " + strings.Join(urls, ", ") + " → " + strconv.Quote(greeting), nil
}

// urlsOf leads to a load balancer's addresses: the one that is published, or those of the name that is.
func (w *world) urlsOf(in corev1.LoadBalancerIngress) ([]string, error) {
	hosts := []string{in.IP}
	if in.Hostname != "" {
		addresses, err := w.scene.resolve(in.Hostname)
		if err != nil {
			return nil, err
		}
		hosts = nil
		for _, a := range addresses {
			hosts = append(hosts, a.String())
		}
	}
	var urls []string
	for _, h := range hosts {
		urls = append(urls, "http://"+net.JoinHostPort(h, strconv.Itoa(servicePort)))
	}
	return urls, nil
}

// startBackend listens where kube-proxy of one node would.
func (w *world) startBackend(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, greeting)
		}),
		ReadHeaderTimeout: 5 * time.Second,
	}
	w.serve(server, listener)
	return nil
}

// answers is nil when GET url has the body want.
func answers(ctx context.Context, url, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Close = true // a new connection each time: another member may answer
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil && string(body) != want {
		err = fmt.Errorf("GET %s: %s %q", url, resp.Status, body)
	}
	return err
}

// deleteService deletes the Service, and waits until it is gone.
func (w *world) deleteService(ctx context.Context) error {
	services := w.cluster.Client.CoreV1().Services("default")
	if err := services.Delete(ctx, serviceName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) error {
		_, err := services.Get(ctx, serviceName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("the Service still waits for its load balancer's deletion")
	})
}
