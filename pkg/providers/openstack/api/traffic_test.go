package api

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

// traffic notes what it is told.
type traffic struct {
	request cloud.Request
	outcome cloud.Outcome
	shut    error
}

func (t *traffic) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	t.request = r
	return func(o cloud.Outcome) { t.outcome = o }, t.shut
}

func TestTrafficIsToldOfEachRequest(t *testing.T) {
	if Begin(nil) != nil {
		t.Error("there is no Traffic, and yet it is asked")
	}
	header := http.Header{"Retry-After": {"7"}, "X-Openstack-Request-Id": {"req-1"}}
	for _, tt := range []struct {
		service, method string
		resp            *http.Response
		mutates         bool
		want            cloud.Outcome
	}{
		{"compute", "GET", &http.Response{StatusCode: http.StatusOK}, false, cloud.Outcome{Status: 200}},
		{"network", "PUT", &http.Response{StatusCode: http.StatusTooManyRequests, Header: header}, true, cloud.Outcome{Status: 429, Throttled: true, RetryAfter: 7 * time.Second, RequestID: "req-1"}},
		{auth.Keystone, "POST", &http.Response{StatusCode: http.StatusTooManyRequests, Header: header}, false, cloud.Outcome{Status: 429, RetryAfter: 7 * time.Second, RequestID: "req-1"}},
		{"network", "DELETE", nil, true, cloud.Outcome{}},
	} {
		seen := &traffic{}
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "https://cloud/v2.0/ports?name=x", nil)
		if err != nil {
			t.Fatal(err)
		}
		end, err := Begin(seen)(tt.service, "https://cloud/", req)
		if err != nil {
			t.Fatal(err)
		}
		end(tt.resp)
		want := cloud.Request{Family: tt.service, Place: "https://cloud/", Op: tt.method, Object: "/v2.0/ports", Mutates: tt.mutates}
		if diff := cmp.Diff(want, seen.request); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", tt.method, tt.service, diff)
		}
		if diff := cmp.Diff(tt.want, seen.outcome); diff != "" {
			t.Errorf("%s of %s: outcome (-want +got):\n%s", tt.method, tt.service, diff)
		}
		seen.shut = errors.New("shut")
		if _, err := Begin(seen)(tt.service, "", req); !errors.Is(err, seen.shut) {
			t.Errorf("got %v", err)
		}
	}
}

func TestErrorsHaveTheRequestID(t *testing.T) {
	err := WrapError("get x", gophercloud.ErrUnexpectedResponseCode{Actual: 500, ResponseHeader: http.Header{"X-Openstack-Request-Id": {"req-1"}}})
	if cloud.RequestIDOf(err) != "req-1" {
		t.Errorf("%q of %v", cloud.RequestIDOf(err), err)
	}
}
