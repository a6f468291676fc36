package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/go-logr/logr"

	"github.com/isthmus-cloud/isthmus/pkg/dryrun"
)

// step is one change that would be made.
type step struct {
	// Words say what it is.
	Words string `json:"words"`
	// Call is the request: a method and a path, or an operation.
	Call string `json:"call"`
	// Service is the one of the cloud that is called, where a cloud tells it; "kubernetes" for the API server.
	Service string `json:"service,omitempty"`
	// Body is what is sent, or what the operation's parameters are.
	Body string `json:"body,omitempty"`
}

// inCluster is the service of steps in the cluster.
const inCluster = "kubernetes"

// recorder collects what a cloud's dry run tells of, which is what would be changed. It is safe for concurrent use.
type recorder struct {
	mu    sync.Mutex
	steps []step
}

var _ logr.LogSink = (*recorder)(nil)

// Init implements logr.LogSink.
func (*recorder) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. What was told before comes with a higher level.
func (*recorder) Enabled(level int) bool { return level == 0 }

// Error implements logr.LogSink.
func (*recorder) Error(error, string, ...any) {}

// WithValues implements logr.LogSink.
func (r *recorder) WithValues(...any) logr.LogSink { return r }

// WithName implements logr.LogSink.
func (r *recorder) WithName(string) logr.LogSink { return r }

// Info implements logr.LogSink.
func (r *recorder) Info(_ int, message string, pairs ...any) {
	if message != dryrun.CloudWouldChange {
		return
	}
	told := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		told[fmt.Sprint(pairs[i])] = fmt.Sprint(pairs[i+1])
	}
	s := step{Service: told["service"], Call: told["method"] + " " + told["path"], Body: told["body"]}
	if operation := told["operation"]; operation != "" {
		s.Call, s.Body = operation, told["parameters"]
		var fields map[string]any
		if json.Unmarshal([]byte(s.Body), &fields) == nil {
			if body, err := json.Marshal(set(fields)); err == nil {
				s.Body = string(body)
			}
		}
		s.Words = operationWords(operation, fields)
	} else {
		s.Words = requestWords(told["method"], told["path"], s.Body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, s)
}

// took returns what was told since the last call.
func (r *recorder) took() []step {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.steps
	r.steps = nil
	return out
}

// requestWords says what a request does by its path, in which collections and the IDs of their objects take turns.
func requestWords(method, path, body string) string {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if i := slices.IndexFunc(segments, isVersion); i >= 0 {
		segments = segments[i+1:]
	}
	if len(segments) > 0 && segments[0] == "lbaas" {
		segments = segments[1:]
	}
	if len(segments) == 0 {
		return method + " " + path
	}
	collection := segments[len(segments)-1]
	of, one := "", len(segments)%2 == 0
	if one {
		collection, of = segments[len(segments)-2], " "+segments[len(segments)-1]
	} else if n := len(segments); n > 1 {
		of = " of " + kindOf(segments[n-3]) + " " + segments[n-2]
	}
	switch {
	case method == "DELETE":
		return "delete " + kindOf(collection) + of
	case method == "POST":
		return "make " + kindOf(collection) + nameIn(body) + of
	case !one:
		return "set " + spoken(collection) + of
	default:
		return "change " + kindOf(collection) + of
	}
}

// isVersion reports whether a segment of a path names the version of an API.
func isVersion(segment string) bool {
	return len(segment) > 1 && segment[0] == 'v' && unicode.IsDigit(rune(segment[1]))
}

// compounds are the words in those names of collections that have no hyphen.
var compounds = strings.NewReplacer("loadbalancer", "load balancer", "healthmonitor", "health monitor", "floatingip", "floating IP", "l7polic", "L7 polic",
	"virtualmachineservice", "VirtualMachineService", "_", " ", "-", " ")

func spoken(collection string) string { return compounds.Replace(collection) }

// kindOf is what an object in a collection is called.
func kindOf(collection string) string {
	kind := spoken(collection)
	if stem, ok := strings.CutSuffix(kind, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(kind, "s")
}

// nameIn is " " and the name of the object in a request's body, "" where there is none.
func nameIn(body string) string {
	var doc map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &doc) != nil {
		return ""
	}
	for _, part := range doc {
		var named struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(part, &named) == nil && named.Name != "" {
			return " " + named.Name
		}
	}
	return ""
}

// operationWords says what an operation such as CreateLoadBalancer does.
func operationWords(operation string, parameters map[string]any) string {
	var b strings.Builder
	for i, r := range operation {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	for _, key := range []string{"Name", "GroupName", "LoadBalancerName"} {
		if name, ok := parameters[key].(string); ok {
			return b.String() + " " + name
		}
	}
	for _, key := range []string{"GroupId", "TargetGroupArn", "ListenerArn", "LoadBalancerArn"} {
		if id, ok := parameters[key].(string); ok {
			return b.String() + " of " + id
		}
	}
	return b.String()
}

// set leaves out what an operation's parameters do not set. It returns nil where nothing is left.
func set(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(key string, x any) bool {
			v[key] = set(x)
			return v[key] == nil
		})
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = set(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	}
	return v
}
