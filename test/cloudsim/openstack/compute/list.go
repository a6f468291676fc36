package compute

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// serverQuery are the parameters that Nova's schema of the server list knows. From 2.75 on any
// other is refused; before, others are ignored.
var serverQuery = []string{
	"access_ip_v4", "access_ip_v6", "all_tenants", "auto_disk_config", "availability_zone", "changes-before", "changes-since",
	"config_drive", "created_at", "deleted", "description", "display_description", "display_name", "flavor", "host", "hostname",
	"image", "image_ref", "instance_type_id", "ip", "ip6", "kernel_id", "key_name", "launch_index", "launched_at", "limit", "locked",
	"locked_by", "marker", "name", "node", "not-tags", "not-tags-any", "power_state", "progress", "project_id", "ramdisk_id",
	"reservation_id", "root_device_name", "soft_deleted", "sort_dir", "sort_key", "status", "tags", "tags-any", "task_state", "tenant_id",
	"terminated_at", "user_id", "uuid", "vm_state",
}

// userFilters are the filters that a caller who is no admin may use, by the microversion
// from which on; other filters are ignored for them.
var userFilters = map[string]int{
	"name": 1, "status": 1, "image": 1, "flavor": 1, "ip": 1, "changes-since": 1, "ip6": 5, "tags": 26, "tags-any": 26, "not-tags": 26,
	"not-tags-any": 26, "changes-before": 66, "availability_zone": 83, "user_id": 83, "vm_state": 83, "task_state": 83, "power_state": 83,
}

// sortKeys are what servers can be sorted by; Nova knows more, which nothing here has values for.
var sortKeys = map[string]func(a, b *server) int{
	"created_at":        func(a, b *server) int { return cmp.Compare(a.number, b.number) },
	"updated_at":        func(a, b *server) int { return a.updated.Compare(b.updated) },
	"launched_at":       func(a, b *server) int { return a.launched.Compare(b.launched) },
	"display_name":      func(a, b *server) int { return cmp.Compare(a.name, b.name) },
	"uuid":              func(a, b *server) int { return cmp.Compare(a.id, b.id) },
	"availability_zone": func(a, b *server) int { return cmp.Compare(a.zone, b.zone) },
	"vm_state":          func(a, b *server) int { return cmp.Compare(a.vmState, b.vmState) },
	"task_state":        func(a, b *server) int { return cmp.Compare(a.taskState, b.taskState) },
	"project_id":        func(a, b *server) int { return cmp.Compare(a.projectID, b.projectID) },
	"user_id":           func(a, b *server) int { return cmp.Compare(a.userID, b.userID) },
	"hostname":          func(a, b *server) int { return cmp.Compare(a.hostname, b.hostname) },
}

// listServers is GET /servers and /servers/detail.
func (s *Nova) listServers(c *core.Call) (*core.Reply, error) {
	if err := checkServerQuery(c); err != nil {
		return nil, err
	}
	limit, err := s.limit(c)
	if err != nil {
		return nil, err
	}
	all, err := s.filterServers(c)
	if err != nil {
		return nil, err
	}
	marker := c.Query.Get("marker")
	items, _, found := core.Page(all, func(v *server) string { return v.id }, marker, limit)
	if !found {
		return nil, dialect.BadInput("marker [%s] not found", marker)
	}
	out := make([]core.Object, 0, len(items))
	for _, v := range items {
		if c.Path == "/servers/detail" {
			out = append(out, s.serverBody(c, v, true))
		} else {
			out = append(out, core.Object{"id": v.id, "name": v.name, "links": computeLinks(c, "servers", v.id)})
		}
	}
	body := core.Object{"servers": out}
	if len(items) > 0 && len(items) == limit { // Nova does not look whether more follow
		body["servers_links"] = dialect.NextLink(c, items[len(items)-1].id)
	}
	return core.OK(body)
}

func checkServerQuery(c *core.Call) error {
	if c.Micro >= 75 {
		for _, k := range slices.Sorted(keysOf(c.Query)) {
			if !slices.Contains(serverQuery, k) && !strings.HasPrefix(k, "_") {
				return dialect.BadInput("'%s' does not match any of the regexes: '^_'", k)
			}
		}
	}
	for _, k := range c.Query["sort_key"] {
		if sortKeys[k] == nil {
			return dialect.BadInput("Invalid input for query parameters sort_key. Value: %s. '%s' is not one of %v", k, k, slices.Sorted(keysOf(sortKeys)))
		}
	}
	for _, k := range []string{"changes-since", "changes-before"} {
		if text := c.Query.Get(k); text != "" {
			if _, err := dialect.ParseDate(text); err != nil {
				return dialect.BadInput("Invalid input for query parameters %s. Value: %s. '%s' is not a 'date-time'", k, text, text)
			}
		}
	}
	if dialect.AllTenants(c) && !c.Admin() {
		return core.Errorf(http.StatusForbidden, "", "Policy doesn't allow os_compute_api:servers:index:get_all_tenants to be performed.")
	}
	return nil
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// filterServers are the servers that the query selects, sorted, newest first by default.
func (s *Nova) filterServers(c *core.Call) ([]*server, error) {
	tests, err := s.serverTests(c)
	if err != nil {
		return nil, err
	}
	pool := s.servers
	if c.Query.Has("changes-since") || c.Query.Has("changes-before") || c.Admin() && strings.EqualFold(c.Query.Get("deleted"), "true") {
		pool = append(slices.Clone(pool), s.gone...)
	}
	all := dialect.AllTenants(c)
	var out []*server
	for _, v := range slices.Backward(pool) {
		if !all && v.projectID != c.Project() {
			continue
		}
		if !slices.ContainsFunc(tests, func(pass func(*server) bool) bool { return !pass(v) }) {
			out = append(out, v)
		}
	}
	keys, dirs := c.Query["sort_key"], c.Query["sort_dir"]
	slices.SortStableFunc(out, func(a, b *server) int {
		for i, k := range keys {
			if n := sortKeys[k](a, b); n != 0 {
				if i < len(dirs) && dirs[i] == "asc" {
					return n
				}
				return -n
			}
		}
		return 0
	})
	return out, nil
}

// serverTests turns the query's filters into tests.
func (s *Nova) serverTests(c *core.Call) ([]func(*server) bool, error) {
	var tests []func(*server) bool
	for k, values := range c.Query {
		since, free := userFilters[k]
		if !c.Admin() && (!free || c.Micro < since) {
			continue
		}
		test, err := s.serverTest(k, values)
		if err != nil {
			return nil, err
		}
		if test != nil {
			tests = append(tests, test)
		}
	}
	return tests, nil
}

// serverTest is one filter; nil when the parameter is none. Names match as regular expressions,
// without regard to case, as MySQL does.
func (s *Nova) serverTest(key string, values []string) (func(*server) bool, error) {
	value := values[len(values)-1]
	same := func(get func(*server) string) func(*server) bool {
		return func(v *server) bool { return get(v) == value }
	}
	switch key {
	case "name", "display_name", "hostname":
		re, err := regexp.Compile("(?i)" + value)
		if err != nil {
			return nil, dialect.BadInput("Invalid input for query parameters %s. Value: %s. '%s' is not a 'regex'", key, value, value)
		}
		return func(v *server) bool { return re.MatchString(v.name) }, nil
	case "ip", "ip6":
		re, err := regexp.Compile("^(?:" + value + ")")
		if err != nil {
			return nil, dialect.BadInput("Invalid input for query parameters %s. Value: %s. '%s' is not a 'regex'", key, value, value)
		}
		return func(v *server) bool { return s.hasAddress(v, re, key == "ip6") }, nil
	case "status":
		return func(v *server) bool {
			return slices.ContainsFunc(values, func(want string) bool { return strings.EqualFold(want, v.status()) })
		}, nil
	case "changes-since", "changes-before":
		at, _ := dialect.ParseDate(value) // checked before
		return func(v *server) bool { return v.updated.Before(at) == (key == "changes-before") }, nil
	case "tags", "tags-any", "not-tags", "not-tags-any":
		return tagTest(key, strings.Split(value, ",")), nil
	case "flavor":
		return same(func(v *server) string { return v.flavor.id }), nil
	case "image":
		return same(func(v *server) string { return v.imageID }), nil
	case "uuid":
		return same(func(v *server) string { return v.id }), nil
	case "host", "node":
		return same(func(v *server) string { return "compute-" + v.zone }), nil
	case "availability_zone":
		return same(func(v *server) string { return v.zone }), nil
	case "project_id", "tenant_id":
		return same(func(v *server) string { return v.projectID }), nil
	case "user_id":
		return same(func(v *server) string { return v.userID }), nil
	case "vm_state":
		return same(func(v *server) string { return v.vmState }), nil
	case "task_state":
		return same(func(v *server) string { return v.taskState }), nil
	}
	return nil, nil
}

func tagTest(key string, want []string) func(*server) bool {
	return func(v *server) bool {
		n := 0
		for _, t := range want {
			if slices.Contains(v.tags, t) {
				n++
			}
		}
		switch key {
		case "tags":
			return n == len(want)
		case "tags-any":
			return n > 0
		case "not-tags":
			return n < len(want)
		}
		return n == 0
	}
}

func (s *Nova) hasAddress(v *server, re *regexp.Regexp, v6 bool) bool {
	for _, p := range s.ports.Of(v.id) {
		for _, f := range p.FixedIPs {
			if f.IP.Is6() == v6 && re.MatchString(f.IP.String()) {
				return true
			}
		}
		for _, f := range p.FloatingIPs {
			if f.IP.Is6() == v6 && re.MatchString(f.IP.String()) {
				return true
			}
		}
	}
	return false
}
