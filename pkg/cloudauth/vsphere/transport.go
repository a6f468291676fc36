package vsphere

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// maxAnswer bounds an answer: 10,000 machines with their addresses have some 40 MiB.
const maxAnswer = 256 << 20

// client makes what speaks to the vCenter.
func (s *Session) client() (*soap.Client, error) {
	o := &s.options
	host := net.JoinHostPort(o.Server, o.Port)
	c := soap.NewClient(&url.URL{Scheme: "https", Host: host, Path: vim25Path}, o.Insecure)
	if o.CAFile != "" {
		data, err := cloudauth.ReadFile(o.CAFile)
		if err != nil {
			return nil, cloudauth.NewError(cloudauth.Misconfigured, "%s: ca-file: %v; correct the path or who may read it", s.where(), err)
		}
		if err := c.SetRootCAs(o.CAFile); err != nil || len(data) == 0 {
			return nil, cloudauth.NewError(cloudauth.Misconfigured, "%s: ca-file: %s has no certificates (PEM) in it", s.where(), o.CAFile)
		}
	}
	c.SetThumbprint(host, o.Thumbprint)
	c.UserAgent = o.UserAgent
	t := c.DefaultTransport()
	t.Proxy, t.MaxResponseHeaderBytes, t.OnProxyConnectResponse = wire.Proxy, wire.MaxHeader, wire.ProxyAnswer
	t.ResponseHeaderTimeout = o.RequestTimeout
	c.Transport = bounded{t}
	c.CheckRedirect = refuseRedirect
	c.Timeout = o.RequestTimeout
	return c, nil
}

// vim25Path is where the vSphere API is.
const vim25Path = "/sdk"

// bind gives what speaks to another service of the vCenter what bounds the vSphere API: govmomi leaves it behind.
func (s *Session) bind(c *soap.Client) {
	c.CheckRedirect, c.Timeout = refuseRedirect, s.options.RequestTimeout
	if _, is := c.Transport.(bounded); !is {
		c.Transport = bounded{c.Transport}
	}
}

func refuseRedirect(*http.Request, []*http.Request) error { return errRedirect }

// Service is what speaks to another service of the vCenter, within the session of c and with what bounds that.
func Service(c *vim25.Client, path, namespace string) *soap.Client {
	s := c.NewServiceClient(path, namespace)
	s.Client = c.Client.Client
	return s
}

// Answered is rt, but for answers that are none to what was asked, as of a proxy: they are errors. The methods of govmomi read them
// through a nil pointer.
func Answered(rt soap.RoundTripper) soap.RoundTripper { return answered{rt} }

type answered struct{ soap.RoundTripper }

// RoundTrip implements soap.RoundTripper.
func (a answered) RoundTrip(ctx context.Context, req, res soap.HasFault) (err error) {
	defer func() { // an element of a type that does not belong there ends govmomi's decoder
		if recover() != nil {
			err = errNoAnswer
		}
	}()
	if err = a.RoundTripper.RoundTrip(ctx, req, res); err != nil {
		return err
	}
	if body := reflect.Indirect(reflect.ValueOf(res)).FieldByName("Res"); body.Kind() == reflect.Pointer && body.IsNil() {
		return errNoAnswer
	}
	return nil
}

var errNoAnswer = errors.New("it answers something else than what it was asked; is a proxy or another service in between?")

// bounded bounds answers.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = wire.Bounded(answer.Body, maxAnswer)
	}
	return answer, err
}

// refused says in one line why there is no session; nil is none.
func (s *Session) refused(err error, by *Credentials) error {
	if err == nil {
		return nil
	}
	e := s.explain(err, by.Password, by.SharedToken)
	if e.Reason == cloudauth.Rejected && by.User != "" && !isPEM(by.User) {
		e.Text += " (user " + cloudauth.Excerpt(by.User, 100) + ")"
	}
	return e
}

func isPEM(user string) bool { return len(user) > 10 && user[:10] == "-----BEGIN" }

// Explain says in one line what is wrong where a vCenter does not answer, or refuses somebody; other errors stay as they are.
func (s *Session) Explain(err error) error {
	var known *cloudauth.Error
	var network *url.Error
	if err == nil || errors.As(err, &known) || !errors.As(err, &network) && !fault.Is(err, &types.NotAuthenticated{}) {
		return err
	}
	return s.explain(err)
}

func (s *Session) explain(err error, secrets ...cloudauth.Secret) *cloudauth.Error {
	out := func(reason cloudauth.Reason, text string) *cloudauth.Error {
		e := cloudauth.NewError(reason, "%s", text)
		e.Cause = err
		return e
	}
	var network *url.Error
	var file *os.PathError
	switch {
	case fault.Is(err, &types.InvalidLogin{}), rest.IsStatusError(err, http.StatusUnauthorized):
		return out(cloudauth.Rejected, s.where()+" refuses the user or the password; correct them in the Secret or the file that has them")
	case fault.Is(err, &types.NoPermission{}), rest.IsStatusError(err, http.StatusForbidden):
		return out(cloudauth.Rejected, s.where()+" does not let the user log in; it needs a role with System.View and System.Read")
	case fault.Is(err, &types.NotAuthenticated{}):
		return out(cloudauth.Failed, s.where()+" ends sessions as soon as they begin; is there a proxy that loses cookies in between?")
	case rest.IsStatusError(err, http.StatusServiceUnavailable), rest.IsStatusError(err, http.StatusTooManyRequests):
		return out(cloudauth.Throttled, s.where()+" has too many sessions; look for programs that do not log out")
	case errors.Is(err, errRedirect):
		return out(cloudauth.Failed, s.where()+": "+errRedirect.Error())
	case errors.As(err, &network), errors.As(err, &file):
		return out(cloudauth.Unreachable, wire.Explain(s.where(), err, "check server and port, and whether this machine gets there", secrets...))
	}
	return out(cloudauth.Failed, s.where()+": "+cloudauth.Excerpt(err.Error(), 200, secrets...))
}
