package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// failed gives what went wrong its kind.
func (c *Client) failed(verb string, r Resource, name string, err error) error {
	if err == nil {
		return nil
	}
	op := verb + " " + r.Plural
	if name != "" {
		op = verb + " " + c.Name(r, name)
	}
	var known *cloud.Error
	if errors.As(err, &known) { // the transport's
		return &cloud.Error{Kind: known.Kind, Op: op, RetryAfter: known.RetryAfter, RequestID: known.RequestID, Err: known}
	}
	kind, advice := kindOf(r, name, err)
	cause := errors.New(text.Clip(err.Error(), 500) + advice)
	out := &cloud.Error{Kind: kind, Op: op, Err: cause}
	if kind == cloud.KindNotFound {
		out.Scope = c.Place()
	}
	return out
}

// kindOf is what an error of the client means, and what somebody can do about it.
func kindOf(r Resource, name string, err error) (kind cloud.Kind, advice string) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		var network *url.Error
		var timeout net.Error
		if errors.As(err, &network) || errors.As(err, &timeout) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return cloud.KindUnavailable, ""
		}
		return cloud.KindUnknown, ""
	}
	s := status.Status()
	switch code := int(s.Code); {
	case code == http.StatusNotFound:
		return notFound(r, name, err, s.Details)
	case code == http.StatusForbidden && strings.Contains(s.Message, "exceeded quota"):
		return cloud.KindQuota, "; raise the quota of the namespace in the Supervisor"
	case strings.Contains(s.Message, "admission webhook") && code < http.StatusInternalServerError:
		return cloud.KindInvalid, ""
	case code == http.StatusForbidden:
		return cloud.KindDenied, "; the guest cluster's service account in the Supervisor lacks a right, see the guide of the paravirtual mode"
	case code == http.StatusUnauthorized:
		return cloud.KindDenied, "; the token for the Supervisor is not valid"
	case code == http.StatusConflict, code == http.StatusGone:
		return cloud.KindStale, ""
	case code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
		return cloud.KindInvalid, ""
	case code == http.StatusRequestTimeout, code >= http.StatusInternalServerError:
		return cloud.KindUnavailable, ""
	}
	return cloud.KindUnknown, ""
}

// notFound tells the word about an object from what says 404 besides: an API that is not there, a proxy.
func notFound(r Resource, name string, err error, d *metav1.StatusDetails) (cloud.Kind, string) {
	if name != "" && d != nil && d.Name == name && d.Group == r.Group && d.Kind == r.Plural && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return cloud.KindNotFound, ""
	}
	return cloud.KindUnknown, fmt.Sprintf("; does the Supervisor serve %s of %s/%s, and is its namespace there?", r.Plural, r.Group, r.Version)
}
