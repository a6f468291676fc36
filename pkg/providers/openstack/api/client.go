package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/gophercloud/gophercloud/v2"

	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

const (
	// novaMicroversion is the first in which a server holds its flavor's name (Pike).
	novaMicroversion = "2.47"
	// PageSize is asked for in lists; services may give less.
	PageSize = 1000
	// maxPages stops a list that never ends.
	maxPages = 1000
	// FewIDs is how many elements of a collection are asked for by a value each, in one call, instead
	// of listing all: 50 UUIDs make a query of 2.4 kB; proxies commonly allow 4 or 8.
	FewIDs = 50
)

// Client is the access to the services of one region. All interfaces of the provider share
// one. It holds no gophercloud client: each operation asks the session for one, so that
// credentials that were reloaded are used at once.
//
// For files of this package: get a service client with c.compute(ctx) and so on, call
// gophercloud's packages or ListAll with it, and pass every error through
// WrapError("<verb> <object> <id>", err). The client must be used for one operation only.
type Client struct {
	session Session
}

// Session is what the provider needs of an auth.Session.
type Session interface {
	Service(ctx context.Context, service string) (*gophercloud.ServiceClient, error)
	Region() string
}

var _ Session = (*auth.Session)(nil)

// New makes the client of a session.
func New(s Session) *Client { return &Client{session: s} }

// Compute returns a client of Nova at the microversion that embeds the flavor's name.
func (c *Client) Compute(ctx context.Context) (*gophercloud.ServiceClient, error) {
	sc, err := c.Service(ctx, "compute")
	if err == nil {
		sc.Microversion = novaMicroversion
	}
	return sc, err
}

// Network returns a client of Neutron.
func (c *Client) Network(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.Service(ctx, "network")
}

// LoadBalancer returns a client of Octavia.
func (c *Client) LoadBalancer(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.Service(ctx, "load-balancer")
}

// BlockStorage returns a client of Cinder.
func (c *Client) BlockStorage(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.Service(ctx, "block-storage")
}

// Service returns a client of the service of that name in the catalog.
func (c *Client) Service(ctx context.Context, name string) (*gophercloud.ServiceClient, error) {
	sc, err := c.session.Service(ctx, name)
	if err != nil {
		return nil, authError("reach "+name, err)
	}
	return sc, nil
}

// Region is the configured region: the label of Nodes and volumes.
func (c *Client) Region() string { return c.session.Region() }

// ListAll reads every page of a collection. path is relative to the service (for example
// "servers/detail"), key is the member of the answer that holds the elements ("servers").
//
// It is stricter than gophercloud's pagers, because what a list lacks is taken for missing:
// an answer without the key is an error and not an empty list, a full page without a link
// to the next one is followed by asking for what comes after its last element, and a link
// that repeats itself is an error. Of a link only the query is used: the token goes nowhere
// but to the endpoint of the catalog. On any error the elements read so far are dropped.
func ListAll[T any](ctx context.Context, sc *gophercloud.ServiceClient, path string, query url.Values, key string) ([]T, error) {
	var all []T
	err := EachPage(ctx, sc, path, query, key, func(items []T) bool {
		all = append(all, items...)
		return true
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// EachPage is ListAll that hands out the pages, until more is false.
func EachPage[T any](ctx context.Context, sc *gophercloud.ServiceClient, path string, query url.Values, key string, more func([]T) bool) error {
	q := maps.Clone(query)
	if q == nil {
		q = url.Values{}
	}
	q.Set("limit", strconv.Itoa(PageSize))
	seen := map[string]bool{}
	for range maxPages {
		encoded := q.Encode()
		if seen[encoded] {
			return fmt.Errorf("list %s: the pages repeat themselves", key)
		}
		seen[encoded] = true
		page, err := getPage[T](ctx, sc, sc.ServiceURL(path)+"?"+encoded, key)
		if err != nil {
			return err
		}
		if !more(page.items) {
			return nil
		}
		switch {
		case page.next != nil:
			q = page.next
		case len(page.items) >= PageSize && page.lastID != "":
			q = maps.Clone(q)
			q.Set("marker", page.lastID)
		default:
			return nil
		}
	}
	return fmt.Errorf("list %s: more than %d pages", key, maxPages)
}

// listPage is one page of a collection.
type listPage[T any] struct {
	items  []T
	next   url.Values // the query of the next page; nil when no link names one
	lastID string
}

func getPage[T any](ctx context.Context, sc *gophercloud.ServiceClient, pageURL, key string) (*listPage[T], error) {
	var doc map[string]json.RawMessage
	resp, err := sc.Get(ctx, pageURL, &doc, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if resp != nil {
		defer func() { _ = resp.Body.Close() }()
	}
	if err != nil {
		return nil, err
	}
	raw, ok := doc[key]
	if !ok || string(raw) == "null" {
		return nil, fmt.Errorf("the answer of %s has no %q", withoutQuery(pageURL), key)
	}
	page := &listPage[T]{}
	if err := json.Unmarshal(raw, &page.items); err != nil {
		return nil, fmt.Errorf("the answer of %s is malformed: %w", withoutQuery(pageURL), err)
	}
	if reflect.TypeFor[T]().Kind() == reflect.Pointer && slices.ContainsFunc(page.items, func(item T) bool { return reflect.ValueOf(item).IsNil() }) {
		return nil, fmt.Errorf("the answer of %s is malformed: an element is null", withoutQuery(pageURL))
	}
	var links []struct{ Rel, Href string }
	if raw, ok := doc[key+"_links"]; ok {
		if err := json.Unmarshal(raw, &links); err != nil {
			return nil, fmt.Errorf("the links of %s are malformed: %w", withoutQuery(pageURL), err)
		}
	}
	for _, l := range links {
		if l.Rel != "next" {
			continue
		}
		u, err := url.Parse(l.Href)
		if err != nil || u.RawQuery == "" {
			return nil, fmt.Errorf("the link to the next page of %s is malformed", withoutQuery(pageURL))
		}
		page.next = u.Query()
	}
	if page.next == nil && len(page.items) >= PageSize {
		page.lastID = lastID(raw)
	}
	return page, nil
}

// lastID is the id of the last element of a JSON array.
func lastID(raw json.RawMessage) string {
	var ids []struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(raw, &ids) != nil || len(ids) == 0 {
		return ""
	}
	return ids[len(ids)-1].ID
}

// ListIn reads the elements of a collection whose field has one of the values, in as few
// calls as keep the URL short. The values may be in any number; none makes no call.
func ListIn[T any](ctx context.Context, sc *gophercloud.ServiceClient, path, key, field string, values []string, query url.Values) ([]T, error) {
	var all []T
	for chunk := range slices.Chunk(values, FewIDs) {
		q := maps.Clone(query)
		if q == nil {
			q = url.Values{}
		}
		q[field] = chunk
		items, err := ListAll[T](ctx, sc, path, q, key)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// GetJSON reads one document.
func GetJSON(ctx context.Context, sc *gophercloud.ServiceClient, url string, into any) error {
	resp, err := sc.Get(ctx, url, into, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if resp != nil {
		_ = resp.Body.Close()
	}
	return err
}

// PutJSON changes something; into may be nil.
func PutJSON(ctx context.Context, sc *gophercloud.ServiceClient, url string, body, into any, headers map[string]string) error {
	resp, err := sc.Put(ctx, url, body, into, &gophercloud.RequestOpts{
		OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusNoContent}, MoreHeaders: headers,
	})
	if resp != nil {
		_ = resp.Body.Close()
	}
	return err
}

// DeleteQuietly deletes; what is gone already is fine.
func DeleteQuietly(ctx context.Context, sc *gophercloud.ServiceClient, url string) error {
	resp, err := sc.Delete(ctx, url, &gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent, http.StatusOK, http.StatusAccepted, http.StatusNotFound}})
	if resp != nil {
		_ = resp.Body.Close()
	}
	return err
}

// ListFewOrAll reads the elements of a collection whose field has one of the values in one
// call: where there are many of them it reads the whole collection, and none makes no call.
func ListFewOrAll[T any](ctx context.Context, sc *gophercloud.ServiceClient, collection, field string, values []string, query url.Values) ([]T, error) {
	if len(values) > FewIDs {
		return ListAll[T](ctx, sc, collection, query, collection)
	}
	return ListIn[T](ctx, sc, collection, collection, field, values, query)
}
