package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Problem is why the API server could not be asked. As an error it has two lines.
type Problem struct {
	// What could not be done, of which server, and why.
	What string
	// Next is what to do.
	Next string
	err  error
}

// Error implements error.
func (p *Problem) Error() string { return p.What + "\n→ " + p.Next }

// Unwrap is what the client has said.
func (p *Problem) Unwrap() error { return p.err }

// Failed makes a Problem of what client has said to a request of ctx. doing is what the request was for, and begins the message.
func Failed(ctx context.Context, client kubernetes.Interface, doing string, err error) error {
	if err == nil || errors.Is(context.Cause(ctx), context.Canceled) {
		return err
	}
	server := server(client)
	why := err
	if u, ok := errors.AsType[*url.Error](err); ok { // it repeats the server, with the path
		why = u.Err
	}
	p := &Problem{Next: next(server, err), err: err}
	if ctx.Err() != nil {
		why, p.Next = context.Cause(ctx), next(server, context.DeadlineExceeded)
	}
	p.What = strings.Join(strings.Fields(fmt.Sprintf("%s: API server %s: %v", doing, server, why)), " ") // one line
	return p
}

// server is the URL of a client's API server.
func server(client kubernetes.Interface) string {
	u := client.CoreV1().RESTClient().Get().URL()
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// next is what to do where the API server at an address has answered with an error, or not at all.
func next(server string, err error) string {
	if s := nextOfConnection(server, err); s != "" {
		return s
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case apierrors.IsUnauthorized(err):
		return "the server takes none of the kubeconfig's credentials: log in again or renew them; kubectl auth whoami tries them; look at --kubeconfig and --context, too"
	case apierrors.IsForbidden(err):
		return "have a role with this right bound to the user that the message names, or name another user's kubeconfig by --kubeconfig or --context"
	case ok && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "nobody has answered in time: look at VPN, proxy and firewall between here and " + server + ", and whether the server is overloaded; --request-timeout gives each request more"
	case apierrors.IsNotFound(err), errors.Is(err, errNoList), errors.Is(err, errNoEnd):
		return "look at the name and the namespace, and whether --kubeconfig and --context name this cluster's API server: " + server + " may be another, or something else"
	case apierrors.ReasonForError(err) != "":
		return "the server answers, but cannot serve: kubectl get --raw='/readyz?verbose' says what it lacks, which is etcd mostly"
	}
	return "try kubectl get --raw=/readyz with the same --kubeconfig and --context"
}

// nextOfConnection is next where there is no connection that may be trusted, and "" otherwise.
func nextOfConnection(server string, err error) string {
	dial, dialed := errors.AsType[*net.OpError](err)
	_, unnamed := errors.AsType[*net.DNSError](err)
	_, stranger := errors.AsType[x509.UnknownAuthorityError](err)
	_, other := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case strings.Contains(err.Error(), "getting credentials: "): // client-go has no type for it
		return "log in again: the program that the kubeconfig's user gets credentials from (exec) has failed"
	case dialed && dial.Op == "proxyconnect":
		return "look at proxy-url of the kubeconfig, HTTPS_PROXY and NO_PROXY: the proxy does not let through to " + server
	case unnamed:
		return "look whether the kubeconfig names the right server, and at name resolution and VPN: the name is not found from here"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "look whether the API server at " + server + " runs, whether --kubeconfig and --context name the right cluster, and at VPN and firewall: nobody listens there"
	case stranger:
		return "put the CA that has signed the server's certificate into the kubeconfig (certificate-authority-data), or look whether something else answers at " + server
	case other:
		return "name the server in the kubeconfig as its certificate does, or set tls-server-name there"
	case isInvalid && invalid.Reason == x509.Expired:
		return "renew the API server's certificate, and look at this machine's clock"
	case plain, errors.Is(err, http.ErrSchemeMismatch):
		return "look at the server's URL in the kubeconfig, " + server + ": what answers there speaks no TLS"
	case dialed && dial.Op == "dial" && !dial.Timeout():
		return "look at VPN, routes and firewall between here and " + server + ", and whether --kubeconfig and --context name the right cluster"
	}
	return ""
}

// Unreachable returns a client whose requests fail with err at once.
func Unreachable(err error) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(&rest.Config{Host: "unreachable.invalid", Transport: refusal{err}})
}

// refusal implements http.RoundTripper.
type refusal struct{ err error }

// RoundTrip implements http.RoundTripper.
func (r refusal) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.err }
