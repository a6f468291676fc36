package api

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
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	missingID = "00000000-0000-4000-8000-00000000dead"
	idA       = "aaaaaaaa-0000-4000-8000-000000000001"
	idB       = "bbbbbbbb-0000-4000-8000-000000000002"
)

// The bodies are what OpenStack Zed answers to gophercloud (Accept: application/json).
func TestWrapErrorKind(t *testing.T) {
	const (
		nova   = "http://c:8774/v2.1"
		neut   = "http://c:9696/v2.0"
		oct    = "http://c:9876/v2.0/lbaas"
		cinder = "http://c:8776/v3/f14e6f9701d94ae59167bba213ad5b75"
		barb   = "http://c:9311/v1"
	)
	html404 := "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  The resource could not be found.<br /><br />\n </body>\n</html>"
	unknownPath := `{"message": "The resource could not be found.<br /><br />\n\n\n", "code": "404 Not Found", "title": "Not Found"}`
	tests := []struct {
		name   string
		method string // GET when empty
		url    string
		status int
		body   string
		want   cloud.Kind
	}{
		{"nova server", "", nova + "/servers/" + missingID, 404, `{"itemNotFound": {"code": 404, "message": "Instance ` + missingID + ` could not be found."}}`, cloud.KindNotFound},
		{"nova server deleted twice", "DELETE", nova + "/servers/" + missingID, 404, `{"itemNotFound": {"code": 404, "message": "Instance ` + missingID + ` could not be found."}}`, cloud.KindNotFound},
		{"nova other object", "", nova + "/servers/" + missingID, 404, `{"itemNotFound": {"code": 404, "message": "Flavor 17 could not be found."}}`, cloud.KindUnknown},
		{"nova unknown path", "", nova + "/servers/" + missingID + "/nosuch", 404, unknownPath, cloud.KindUnknown},
		{"proxy page", "", nova + "/servers/" + missingID, 404, html404, cloud.KindUnknown},
		{"proxy page that echoes the URL", "", nova + "/servers/" + missingID, 404, "<html>/v2.1/servers/" + missingID + " not found</html>", cloud.KindUnknown},
		{"empty 404", "", nova + "/servers/" + missingID, 404, "", cloud.KindUnknown},
		{"wrong version path", "", "http://c:8774/v9/servers/" + missingID, 300, `{"choices": [{"id": "v2.0"}]}`, cloud.KindUnknown},
		{"neutron port", "", neut + "/ports/" + missingID, 404, `{"NeutronError": {"type": "PortNotFound", "message": "Port ` + missingID + ` could not be found.", "detail": ""}}`, cloud.KindNotFound},
		{"neutron group", "", neut + "/security-groups/" + missingID, 404, `{"NeutronError": {"type": "SecurityGroupNotFound", "message": "Security group ` + missingID + ` does not exist", "detail": ""}}`, cloud.KindNotFound},
		{"neutron unknown path", "", neut + "/nosuch/" + missingID, 404, `{"NeutronError": {"type": "HTTPNotFound", "message": "The resource could not be found.", "detail": ""}}`, cloud.KindUnknown},
		{"neutron wrong version", "", "http://c:9696/v9/ports/" + missingID, 404, `{"code": 404, "title": "Not Found", "description": null}`, cloud.KindUnknown},
		{"neutron tag", "DELETE", neut + "/routers/" + missingID + "/tags/nosuch", 404, `{"NeutronError": {"type": "TagNotFound", "message": "Tag nosuch could not be found.", "detail": ""}}`, cloud.KindNotFound},
		{"neutron relation", "PUT", neut + "/routers/" + missingID + "/remove_router_interface", 404, `{"NeutronError": {"type": "RouterInterfaceNotFoundForSubnet", "message": "Router ` + missingID + ` has no interface on subnet ` + idA + `", "detail": ""}}`, cloud.KindInvalid},
		{"neutron create refers to nothing", "POST", neut + "/ports", 404, `{"NeutronError": {"type": "NetworkNotFound", "message": "Network ` + missingID + ` could not be found.", "detail": ""}}`, cloud.KindInvalid},
		{"neutron stale revision", "PUT", neut + "/ports/" + missingID, 412, `{"NeutronError": {"type": "RevisionNumberConstraintFailed", "message": "Constrained to 1, but current revision is 3", "detail": ""}}`, cloud.KindStale},
		{"neutron bad routes", "PUT", neut + "/routers/" + missingID + "/add_extraroutes", 400, `{"NeutronError": {"type": "InvalidRoutes", "message": "Invalid format for routes: [], the nexthop is not connected with router", "detail": ""}}`, cloud.KindInvalid},
		{"octavia", "", oct + "/loadbalancers/" + missingID, 404, `{"faultcode": "Client", "faultstring": "Load Balancer ` + missingID + ` not found.", "debuginfo": null}`, cloud.KindNotFound},
		{"octavia member of a missing pool", "", oct + "/pools/" + missingID + "/members/" + missingID, 404, `{"code": 404, "title": "Bad Request", "description": "Pool ` + missingID + ` not found."}`, cloud.KindNotFound},
		{"octavia unknown path", "", oct + "/nosuch/" + missingID, 404, `{"code": 404, "title": "Not Found", "description": ""}`, cloud.KindUnknown},
		{"octavia immutable", "PUT", oct + "/loadbalancers/" + missingID, 409, `{"faultcode": "Client", "faultstring": "Load Balancer ` + missingID + ` is immutable and cannot be updated.", "debuginfo": null}`, cloud.KindStale},
		{"octavia state", "DELETE", oct + "/loadbalancers/" + missingID, 409, `{"faultcode": "Client", "faultstring": "Invalid state PENDING_UPDATE of loadbalancer resource ` + missingID + `", "debuginfo": null}`, cloud.KindStale},
		{"octavia port that came meanwhile", "POST", oct + "/listeners", 409, `{"faultcode": "Client", "faultstring": "Another Listener on this Load Balancer is already using protocol_port 80", "debuginfo": null}`, cloud.KindStale},
		{"octavia member that came meanwhile", "POST", oct + "/pools/" + missingID + "/members", 409, `{"faultcode": "Client", "faultstring": "Another member on this pool is already using ip 10.0.0.1 on protocol_port 80", "debuginfo": null}`, cloud.KindStale},
		{"octavia quota", "POST", oct + "/loadbalancers", 403, `{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer", "debuginfo": null}`, cloud.KindQuota},
		{"octavia policy", "POST", oct + "/loadbalancers", 403, `{"faultcode": "Client", "faultstring": "Policy does not allow this request to be performed.", "debuginfo": null}`, cloud.KindDenied},
		{"octavia busy project", "POST", oct + "/loadbalancers", 503, `{"faultcode": "Server", "faultstring": "Project busy.  Unable to lock the project.  Please try again.", "debuginfo": null}`, cloud.KindUnavailable},
		{"octavia unknown 404", "POST", oct + "/listeners", 404, `{"faultcode": "Client", "faultstring": "Load Balancer ` + missingID + ` not found.", "debuginfo": null}`, cloud.KindUnknown},
		{"neutron quota", "POST", neut + "/floatingips", 409, `{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['floatingip'].", "detail": ""}}`, cloud.KindQuota},
		{"neutron subnet full", "POST", neut + "/floatingips", 409, `{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "No more IP addresses available on network ` + missingID + `.", "detail": ""}}`, cloud.KindQuota},
		{"neutron external network full", "POST", neut + "/floatingips", 400, `{"NeutronError": {"type": "ExternalIpAddressExhausted", "message": "Unable to find any IP address on external network ` + missingID + `.", "detail": ""}}`, cloud.KindQuota},
		{"neutron address of others", "POST", neut + "/floatingips", 409, `{"NeutronError": {"type": "IpAddressAlreadyAllocated", "message": "IP address 192.0.2.1 already allocated in subnet ` + missingID + `", "detail": ""}}`, cloud.KindConflict},
		{"neutron floating IP of another port", "PUT", neut + "/floatingips/" + missingID, 409, `{"NeutronError": {"type": "FloatingIPPortAlreadyAssociated", "message": "Cannot associate floating IP 192.0.2.1", "detail": ""}}`, cloud.KindConflict},
		{"neutron group in use", "DELETE", neut + "/security-groups/" + missingID, 409, `{"NeutronError": {"type": "SecurityGroupInUse", "message": "Security Group ` + missingID + ` in use.", "detail": ""}}`, cloud.KindConflict},
		{"neutron rule that came meanwhile", "POST", neut + "/security-group-rules", 409, `{"NeutronError": {"type": "SecurityGroupRuleExists", "message": "Security group rule already exists. Rule id is ` + missingID + `.", "detail": ""}}`, cloud.KindStale},
		{"neutron retry", "PUT", neut + "/ports/" + missingID, 409, `{"NeutronError": {"type": "StaleDataError", "message": "Concurrent update", "detail": ""}}`, cloud.KindStale},
		{"neutron policy that names quotas", "", neut + "/quotas/" + missingID, 403, `{"NeutronError": {"type": "PolicyNotAuthorized", "message": "rule:get_quota is disallowed by policy", "detail": ""}}`, cloud.KindDenied},
		{"neutron rate limit of a proxy", "", neut + "/ports", 429, "", cloud.KindThrottled},
		{"swift's rate limit", "", neut + "/ports", 498, "", cloud.KindThrottled},
		{"nova conflict", "PUT", nova + "/servers/" + missingID, 409, `{"conflictingRequest": {"code": 409, "message": "Cannot 'rename' instance while it is in task_state deleting"}}`, cloud.KindStale},
		{"nova quota", "POST", nova + "/servers", 403, `{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances"}}`, cloud.KindQuota},
		{"cinder quota", "POST", cinder + "/volumes", 413, `{"overLimit": {"code": 413, "message": "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'."}}`, cloud.KindQuota},
		{"cinder conflict", "PUT", cinder + "/volumes/" + missingID, 409, `{"conflictingRequest": {"code": 409, "message": "Volume is busy"}}`, cloud.KindStale},
		{"barbican policy", "", barb + "/secrets/" + missingID, 403, `{"code": 403, "title": "Forbidden", "description": "Secret retrieval attempt not allowed - please review your user/project privileges"}`, cloud.KindDenied},
		{"barbican quota", "POST", barb + "/secrets", 403, `{"code": 403, "title": "Forbidden", "description": "Quota reached for project. Only 10 secrets are allowed."}`, cloud.KindQuota},
		{"locked", "PUT", cinder + "/volumes/" + missingID, 423, "", cloud.KindStale},
		{"octavia bad subnet", "POST", oct + "/loadbalancers", 400, `{"faultcode": "Client", "faultstring": "Subnet ` + missingID + ` not found.", "debuginfo": null}`, cloud.KindInvalid},
		{"octavia provider refuses", "POST", oct + "/pools", 501, `{"faultcode": "Server", "faultstring": "Provider 'ovn' does not support a requested option", "debuginfo": null}`, cloud.KindUnsupported},
		{"cinder", "", cinder + "/volumes/" + missingID, 404, `{"itemNotFound": {"code": 404, "message": "Volume ` + missingID + ` could not be found."}}`, cloud.KindNotFound},
		{"cinder unknown path", "", cinder + "/nosuch/" + missingID, 404, unknownPath, cloud.KindUnknown},
		{"cinder of another project", "", "http://c:8776/v3/0/volumes/" + missingID, 400, `{"badRequest": {"code": 400, "message": "Malformed request url"}}`, cloud.KindInvalid},
		{"barbican secret", "", barb + "/secrets/" + missingID, 404, `{"code": 404, "title": "Not Found", "description": "Secret not found."}`, cloud.KindNotFound},
		{"barbican container", "", barb + "/containers/" + missingID, 404, `{"code": 404, "title": "Not Found", "description": "Secrets container not found."}`, cloud.KindNotFound},
		{"barbican unknown path", "", barb + "/nosuch", 404, `{"code": 404, "title": "Not Found", "description": ""}`, cloud.KindUnknown},
		{"no token", "", nova + "/servers/" + missingID, 401, `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`, cloud.KindDenied},
		{"policy", "", nova + "/os-hypervisors", 403, `{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:os-hypervisors:list to be performed."}}`, cloud.KindDenied},
		{"microversion", "", nova + "/servers/" + missingID, 406, `{"computeFault": {"code": 406, "message": "Version 2.999 is not supported by the API. Minimum is 2.1 and maximum is 2.93."}}`, cloud.KindUnsupported},
		{"rate limit", "", nova + "/servers/detail", 429, `{"overLimit": {"code": 429}}`, cloud.KindThrottled},
		{"old nova's rate limit", "", nova + "/servers/detail", 413, `{"overLimit": {"code": 413}}`, cloud.KindThrottled},
		{"server error", "", nova + "/servers/detail", 500, "", cloud.KindUnavailable},
		{"gateway", "", nova + "/servers/" + missingID, 502, html404, cloud.KindUnavailable},
		{"maintenance", "", nova + "/servers/" + missingID, 503, "", cloud.KindUnavailable},
		{"gateway's patience", "", nova + "/servers/" + missingID, 504, "", cloud.KindUnavailable},
		{"outage that talks of quotas", "", neut + "/ports", 500, `{"NeutronError": {"type": "HTTPInternalServerError", "message": "quota exceeded", "detail": ""}}`, cloud.KindUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = http.MethodGet
			}
			sdk := gophercloud.ErrUnexpectedResponseCode{Method: method, URL: tt.url, Actual: tt.status, Body: []byte(tt.body)}
			for form, err := range map[string]error{
				"value": sdk, "wrapped": fmt.Errorf("x: %w", sdk),
				"after re-authentication": &gophercloud.ErrErrorAfterReauthentication{ErrOriginal: sdk},
			} {
				if got := cloud.KindOf(WrapError("op", err)); got != tt.want {
					t.Errorf("%s: kind %v, want %v", form, got, tt.want)
				}
			}
		})
	}
}

func TestWrapErrorText(t *testing.T) {
	err := WrapError("get server x", gophercloud.ErrUnexpectedResponseCode{
		Method: "GET", URL: "https://c:8774/v2.1/servers/x?name=hidden", Actual: 400,
		Body: []byte(`{"badRequest": {"message": "no` + "\\n" + `token gAAAAABf0123_-x= and password=hunter2 ` + strings.Repeat("long ", 5000) + `"}}`),
	})
	got := err.Error()
	if len(got) > 500 {
		t.Errorf("error has %d bytes, more than a few hundred: %s", len(got), got)
	}
	for _, bad := range []string{"gAAAA", "hunter2", "hidden", "\n"} {
		if strings.Contains(got, bad) {
			t.Errorf("error contains %q: %s", bad, got)
		}
	}
	for _, good := range []string{"get server x: 400 Bad Request: no token [redacted]", "(GET https://c:8774/v2.1/servers/x)"} {
		if !strings.Contains(got, good) {
			t.Errorf("error lacks %q: %s", good, got)
		}
	}
}

func TestWrapErrorKeepsCauses(t *testing.T) {
	if WrapError("op", nil) != nil {
		t.Error("nil became an error")
	}
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for cause, kind := range map[error]cloud.Kind{context.Canceled: cloud.KindUnknown, context.DeadlineExceeded: cloud.KindUnavailable, refused: cloud.KindUnavailable} {
		err := WrapError("list servers", &url.Error{Op: "Get", URL: "http://c/v2.1/servers/detail?name=x", Err: cause})
		if !errors.Is(err, cause) || cloud.KindOf(err) != kind {
			t.Errorf("%v: %v of kind %v", cause, err, cloud.KindOf(err))
		}
		if want := "list servers: GET http://c/v2.1/servers/detail: " + cause.Error(); err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	inner := &cloud.Error{Kind: cloud.KindThrottled, RetryAfter: time.Second, Err: errors.New("x")}
	if err := WrapError("op", inner); cloud.KindOf(err) != cloud.KindThrottled || cloud.RetryAfter(err) != time.Second {
		t.Errorf("kind or wait was lost: %#v", err)
	}
	notSent := &url.Error{Op: "Get", URL: "http://c/v2.1/servers?name=x", Err: inner}
	if err := WrapError("op", notSent); cloud.KindOf(err) != cloud.KindThrottled || cloud.RetryAfter(err) != time.Second || err.Error() != "op: x" {
		t.Errorf("a request that was not sent: %v of kind %v", err, cloud.KindOf(err))
	}
	joined := errors.Join(cloud.Errorf(cloud.KindNotFound, "a"), errors.New("b"))
	if err := WrapError("op", joined); cloud.IsNotFound(err) {
		t.Error("one NotFound among other errors became NotFound")
	}
}

// No body whatsoever may panic, and none may be NotFound without naming the object.
func FuzzAnswerError(f *testing.F) {
	for _, s := range []string{"", "{}", "null", "[]", `"x"`, `{"itemNotFound":{}}`, `{"itemNotFound":"x"}`, `{"NeutronError":"text"}`, `{"NeutronError":{"message":1}}`, "<html>", `{"title":"x","description":"y"}`} {
		f.Add(404, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		err := WrapError("op", gophercloud.ErrUnexpectedResponseCode{Method: "GET", URL: "http://c/servers/" + missingID, Actual: status, Body: body})
		if cloud.IsNotFound(err) && !strings.Contains(strings.ToLower(string(body)), "dead") && !strings.Contains(string(body), `\u`) {
			t.Errorf("NotFound from %q", body)
		}
		if len(err.Error()) > 700 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
	})
}

// Refusals and certificates say what to do, a quota does not ask for a role.
func TestErrorHints(t *testing.T) {
	answered := func(status int, text string) error {
		return gophercloud.ErrUnexpectedResponseCode{URL: "http://c:9876/v2.0/lbaas/loadbalancers", Method: "POST", Actual: status,
			Body: []byte(`{"faultcode": "Client", "faultstring": "` + text + `", "debuginfo": null}`)}
	}
	get := func(err error) error { return &url.Error{Op: "Get", URL: "https://c/x?name=y", Err: err} }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{answered(403, "Policy does not allow this request to be performed."), "needs a role in its project that may do this"},
		{answered(403, "Quota has been met for resources: Load Balancer"), "resources: Load Balancer (POST http://c:9876/v2.0/lbaas/loadbalancers); raise the project's quota"},
		{answered(400, "Could not retrieve certificate: ['http://c:9311/v1/containers/1']"), "use a user and password"},
		{get(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), "ca-file in [Global] of cloud.conf has to hold the CA of this endpoint too"},
		{get(x509.CertificateInvalidError{Reason: x509.Expired}), "check the clocks"},
		{get(http.ErrSchemeMismatch), "the endpoint does not speak TLS"},
	} {
		got := WrapError("do", tt.err).Error()
		if !strings.Contains(got, tt.want) || strings.Contains(got, "\n") || strings.Contains(got, "name=y") {
			t.Errorf("%q is not one line with %q", got, tt.want)
		}
	}
	if got := WrapError("do", answered(403, "Quota has been met")).Error(); strings.Contains(got, "role") {
		t.Errorf("a quota: %q", got)
	}
}
