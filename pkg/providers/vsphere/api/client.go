package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/vsphere"
)

// Client asks one vCenter. It may be used concurrently.
type Client struct {
	session     *auth.Session
	options     cloud.Options
	place       string
	datacenters []string
	vsan        atomic.Pointer[string] // the version of Cloud Native Storage's API
	views       views
	known       known
}

// Keep is cloud.Options' Keep.
func (c *Client) Keep(name string) func(at time.Time) { return c.options.Keep(name) }

// New makes a Client. place names the vCenter; machines are looked for in the datacenters, by name, path or ID, in all where there
// are none.
func New(s *auth.Session, o cloud.Options, place string, datacenters []string) *Client {
	return &Client{session: s, options: o, place: place, datacenters: datacenters}
}

// Place names the vCenter.
func (c *Client) Place() string { return c.place }

// Check asks the vCenter whether it can be used with these credentials: it makes what machines are read by.
func (c *Client) Check(ctx context.Context) error {
	_, err := c.view(ctx, "all machines", root)
	return err
}

// soap makes one request by the vSphere API.
func (c *Client) soap(ctx context.Context, op, object string, do func(*vim25.Client) error) error {
	err := c.session.SOAP(ctx, func(v *vim25.Client) error { return c.one(ctx, "vim", op, object, func() error { return do(v) }) })
	return c.failed(op+" "+object, err)
}

// rest makes one request by the API of tags.
func (c *Client) rest(ctx context.Context, op string, do func(*rest.Client) error) error {
	err := c.session.REST(ctx, func(r *rest.Client) error { return c.one(ctx, "tags", op, "", func() error { return do(r) }) })
	return c.failed(op, err)
}

// one passes a request through what stands before all of them.
func (c *Client) one(ctx context.Context, family, op, object string, do func() error) error {
	end, err := c.options.Begin(ctx, cloud.Request{Family: family, Place: c.place, Op: op, Object: object})
	if err != nil {
		return err
	}
	err = do()
	out := cloud.Outcome{Status: http.StatusOK}
	if err != nil {
		out.Status = statusOf(err)
		out.Throttled = out.Status == http.StatusServiceUnavailable || out.Status == http.StatusTooManyRequests
	}
	end(out)
	return err
}

// statusOf is the HTTP status of a failure, 0 where there was no answer.
func statusOf(err error) int {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		if rest.IsStatusError(err, status) {
			return status
		}
	}
	var network *url.Error
	if errors.As(err, &network) && strings.HasPrefix(network.Err.Error(), "429 ") { // govmomi has no other sign of it
		return http.StatusTooManyRequests
	}
	if _, isFault := fault.As(err, new(types.BaseMethodFault)); isFault {
		return http.StatusInternalServerError // as SOAP has it
	}
	return 0
}

// failed makes a *cloud.Error of what went wrong. Nothing here is ever "not found": that is for who asked to say.
func (c *Client) failed(op string, err error) error {
	var known *cloud.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if statusOf(err) == http.StatusTooManyRequests {
		return &cloud.Error{Kind: cloud.KindThrottled, Op: strings.TrimSpace(op), Err: fmt.Errorf("%s answers 429 Too Many Requests", c.place)}
	}
	kind := cloud.KindUnavailable
	var login *cloudauth.Error
	err = c.session.Explain(err)
	switch {
	case errors.As(err, &login):
		kind = kindOf(login.Reason)
	case fault.Is(err, &types.NoPermission{}):
		kind, err = cloud.KindDenied, fmt.Errorf("%s does not let the user do that; it needs a role with System.View and System.Read", c.place)
	case rest.IsStatusError(err, http.StatusForbidden):
		kind = cloud.KindDenied
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case fault.Is(err, &types.ManagedObjectNotFound{}):
		kind, err = cloud.KindStale, errors.New("an object that was asked for is gone")
	default:
		err = errors.New(cloudauth.Excerpt(err.Error(), 200))
	}
	return &cloud.Error{Kind: kind, Op: strings.TrimSpace(op), Err: err}
}

func kindOf(r cloudauth.Reason) cloud.Kind {
	switch r {
	case cloudauth.Rejected, cloudauth.NoCredentials:
		return cloud.KindDenied
	case cloudauth.Throttled:
		return cloud.KindThrottled
	case cloudauth.Misconfigured:
		return cloud.KindInvalid
	}
	return cloud.KindUnavailable
}

// collect reads properties of objects, or of all that a view has. Objects that are gone and properties that are not shown are left
// out.
func (c *Client) collect(ctx context.Context, what string, objects []types.ObjectSpec, properties []types.PropertySpec) ([]types.ObjectContent, error) {
	skipGone := true
	filter := types.PropertyFilterSpec{ObjectSet: objects, PropSet: properties, ReportMissingObjectsInResults: &skipGone}
	var out []types.ObjectContent
	token := ""
	for first := true; first || token != ""; first = false {
		err := c.soap(ctx, "RetrievePropertiesEx", what, func(v *vim25.Client) error {
			pc := v.ServiceContent.PropertyCollector
			if token != "" {
				answer, err := methods.ContinueRetrievePropertiesEx(ctx, v, &types.ContinueRetrievePropertiesEx{This: pc, Token: token})
				if err == nil {
					out, token, err = append(out, answer.Returnval.Objects...), answer.Returnval.Token, ended(answer.Returnval.Objects)
				}
				return err
			}
			answer, err := methods.RetrievePropertiesEx(ctx, v, &types.RetrievePropertiesEx{This: pc, SpecSet: []types.PropertyFilterSpec{filter}})
			if err == nil && answer.Returnval != nil {
				out, token, err = answer.Returnval.Objects, answer.Returnval.Token, ended(answer.Returnval.Objects)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(out) > maxAnswers {
			return nil, &cloud.Error{Kind: cloud.KindUnavailable, Op: "RetrievePropertiesEx " + what, Err: fmt.Errorf("%s answers with more than %d objects", c.place, maxAnswers)}
		}
	}
	return out, nil
}

// ended is the fault of a session that has ended: objects that are asked for by their names are answered then, but without properties.
func ended(objects []types.ObjectContent) error {
	for i := range objects {
		for _, m := range objects[i].MissingSet {
			if m.Fault.Fault == nil {
				continue
			}
			if err := soap.WrapVimFault(m.Fault.Fault); fault.Is(err, &types.NotAuthenticated{}) {
				return err
			}
		}
	}
	return nil
}

// maxAnswers is how many objects are read at most, of however many pages: a vCenter has at most 45,000 machines.
const maxAnswers = 200_000

// container is what a view is of, on the client of a session.
type container = func(*vim25.Client) Ref

// all reads properties of all objects of some kinds below containers, together. The views that show them are made once a session.
func (c *Client) all(ctx context.Context, what string, below []container, properties ...types.PropertySpec) ([]types.ObjectContent, error) {
	for again := true; ; again = false {
		var views []Ref
		for _, one := range below {
			view, err := c.view(ctx, what, one)
			if err != nil {
				return nil, err
			}
			views = append(views, view)
		}
		out, err := c.shown(ctx, what, views, properties)
		if again && cloud.KindOf(err) == cloud.KindStale { // the session has ended, and its views with it
			c.views.forget(views)
			continue
		}
		return out, err
	}
}

// shown reads properties of what views show. A view that is not there any more shows nothing, without any error: so the views themselves
// must be among what is read.
func (c *Client) shown(ctx context.Context, what string, views []Ref, properties []types.PropertySpec) ([]types.ObjectContent, error) {
	var objects []types.ObjectSpec
	for _, view := range views {
		objects = append(objects, types.ObjectSpec{Obj: view, SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "ContainerView", Path: "view"}}})
	}
	out, err := c.collect(ctx, what, objects, append([]types.PropertySpec{{Type: "ContainerView", PathSet: []string{"container"}}}, properties...))
	if err != nil {
		return nil, err
	}
	all := len(out)
	out = slices.DeleteFunc(out, func(o types.ObjectContent) bool { return slices.Contains(views, o.Obj) })
	if all-len(out) < len(views) {
		return nil, &cloud.Error{Kind: cloud.KindStale, Op: "read " + what, Err: fmt.Errorf("%s has ended the session, and what was to be read by with it", c.place)}
	}
	return out, nil
}

func root(v *vim25.Client) Ref { return v.ServiceContent.RootFolder }

// Machines are all that there are in the datacenters, of which only Ref, UUID, Name and what their tools tell is said: what leads to one.
func (c *Client) Machines(ctx context.Context) ([]Machine, error) {
	return c.machines(ctx, append(slices.Clone(identityProperties), toolsProperties...))
}

// Identities are the same with Ref, UUID and Name alone: a small part of the bytes.
func (c *Client) Identities(ctx context.Context) ([]Machine, error) {
	return c.machines(ctx, identityProperties)
}

func (c *Client) machines(ctx context.Context, properties []string) ([]Machine, error) {
	below, err := c.containers(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.all(ctx, "all machines", below, types.PropertySpec{Type: "VirtualMachine", PathSet: properties})
	if err != nil {
		return nil, err
	}
	out := make([]Machine, 0, len(found))
	for i := range found {
		out = append(out, machineOf(&found[i]))
	}
	c.known.add(out)
	return out, nil
}

// Search says which machines of the whole vCenter have a UUID, or the name or the address by which the tools in them know them.
type Search struct{ UUID, DNSName, IP string }

// Search finds machines, by UUIDs whichever datacenter they are in, and reads them: for each of all by the first of its ways that finds any.
func (c *Client) Search(ctx context.Context, all ...[]Search) ([]Machine, error) {
	var refs []Ref
	for _, ways := range all {
		for _, s := range ways {
			found, err := c.find(ctx, s)
			if err != nil {
				return nil, err
			}
			if len(found) > 0 {
				refs = append(refs, found...)
				break
			}
		}
	}
	return c.Read(ctx, refs)
}

// Read reads machines whole, each once. Those that are gone are left out.
func (c *Client) Read(ctx context.Context, refs []Ref) ([]Machine, error) {
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Value, b.Value) })
	var out []Machine
	for some := range slices.Chunk(slices.Compact(refs), maxObjects) {
		objects := make([]types.ObjectSpec, 0, len(some))
		for _, r := range some {
			objects = append(objects, types.ObjectSpec{Obj: r})
		}
		found, err := c.collect(ctx, "some machines", objects, []types.PropertySpec{{Type: "VirtualMachine", PathSet: machineProperties}})
		if err != nil {
			return nil, err
		}
		for i := range found {
			out = append(out, machineOf(&found[i]))
		}
	}
	c.known.add(out)
	return out, nil
}

// maxObjects is how many machines are named in one request.
const maxObjects = 1000

func (s Search) op() string {
	switch {
	case s.UUID != "":
		return "FindAllByUuid"
	case s.DNSName != "":
		return "FindAllByDnsName"
	default:
		return "FindAllByIp"
	}
}

// find makes one search: by a UUID in the whole vCenter, else in the datacenters, as machines of others may have the same names
// elsewhere.
func (c *Client) find(ctx context.Context, s Search) (refs []Ref, err error) {
	in := []container{root}
	if s.UUID == "" {
		if in, err = c.containers(ctx); err != nil {
			return nil, err
		}
	}
	for _, below := range in {
		var found []Ref
		if err := c.soap(ctx, s.op(), "", func(v *vim25.Client) (err error) {
			found, err = s.find(ctx, v, below(v))
			return err
		}); err != nil {
			return nil, err
		}
		refs = append(refs, found...)
	}
	return refs, nil
}

func (s Search) find(ctx context.Context, v *vim25.Client, below Ref) ([]Ref, error) {
	index := *v.ServiceContent.SearchIndex
	var datacenter *Ref
	if below.Type == "Datacenter" {
		datacenter = &below
	}
	switch {
	case s.UUID != "":
		answer, err := methods.FindAllByUuid(ctx, v, &types.FindAllByUuid{This: index, Uuid: s.UUID, VmSearch: true, InstanceUuid: types.NewBool(false)})
		if err != nil {
			return nil, err
		}
		return answer.Returnval, nil
	case s.DNSName != "":
		answer, err := methods.FindAllByDnsName(ctx, v, &types.FindAllByDnsName{This: index, Datacenter: datacenter, DnsName: s.DNSName, VmSearch: true})
		if err != nil {
			return nil, err
		}
		return answer.Returnval, nil
	default:
		answer, err := methods.FindAllByIp(ctx, v, &types.FindAllByIp{This: index, Datacenter: datacenter, Ip: s.IP, VmSearch: true})
		if err != nil {
			return nil, err
		}
		return answer.Returnval, nil
	}
}
