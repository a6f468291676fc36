package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

const (
	// PageSize is asked for in lists; services may give less.
	PageSize = 1000
	// maxPages stops a list that never ends.
	maxPages = 1000
	// FewIDs is how many elements of a collection are asked for by a value each, in one call, instead
	// of listing all: 50 UUIDs make a query of 2.4 kB; proxies commonly allow 4 or 8.
	FewIDs = 50
)

// Op is an operation on one service, by whose name its errors begin; they are in the kinds of pkg/cloud. One
// that has no client of the service fails with the reason in every call. Paths are relative to the service.
type Op struct {
	sc   *gophercloud.ServiceClient
	name string
	err  error
}

// On begins the operation of that name ("get server <id>") on a service.
func (c *Client) On(ctx context.Context, service, name string) Op {
	sc, err := c.Service(ctx, service)
	return Op{sc, name, err}
}

// With is On with a client that there is.
func With(sc *gophercloud.ServiceClient, name string) Op { return Op{sc: sc, name: name} }

// Client is that of the service, nil where there is none.
func (o Op) Client() *gophercloud.ServiceClient { return o.sc }

// Scope is where the answers come from, see ScopeOf; "" without a client.
func (o Op) Scope() string {
	if o.sc == nil {
		return ""
	}
	return ScopeOf(o.sc)
}

// At is the operation with what services offer from a microversion on.
func (o Op) At(microversion string) Op {
	if o.sc != nil {
		o.sc.Microversion = microversion
	}
	return o
}

// Call makes calls of gophercloud's with the client.
func (o Op) Call(call func(*gophercloud.ServiceClient) error) error {
	if o.err != nil {
		return o.err
	}
	return WrapError(o.name, call(o.sc))
}

// do makes one request with the client, and closes what it has not read.
func (o Op) do(request func(*gophercloud.ServiceClient) (*http.Response, error)) error {
	return o.Call(func(sc *gophercloud.ServiceClient) error {
		resp, err := request(sc)
		if resp != nil {
			_ = resp.Body.Close()
		}
		return err
	})
}

// Read reads a document as a whole.
func (o Op) Read(ctx context.Context, into any, path ...string) error {
	return o.do(func(sc *gophercloud.ServiceClient) (*http.Response, error) {
		return sc.Get(ctx, sc.ServiceURL(path...), into, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	})
}

// Get reads the document that the answer holds under key ("server"). An answer that holds none is an
// error, of KindUnknown.
func Get[T any](ctx context.Context, o Op, key string, path ...string) (*T, error) {
	var doc map[string]json.RawMessage
	if err := o.Read(ctx, &doc, path...); err != nil {
		return nil, err
	}
	out, err := under[*T](doc, key, "")
	return out, WrapError(o.name, err)
}

// Put changes what path names, with headers, and reads the document that the answer holds under key, as Get
// does; an empty key expects none, and returns nil.
func Put[T any](ctx context.Context, o Op, key string, change Change) (*T, error) {
	var doc map[string]json.RawMessage
	into := any(&doc)
	if key == "" {
		into = nil
	}
	err := o.do(func(sc *gophercloud.ServiceClient) (*http.Response, error) {
		return sc.Put(ctx, sc.ServiceURL(change.Path...), change.Body, into, &gophercloud.RequestOpts{
			OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusNoContent}, MoreHeaders: change.Headers})
	})
	if err != nil || key == "" {
		return nil, err
	}
	out, err := under[*T](doc, key, "")
	return out, WrapError(o.name, err)
}

// Change is what Put sends, and where.
type Change struct {
	Path    []string
	Body    any
	Headers map[string]string
}

// under is what an answer, of a URL as " of <URL>" or "", holds under key.
func under[T any](doc map[string]json.RawMessage, key, of string) (out T, err error) {
	raw, ok := doc[key]
	if !ok || string(raw) == "null" {
		return out, fmt.Errorf("the answer%s has no %q", of, key)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return *new(T), fmt.Errorf("the answer%s is malformed: %w", of, err)
	}
	return out, nil
}

// Delete deletes what path names; what is gone already is fine.
func (o Op) Delete(ctx context.Context, path ...string) error {
	return o.do(func(sc *gophercloud.ServiceClient) (*http.Response, error) {
		return sc.Delete(ctx, sc.ServiceURL(path...), &gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent, http.StatusOK, http.StatusAccepted, http.StatusNotFound}})
	})
}

// List reads every page of a collection ("ports", "servers/detail").
//
// It is stricter than gophercloud's pagers, because what a list lacks is taken for missing:
// an answer without the elements is an error and not an empty list, a full page without a link
// to the next one is followed by asking for what comes after its last element, and a link
// that repeats itself is an error. Of a link only the query is used: the token goes nowhere
// but to the endpoint of the catalog. On any error the elements read so far are dropped.
func List[T any](ctx context.Context, o Op, collection string, query url.Values) ([]T, error) {
	var all []T
	err := Pages(ctx, o, collection, query, func(items []T) bool {
		all = append(all, items...)
		return true
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ListBy is List of the elements whose field has one of the values that query has for it, in as few calls
// as keep the URL short. The values may be in any number; none makes no call.
func ListBy[T any](ctx context.Context, o Op, collection, field string, query url.Values) ([]T, error) {
	var all []T
	for chunk := range slices.Chunk(query[field], FewIDs) {
		q := maps.Clone(query)
		q[field] = chunk
		items, err := List[T](ctx, o, collection, q)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// ListByOrAll is ListBy in one call: where there are many values it reads the whole collection.
func ListByOrAll[T any](ctx context.Context, o Op, collection, field string, query url.Values) ([]T, error) {
	if len(query[field]) <= FewIDs {
		return ListBy[T](ctx, o, collection, field, query)
	}
	q := maps.Clone(query)
	delete(q, field)
	return List[T](ctx, o, collection, q)
}

// Pages is List that hands out the pages, until more is false.
func Pages[T any](ctx context.Context, o Op, collection string, query url.Values, more func([]T) bool) error {
	if o.err != nil {
		return o.err
	}
	return WrapError(o.name, pages(ctx, o.sc, collection, query, more))
}

func pages[T any](ctx context.Context, sc *gophercloud.ServiceClient, collection string, query url.Values, more func([]T) bool) error {
	// The member of the answer that holds the elements.
	key := strings.ReplaceAll(path.Base(strings.TrimSuffix(collection, "/detail")), "-", "_")
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
		items, next, err := getPage[T](ctx, sc, sc.ServiceURL(collection), key, q)
		if err != nil {
			return err
		}
		if !more(items) || next == nil {
			return nil
		}
		q = next
	}
	return fmt.Errorf("list %s: more than %d pages", key, maxPages)
}

// getPage reads a page of a collection, whose elements the answer holds under key, and says by which query
// the next one is read, nil for none.
func getPage[T any](ctx context.Context, sc *gophercloud.ServiceClient, at, key string, q url.Values) ([]T, url.Values, error) {
	var doc map[string]json.RawMessage
	resp, err := sc.Get(ctx, at+"?"+q.Encode(), &doc, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if resp != nil {
		defer func() { _ = resp.Body.Close() }()
	}
	if err != nil {
		return nil, nil, err
	}
	at = withoutQuery(at)
	items, err := under[[]T](doc, key, " of "+at)
	if err != nil {
		return nil, nil, err
	}
	isNil := func(item T) bool { return reflect.ValueOf(item).IsNil() }
	if reflect.TypeFor[T]().Kind() == reflect.Pointer && slices.ContainsFunc(items, isNil) {
		return nil, nil, fmt.Errorf("the answer of %s is malformed: an element is null", at)
	}
	var links []struct{ Rel, Href string }
	if raw, ok := doc[key+"_links"]; ok {
		if err := json.Unmarshal(raw, &links); err != nil {
			return nil, nil, fmt.Errorf("the links of %s are malformed: %w", at, err)
		}
	}
	var next url.Values
	for _, l := range links {
		if l.Rel != "next" {
			continue
		}
		u, err := url.Parse(l.Href)
		if err != nil || u.RawQuery == "" {
			return nil, nil, fmt.Errorf("the link to the next page of %s is malformed", at)
		}
		next = u.Query()
	}
	var ids []struct{ ID string }
	if next == nil && len(items) >= PageSize && json.Unmarshal(doc[key], &ids) == nil && ids[len(ids)-1].ID != "" {
		next = maps.Clone(q)
		next.Set("marker", ids[len(ids)-1].ID)
	}
	return items, next, nil
}
