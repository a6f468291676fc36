package api

import (
	"net/http"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

// Begin puts Traffic before the requests of a session; nil for none. Keystone is left alone by the session
// itself when it refuses, with all that it says about why.
func Begin(t cloud.Traffic) func(service, endpoint string, req *http.Request) (func(*http.Response), error) {
	if t == nil {
		return nil
	}
	return func(service, endpoint string, req *http.Request) (func(*http.Response), error) {
		tokens := service == auth.Keystone
		end, err := t.Begin(req.Context(), cloud.Request{Family: service, Place: endpoint, Op: req.Method, Object: req.URL.Path,
			Mutates: !tokens && req.Method != http.MethodGet && req.Method != http.MethodHead})
		if err != nil {
			return nil, err
		}
		return func(resp *http.Response) {
			if resp == nil {
				end(cloud.Outcome{})
				return
			}
			end(cloud.Outcome{Status: resp.StatusCode, Throttled: !tokens && isThrottling(resp.StatusCode),
				RetryAfter: backoff.Asked(resp.Header, time.Now()), RequestID: requestID(resp.Header)})
		}, nil
	}
}
