package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	sdk "github.com/gophercloud/gophercloud/v2/openstack"
)

// Step is one raw API call of a sequence that is played against two clouds. {x} in Path and
// Body stands for what an earlier step has saved as x.
type Step struct {
	Service, Method, Path, Body string
	// Header is one more header, "Name: value".
	Header string
	// Save names values of the answer by their path in it: "lb": "loadbalancer.id".
	Save map[string]string
	// Until asks again until the value at a path of the answer is this, or until the status is:
	// "loadbalancer.provisioning_status=ACTIVE", "404".
	Until string
	// Loose compares the status only.
	Loose bool
	// Ignore are keys whose values are not compared.
	Ignore []string
}

// Player plays steps against one cloud.
type Player struct {
	client *gophercloud.ProviderClient
	base   map[string]string // service → endpoint
	vars   map[string]string
}

// NewPlayer logs in.
func NewPlayer(ctx context.Context, a Access) (*Player, error) {
	client, err := sdk.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: a.AuthURL, Username: a.User, Password: a.Password, DomainName: "Default", TenantName: a.Project, AllowReauth: true,
	})
	if err != nil {
		return nil, err
	}
	p := &Player{client: client, base: map[string]string{}, vars: map[string]string{}}
	where := gophercloud.EndpointOpts{Region: a.Region}
	for service, make := range map[string]func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error){
		"identity": sdk.NewIdentityV3, "compute": sdk.NewComputeV2, "network": sdk.NewNetworkV2, "load-balancer": sdk.NewLoadBalancerV2,
		"volume": sdk.NewBlockStorageV3, "key-manager": sdk.NewKeyManagerV1,
	} {
		sc, err := make(client, where)
		if err != nil {
			return nil, err
		}
		p.base[service] = strings.TrimSuffix(sc.ResourceBaseURL(), "/")
	}
	return p, nil
}

// Answer is what a cloud said.
type Answer struct {
	Status int
	// Body is the body, normalized: identifiers, addresses, times and hosts are only kinds.
	Body string
}

// Play makes one step.
func (p *Player) Play(ctx context.Context, s Step) (Answer, error) {
	deadline := time.Now().Add(time.Minute)
	for {
		a, doc, err := p.once(ctx, s)
		if err != nil {
			return a, err
		}
		path, want, valued := strings.Cut(s.Until, "=")
		done := s.Until == "" || valued && fmt.Sprint(dig(doc, path)) == want || !valued && fmt.Sprint(a.Status) == s.Until
		if !done && time.Now().After(deadline) {
			return a, fmt.Errorf("after a minute it is not yet so that %s: %d %s", s.Until, a.Status, a.Body)
		}
		if done {
			for name, path := range s.Save {
				if v, ok := dig(doc, path).(string); ok {
					p.vars[name] = v
				} else if a.Status < 300 {
					return a, fmt.Errorf("the answer has no %s: %s", path, a.Body)
				}
			}
			return a, nil
		}
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return a, err
		}
	}
}

func (p *Player) once(ctx context.Context, s Step) (a Answer, doc any, err error) {
	req, err := http.NewRequestWithContext(ctx, s.Method, p.base[s.Service]+p.fill(s.Path), strings.NewReader(p.fill(s.Body)))
	if err != nil {
		return a, nil, err
	}
	req.Header.Set("X-Auth-Token", p.client.Token())
	if s.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if name, value, ok := strings.Cut(s.Header, ": "); ok {
		req.Header.Set(name, value)
	}
	resp, err := p.client.HTTPClient.Do(req)
	if err != nil {
		return a, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return a, nil, err
	}
	a.Status = resp.StatusCode
	if json.Unmarshal(raw, &doc) != nil {
		a.Body = p.normalText(string(raw))
		return a, nil, nil
	}
	out, err := json.MarshalIndent(p.normal(doc, s.Ignore), "", " ")
	a.Body = string(out)
	return a, doc, err
}

func (p *Player) fill(s string) string {
	for k, v := range p.vars {
		s = strings.ReplaceAll(s, "{"+k+"}", v)
	}
	return s
}

// dig follows a path of keys; "0" takes the first item of a list.
func dig(doc any, path string) any {
	for _, key := range strings.Split(path, ".") {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[key]
		case []any:
			if len(v) == 0 {
				return nil
			}
			doc = v[0]
		default:
			return nil
		}
	}
	return doc
}

// kinds are what is replaced in texts, in this order.
var kinds = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`https?://[^/" ]+(/identity|/compute|/network|/load-balancer|/volume|/key-manager|/image)?`), "<host>"},
	{regexp.MustCompile(`req-[0-9a-f-]{36}`), "<request>"},
	{regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`), "<id>"},
	{regexp.MustCompile(`\b[0-9a-f]{56}\b|\b[0-9a-f]{32}\b`), "<hash>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "<time>"},
	{regexp.MustCompile(`\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b`), "<mac>"},
	{regexp.MustCompile(`\b(10\.95|127\.\d+|172\.24)(\.\d+){2,3}\b`), "<ip>"},
	{regexp.MustCompile(`\bfd95::[0-9a-f:]+\b`), "<ip6>"},
}

func (p *Player) normalText(s string) string {
	for _, k := range kinds {
		s = k.what.ReplaceAllString(s, k.with)
	}
	// Octavia lists the values of an enumeration in no order.
	if before, list, ok := strings.Cut(s, "Value should be one of: "); ok {
		values := strings.Split(list, ", ")
		sort.Strings(values)
		s = before + "Value should be one of: " + strings.Join(values, ", ")
	}
	return strings.TrimSpace(s)
}

// normal replaces what differs between any two clouds. Lists of objects are put in order.
func (p *Player) normal(v any, ignore []string) any {
	switch v := v.(type) {
	case string:
		return p.normalText(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = p.normal(v[i], ignore)
		}
		sort.SliceStable(out, func(i, j int) bool { return text(out[i]) < text(out[j]) })
		return out
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if out[k] = p.normal(x, ignore); contains(ignore, k) {
				out[k] = "<any>"
			}
		}
		return out
	}
	return v
}

func text(v any) string {
	var b bytes.Buffer
	_ = json.NewEncoder(&b).Encode(v) // what was decoded encodes
	return b.String()
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
