package resource

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// notFilters are the query keys that steer a list and select nothing.
var notFilters = [...]string{"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"}

// list answers a collection: filters, order, page, fields.
func (k *Kind) list(c *core.Call) (*core.Reply, error) {
	limit, err := listLimit(c.Query)
	if err != nil {
		return nil, err
	}
	views, err := k.matching(c)
	if err != nil {
		return nil, err
	}
	if err := sortViews(views, c.Query); err != nil {
		return nil, err
	}
	marker := c.Query.Get("marker")
	if marker != "" {
		if _, err := k.Find(c, marker); err != nil {
			return nil, err
		}
	}
	out, links := cutPage(c, k.Path, views, marker, limit)
	body := core.Object{}
	for i := range out {
		out[i] = dialect.SelectFields(out[i], c.Query["fields"])
	}
	body[k.Many] = out
	if len(links) > 0 {
		body[k.Many+"_links"] = links
	}
	return core.OK(body)
}

// listLimit is the page's size, 0 for no paging.
func listLimit(q url.Values) (int, error) {
	v := q.Get("limit")
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		return 0, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad limit request: Limit must be an integer 0 or greater and not '%s'.", v)
	}
	return n, nil
}

// matching returns the views of the objects that the filters select, in order of id.
func (k *Kind) matching(c *core.Call) ([]core.Object, error) {
	items, narrowed := []Item(nil), false
	if ids := c.Query["id"]; len(ids) > 0 {
		narrowed = true
		for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
			if x, is := k.Get(id); is {
				items = append(items, x)
			}
		}
	} else if k.Narrow != nil {
		items, narrowed = k.Narrow(c)
	}
	if !narrowed {
		items = k.All()
	}
	out := []core.Object{}
	for _, x := range items {
		if !k.sees(c, x) {
			continue
		}
		v := k.View(c, x)
		hit, err := matches(v, c.Query)
		if err != nil {
			return nil, err
		}
		if hit {
			out = append(out, v)
		}
	}
	return out, nil
}

// matches applies the filters of a query to an object; keys it does not have select nothing,
// as in Neutron.
func matches(v core.Object, q url.Values) (bool, error) {
	for key, want := range q {
		if slices.Contains(notFilters[:], key) {
			continue
		}
		var hit, known bool
		switch key {
		case "tags", "tags-any", "not-tags", "not-tags-any":
			hit, known = dialect.MatchTags(v, key, want), true
		case "fixed_ips":
			hit, known = matchFixedIPs(v, want), v["fixed_ips"] != nil
		default:
			have, is := v[key]
			if known = is; !is {
				break
			}
			var err error
			if hit, err = dialect.MatchValue(have, want); err != nil {
				return false, err
			}
		}
		if known && !hit {
			return false, nil
		}
	}
	return true, nil
}

// matchFixedIPs applies filters like ip_address=127.64.0.9 or subnet_id=…; values of one name
// are alternatives, different names must match on one address.
func matchFixedIPs(v core.Object, want []string) bool {
	ips, _ := v["fixed_ips"].([]core.Object)
	by := map[string][]string{}
	for _, w := range want {
		name, value, _ := strings.Cut(w, "=")
		by[name] = append(by[name], value)
	}
	return slices.ContainsFunc(ips, func(ip core.Object) bool {
		for name, values := range by {
			var hit bool
			if name == "ip_address_substr" {
				hit = slices.ContainsFunc(values, func(x string) bool { return strings.Contains(dialect.Scalar(ip["ip_address"]), x) })
			} else {
				hit = slices.Contains(values, dialect.Scalar(ip[name]))
			}
			if !hit {
				return false
			}
		}
		return true
	})
}

func sortViews(views []core.Object, q url.Values) error {
	keys, dirs := q["sort_key"], q["sort_dir"]
	if len(keys) != len(dirs) {
		return dialect.BadRequest("The number of sort_keys and sort_dirs must be same")
	}
	for i, key := range slices.Backward(keys) {
		desc := dirs[i] == "desc"
		slices.SortStableFunc(views, func(a, b core.Object) int {
			n := strings.Compare(dialect.Scalar(a[key]), dialect.Scalar(b[key]))
			if desc {
				return -n
			}
			return n
		})
	}
	return nil
}

// cutPage cuts the page that limit, marker and page_reverse ask for, with the links around it.
func cutPage(c *core.Call, path string, views []core.Object, marker string, limit int) ([]core.Object, []core.Object) {
	id := func(v core.Object) string { return dialect.Scalar(v["id"]) }
	if limit == 0 && marker == "" {
		return views, nil
	}
	reverse, _ := dialect.ParseBool(c.Query.Get("page_reverse"))
	if limit == 0 {
		limit = -1
	}
	if reverse {
		views = slices.Clone(views)
		slices.Reverse(views)
	}
	out, more, _ := core.Page(views, id, marker, limit)
	if reverse {
		out = slices.Clone(out)
		slices.Reverse(out)
	}
	if len(out) == 0 {
		return []core.Object{}, nil
	}
	link := func(rel, marker string, back bool) core.Object {
		q := url.Values{}
		for k, v := range c.Query {
			if k != "marker" && k != "page_reverse" {
				q[k] = v
			}
		}
		q.Set("marker", marker)
		if back {
			q.Set("page_reverse", "True")
		}
		return core.Object{"rel": rel, "href": c.URL("/v2.0/" + path + "?" + q.Encode())}
	}
	var links []core.Object
	if more || reverse {
		links = append(links, link("next", id(out[len(out)-1]), false))
	}
	return out, append(links, link("previous", id(out[0]), true))
}
