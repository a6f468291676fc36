package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/dryrun"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	// dryRunAddress stands for the address that a floating IP would get (RFC 5737).
	dryRunAddress = "192.0.2.1"
	// dryRunRetry is when an operation that could not be followed to its end is looked at again.
	dryRunRetry = 10 * time.Minute
	// dryRunBody is what is logged of a request's body; a load balancer with some hundred
	// members is longer.
	dryRunBody = 16 << 10
)

// errNotMade and errNotDeleted end an operation all of whose further steps need that it was.
var (
	errNotMade    = errors.New("dry run: it was not made, so what would follow is not known")
	errNotDeleted = errors.New("dry run: it was not deleted, so what would follow is not known")
)

// DryRun stands between the provider and the cloud when nothing may be changed. It logs each
// request that would change something, once, and answers it as the cloud would have: what is
// changed as it stands with the change applied, what is made with an ID of its own.
type DryRun struct {
	logger klog.Logger
	once   dryrun.Once
}

// NewDryRun makes a dry run that says in the log what would be changed.
func NewDryRun(logger klog.Logger) *DryRun {
	return &DryRun{logger: logger}
}

// Intercept is auth.Options.Intercept.
func (d *DryRun) Intercept(service string, req *http.Request, send http.RoundTripper) (*http.Response, error) {
	body, err := dryrun.Body(req)
	if err != nil {
		return nil, err
	}
	// What controllers try again and again is said once.
	uri := req.URL.RequestURI()
	d.once.Logger(d.logger, req.Method+" "+uri, body).Info(dryrun.CloudWouldChange, "service", service,
		"method", req.Method, "path", uri, "body", text.Clip(string(body), dryRunBody))
	switch req.Method {
	case http.MethodDelete:
		if path.Base(path.Dir(req.URL.Path)) == "loadbalancers" { // whose end is waited for
			return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: dryRunRetry, Err: errNotDeleted}
		}
		return dryrun.Answer(req, http.StatusNoContent, nil), nil
	case http.MethodPost:
		return dryCreated(req, body)
	default:
		return dryChanged(req, body, send)
	}
}

// dryCreated answers a request that makes something, or an action.
func dryCreated(req *http.Request, body []byte) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/lbaas/loadbalancers") {
		return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: dryRunRetry, Err: errNotMade}
	}
	var doc map[string]any
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("dry run: %s %s: the request is no JSON object: %w", req.Method, req.URL.Path, err)
	}
	for key, value := range doc {
		objects, many := value.([]any) // several rules of a security group
		if !many {
			objects = []any{value}
		}
		for _, o := range objects {
			object, ok := o.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("dry run: %s %s: %q is no JSON object", req.Method, req.URL.Path, key)
			}
			object["id"] = uuid.NewString()
			if key == "floatingip" && object["floating_ip_address"] == nil {
				object["floating_ip_address"] = dryRunAddress
			}
		}
	}
	return dryrun.AnswerWith(req, http.StatusCreated, doc)
}

// dryChanged answers a request that changes something: with what it is now, and the change.
func dryChanged(req *http.Request, body []byte, send http.RoundTripper) (*http.Response, error) {
	last := path.Base(req.URL.Path)
	switch {
	case last == "members": // of a pool, as a batch
		return dryrun.Answer(req, http.StatusAccepted, nil), nil
	case path.Base(path.Dir(req.URL.Path)) == "tags":
		return dryrun.Answer(req, http.StatusCreated, nil), nil
	case last == "tags":
		return dryrun.Answer(req, http.StatusOK, body), nil
	}
	read := req.Clone(req.Context())
	read.Method, read.Body, read.ContentLength, read.GetBody = http.MethodGet, nil, 0, nil
	read.Header.Del("If-Match")
	extraroutes := strings.HasSuffix(last, "_extraroutes")
	if extraroutes {
		read.URL.Path, read.URL.RawPath = path.Dir(read.URL.Path), ""
	}
	resp, err := send.RoundTrip(read)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	defer func() { _ = resp.Body.Close() }()
	var doc, change map[string]map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		return nil, fmt.Errorf("dry run: read %s: %w", read.URL.Path, err)
	}
	if err := json.Unmarshal(body, &change); err != nil {
		return nil, fmt.Errorf("dry run: %s %s: the request is no JSON object: %w", req.Method, req.URL.Path, err)
	}
	for key, fields := range change {
		if extraroutes {
			fields = map[string]any{"routes": mergedRoutes(doc[key]["routes"], fields["routes"], last == "add_extraroutes")}
		}
		if doc[key] == nil {
			doc[key] = map[string]any{}
		}
		maps.Copy(doc[key], fields)
	}
	return dryrun.AnswerWith(req, http.StatusOK, doc)
}

// mergedRoutes is a router's table after routes were added to it or removed from it.
func mergedRoutes(table, routes any, add bool) []any {
	have, _ := table.([]any)
	some, _ := routes.([]any)
	same := func(a, b any) bool {
		x, _ := a.(map[string]any)
		y, _ := b.(map[string]any)
		return x["destination"] == y["destination"] && x["nexthop"] == y["nexthop"]
	}
	out := slices.DeleteFunc(slices.Clone(have), func(a any) bool {
		return slices.ContainsFunc(some, func(b any) bool { return same(a, b) })
	})
	if add {
		out = append(out, some...)
	}
	if out == nil {
		out = []any{}
	}
	return out
}
