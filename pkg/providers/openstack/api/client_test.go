package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

type item struct {
	ID string `json:"id"`
}

// serve answers each request with the page for its marker; what is asked is recorded.
func serve(t *testing.T, pages map[string]string) (sc *gophercloud.ServiceClient, asked *[]url.Values) {
	t.Helper()
	asked = &[]url.Values{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Query())
		body, ok := pages[r.URL.Query().Get("marker")]
		if !ok {
			w.WriteHeader(http.StatusInternalServerError)
		}
		if _, err := fmt.Fprint(w, strings.ReplaceAll(body, "SELF", "http://"+r.Host+r.URL.Path)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	return &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "t"}, Endpoint: srv.URL + "/v2/"}, asked
}

func fullPage(from int) string {
	var b strings.Builder
	for n := range PageSize {
		if n > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"%d"}`, from+n)
	}
	return `{"items":[` + b.String() + `]}`
}

func TestList(t *testing.T) {
	tests := []struct {
		name  string
		pages map[string]string
		want  int    // elements
		calls int    // requests
		err   string // in the error; "" for none
	}{
		{name: "empty", pages: map[string]string{"": `{"items":[]}`}, calls: 1},
		{name: "one page", pages: map[string]string{"": `{"items":[{"id":"a"},{"id":"b"}]}`}, want: 2, calls: 1},
		{
			name: "three pages", want: 3, calls: 3,
			pages: map[string]string{
				"":  `{"items":[{"id":"a"}],"items_links":[{"rel":"previous","href":"SELF?x=y"},{"rel":"next","href":"SELF?limit=1&marker=a"}]}`,
				"a": `{"items":[{"id":"b"}],"items_links":[{"rel":"next","href":"SELF?limit=1&marker=b"}]}`,
				"b": `{"items":[{"id":"c"}]}`,
			},
		},
		{
			name: "the link's host is not followed", want: 1, calls: 2,
			pages: map[string]string{
				"":  `{"items":[{"id":"a"}],"items_links":[{"rel":"next","href":"https://elsewhere.example/v2/items?marker=a"}]}`,
				"a": `{"items":[]}`,
			},
		},
		{
			name: "a full page without a link is not the end", want: PageSize + 1, calls: 2,
			pages: map[string]string{"": fullPage(1), fmt.Sprint(PageSize): `{"items":[{"id":"z"}]}`},
		},
		{name: "no key", pages: map[string]string{"": `{}`}, calls: 1, err: `has no "items"`},
		{name: "null", pages: map[string]string{"": `{"items":null}`}, calls: 1, err: `has no "items"`},
		{name: "other shape", pages: map[string]string{"": `{"items":{"id":"a"}}`}, calls: 1, err: "malformed"},
		{name: "not JSON", pages: map[string]string{"": `<html>`}, calls: 1, err: "invalid character"},
		{name: "empty body", pages: map[string]string{"": ""}, calls: 1, err: "EOF"},
		{name: "cut off", pages: map[string]string{"": `{"items":[{"id":"a"},`}, calls: 1, err: "EOF"},
		{
			name: "second page fails: nothing of the first counts", calls: 2, err: "500",
			pages: map[string]string{"": `{"items":[{"id":"a"}],"items_links":[{"rel":"next","href":"SELF?marker=a"}]}`},
		},
		{
			name: "pages in a circle", calls: 2, err: "repeat",
			pages: map[string]string{
				"":  `{"items":[{"id":"a"}],"items_links":[{"rel":"next","href":"SELF?marker=a"}]}`,
				"a": `{"items":[{"id":"b"}],"items_links":[{"rel":"next","href":"SELF?marker=a"}]}`,
			},
		},
		{name: "link without a query", pages: map[string]string{"": `{"items":[{"id":"a"}],"items_links":[{"rel":"next","href":"SELF"}]}`}, calls: 1, err: "link"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc, asked := serve(t, tt.pages)
			got, err := List[item](context.Background(), With(sc, "list"), "items", url.Values{"name": {"n"}})
			if len(got) != tt.want || len(*asked) != tt.calls {
				t.Errorf("%d elements in %d requests, want %d in %d", len(got), len(*asked), tt.want, tt.calls)
			}
			if (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if err != nil && got != nil {
				t.Errorf("elements with an error: %v", got)
			}
			if cloud.IsNotFound(WrapError("list", err)) {
				t.Errorf("a failed list is NotFound: %v", err)
			}
			if first := (*asked)[0]; first.Get("name") != "n" || first.Get("limit") != fmt.Sprint(PageSize) {
				t.Errorf("first request asked for %v", first)
			}
		})
	}
}

// A null among elements that are read as pointers would end the process.
func TestListWithNull(t *testing.T) {
	sc, _ := serve(t, map[string]string{"": `{"items":[{"id":"a"},null]}`})
	if got, err := List[*item](context.Background(), With(sc, "list"), "items", nil); err == nil || !strings.Contains(err.Error(), "null") {
		t.Errorf("%v, %v; want an error", got, err)
	}
}

func TestListBy(t *testing.T) {
	sc, asked := serve(t, map[string]string{"": `{"items":[{"id":"a"}]}`})
	var values []string
	for n := range 120 {
		values = append(values, fmt.Sprint(n))
	}
	got, err := ListBy[item](context.Background(), With(sc, "list"), "items", "device_id", url.Values{"device_id": values, "fields": {"id"}})
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v; want one element of each of three requests", got, err)
	}
	var sent []string
	for _, q := range *asked {
		sent = append(sent, q["device_id"]...)
	}
	if diff := cmp.Diff(values, sent); diff != "" {
		t.Errorf("values sent (-want +got):\n%s", diff)
	}
	*asked = nil
	if got, err := ListBy[item](context.Background(), With(sc, "list"), "items", "id", nil); got != nil || err != nil || len(*asked) > 0 {
		t.Errorf("no values: %v, %v, requests %v", got, err, *asked)
	}
}

// TestOperationNamesItsErrors: also where there is no client of the service, or nothing in the answer.
func TestOperationNamesItsErrors(t *testing.T) {
	ctx := t.Context()
	sc, _ := serve(t, map[string]string{"": `{"item":{"id":"1"},"null":null,"list":[]}`})
	if got, err := Get[item](ctx, With(sc, "get item 1"), "item", "items", "1"); err != nil || got.ID != "1" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Put[item](ctx, With(sc, "change item 1"), "item", Change{Path: []string{"items", "1"}, Body: map[string]any{"item": item{ID: "1"}}}); err != nil || got.ID != "1" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := With(sc, "delete item 1").Delete(ctx, "items", "1"); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"null", "list", "other"} {
		if got, err := Get[item](ctx, With(sc, "get item 1"), key, "items", "1"); got != nil || err == nil || cloud.KindOf(err) != cloud.KindUnknown || !strings.Contains(err.Error(), "get item 1: the answer") {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
	}
	none := Op{name: "get item 1", err: authError("reach items", fmt.Errorf("no endpoint"))}
	_, getErr := Get[item](ctx, none, "item", "items", "1")
	_, listErr := List[item](ctx, none, "items", nil)
	_, putErr := Put[item](ctx, none, "item", Change{})
	for _, err := range []error{getErr, listErr, putErr, none.Delete(ctx)} {
		if err == nil || !strings.Contains(err.Error(), "reach items") {
			t.Errorf("without a client: %v", err)
		}
	}
}
