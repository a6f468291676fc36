package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
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

// serviceWorks creates a Service of type LoadBalancer, plays kube-proxy and the pod on one
// node, and sends a request through the address that the cloud gave.
func (w *world) serviceWorks(ctx context.Context) (string, error) {
	services := w.cluster.Client.CoreV1().Services("default")
	service, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": serviceName},
			Ports:    []corev1.ServicePort{{Name: "http", Port: servicePort, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if err := w.startBackend(ctx, net.JoinHostPort(w.scene.machines[0].address, strconv.Itoa(int(service.Spec.Ports[0].NodePort)))); err != nil {
		return "", err
	}
	var url string
	err = eventually(ctx, func(ctx context.Context) error {
		service, err := services.Get(ctx, serviceName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 || service.Status.LoadBalancer.Ingress[0].IP == "" {
			return errors.New("the Service has no address yet")
		}
		url = "http://" + net.JoinHostPort(service.Status.LoadBalancer.Ingress[0].IP, strconv.Itoa(servicePort))
		return nil
	})
	if err != nil {
		return "", err
	}
	err = eventually(ctx, func(ctx context.Context) error { return answers(ctx, url, greeting) })
	return "GET " + url + " → " + strconv.Quote(greeting), err
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
