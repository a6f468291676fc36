package joint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// toyCloud is a cloud with one list of rules that all Services share: it is read and written as a
// whole, its ETag guards it, it has a limit, and one rule that is wrong has all of it refused.
type toyCloud struct {
	*httptest.Server
	limit int
	// before is called with each PUT before it is looked at, after with each that was carried out,
	// before it is answered; drop cuts the connection.
	before, after func(n int, drop func())

	mu    sync.Mutex
	rules map[string]string
	etag  int
	puts  int // also those that were refused
	made  int // those that were not
}

// toyList is the list as it is sent.
type toyList struct {
	ETag  string            `json:"etag"`
	Rules map[string]string `json:"rules"`
}

const wrong = "wrong"

func newToyCloud(t *testing.T) *toyCloud {
	t.Helper()
	c := &toyCloud{limit: 1000, rules: map[string]string{"ops/ssh": "22"}}
	c.Server = httptest.NewServer(c)
	c.Config.ErrorLog = nil
	t.Cleanup(c.Close)
	return c
}

func (c *toyCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = json.NewEncoder(w).Encode(toyList{fmt.Sprint(c.etag), c.rules})
		return
	}
	var in toyList
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &in) != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.puts++
	n := c.puts
	before, after := c.before, c.after
	c.mu.Unlock()
	dropped := false
	drop := func() { dropped = true }
	if before != nil {
		before(n, drop)
	}
	if dropped {
		panic(http.ErrAbortHandler)
	}
	if status := c.put(r.Header.Get("If-Match"), in.Rules); status != http.StatusOK {
		http.Error(w, "refused", status)
		return
	}
	if after != nil {
		after(n, drop)
	}
	if dropped {
		panic(http.ErrAbortHandler)
	}
}

func (c *toyCloud) put(match string, rules map[string]string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case match != fmt.Sprint(c.etag):
		return http.StatusPreconditionFailed
	case len(rules) > c.limit:
		return http.StatusConflict
	case slices.Contains(slices.Collect(maps.Values(rules)), wrong):
		return http.StatusBadRequest
	}
	c.rules = rules
	c.etag++
	c.made++
	return http.StatusOK
}

// set is what somebody else does.
func (c *toyCloud) set(name, rule string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules = maps.Clone(c.rules)
	c.rules[name] = rule
	c.etag++
}

// counts are the PUTs since the last call, and those of them that were carried out.
func (c *toyCloud) counts() (puts, made int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	puts, made = c.puts, c.made
	c.puts, c.made = 0, 0
	return puts, made
}

// names are those of the rules.
func (c *toyCloud) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.rules))
}

// toyProvider is what a provider would have: a pass over the list, and what is shown of it.
type toyProvider struct {
	*Objects[string, string]
	url    string
	client *http.Client

	mu     sync.Mutex
	passes [][]string // the tenants of each
	told   []string
}

// pass puts the rules of the tenants into the list.
func (p *toyProvider) pass(ctx context.Context, key string, all []Tenant[string]) ([]cloud.Result[string], error) {
	var names []string
	for _, t := range all {
		names = append(names, t.Ref.Name)
	}
	p.mu.Lock()
	p.passes = append(p.passes, names)
	p.mu.Unlock()
	var list toyList
	if err := p.send(ctx, http.MethodGet, key, toyList{}, &list); err != nil {
		return nil, err
	}
	next := maps.Clone(list.Rules)
	out := make([]cloud.Result[string], len(all))
	for i, t := range all {
		name := "lb/" + t.Ref.UID
		if next[name] = t.Desired; t.Gone {
			delete(next, name)
		}
		out[i].Value = name
	}
	if maps.Equal(next, list.Rules) {
		return out, nil
	}
	list.Rules = next
	return out, p.send(ctx, http.MethodPut, key, list, nil)
}

func (p *toyProvider) send(ctx context.Context, method, key string, in toyList, out *toyList) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+"/"+key, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("If-Match", in.ETag)
	resp, err := p.client.Do(req)
	if err != nil {
		return cloud.Errorf(cloud.KindUnavailable, "%s %s: %w", method, key, err)
	}
	defer func() { _ = resp.Body.Close() }()
	kinds := map[int]cloud.Kind{http.StatusPreconditionFailed: cloud.KindStale, http.StatusBadRequest: cloud.KindInvalid, http.StatusConflict: cloud.KindQuota}
	if kind, bad := kinds[resp.StatusCode]; bad {
		return cloud.Errorf(kind, "%s %s: %s", method, key, resp.Status)
	}
	if out != nil {
		return json.NewDecoder(resp.Body).Decode(out)
	}
	return nil
}

// process is one process with the provider, whose clock goes on when the test says so.
type process struct {
	*toyProvider
	t     *testing.T
	clock *clocktesting.FakeClock
	end   context.CancelFunc
}

const list = "list"

func start(t *testing.T, c *toyCloud, o Options) *process {
	t.Helper()
	p := &process{toyProvider: &toyProvider{url: c.URL, client: &http.Client{Transport: &http.Transport{}}}, t: t, clock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	o.Clock = p.clock
	p.Objects = New(p.pass, o)
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	p.Attach(ctx, func(ref cloud.LoadBalancerRef) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told = append(p.told, ref.Name)
	})
	t.Cleanup(p.stop)
	return p
}

// stop ends the process; no pass runs any more then.
func (p *process) stop() {
	p.end()
	for p.busy() {
		time.Sleep(time.Millisecond)
	}
	p.client.CloseIdleConnections()
}

func ref(name string) cloud.LoadBalancerRef {
	return cloud.LoadBalancerRef{Cluster: cloud.Cluster{UID: "cluster"}, Namespace: "default", Name: name, UID: "uid-" + name}
}

func services(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("s%03d", i))
	}
	return out
}

// ask has the rule of each Service ensured, at once, and returns the errors.
func (p *process) ask(names []string, rule func(name string) string) map[string]error {
	return p.each(names, func(name string) error {
		value, err := p.Ensure(p.t.Context(), list, ref(name), rule(name))
		if err == nil && value != "lb/uid-"+name {
			p.t.Errorf("%s has the answer %q", name, value)
		}
		return err
	})
}

func (p *process) each(names []string, do func(name string) error) map[string]error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]error{}
	for _, name := range names {
		wg.Go(func() {
			err := do(name)
			mu.Lock()
			defer mu.Unlock()
			out[name] = err
		})
	}
	wg.Wait()
	return out
}

// settle lets time go by until no pass runs or is due.
func (p *process) settle() {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); p.busy(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatal("the passes never end")
		}
		p.clock.Step(defaultQuiet)
	}
}

func (p *process) busy() bool {
	p.Objects.mu.Lock()
	defer p.Objects.mu.Unlock()
	for _, obj := range p.objects {
		if obj.running {
			return true
		}
	}
	return false
}

// serve asks for all, has the passes run, and asks again for the answers.
func (p *process) serve(names []string, rule func(string) string) map[string]error {
	p.t.Helper()
	for name, err := range p.ask(names, rule) {
		if cloud.KindOf(err) != cloud.KindRetryAfter {
			p.t.Errorf("%s: %v before its pass, want KindRetryAfter", name, err)
		}
	}
	p.settle()
	return p.ask(names, rule)
}

// refused are those of the kind among errs; any other error fails the test.
func (p *process) refused(errs map[string]error, kind cloud.Kind) []string {
	p.t.Helper()
	var out []string
	for name, err := range errs {
		switch {
		case err == nil:
		case cloud.KindOf(err) == kind:
			out = append(out, name)
		default:
			p.t.Errorf("%s: %v, want none or one of kind %s", name, err, kind)
		}
	}
	slices.Sort(out)
	return out
}

func (p *process) wantNothingRemembered() {
	p.t.Helper()
	p.Objects.mu.Lock()
	defer p.Objects.mu.Unlock()
	for key, obj := range p.objects {
		p.t.Errorf("%d entries of %s are remembered, with %d queued", len(obj.entries), key, len(obj.queue))
	}
}

func open(name string) string { return "443 " + name }

// rulesOf are the names of the rules of Services beside those of others.
func rulesOf(services []string, others ...string) []string {
	for _, s := range services {
		others = append(others, "lb/uid-"+s)
	}
	slices.Sort(others)
	return others
}

func (p *process) takeTold() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.told)
	out := strings.Join(p.told, " ")
	p.told = nil
	return out
}
