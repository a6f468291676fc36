package credentialprovider

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// fixed is a Provider with one answer.
type fixed struct {
	registries []string
	answer     Credentials
	err        error
	asked      []Query
}

func (f *fixed) Serves(image Image) bool {
	return slices.ContainsFunc(f.registries, func(r string) bool { return sameRegistry(r, image.Registry) })
}

func (f *fixed) MatchImages() []string { return f.registries }

func (f *fixed) Describe() string { return "fixed serves " + strings.Join(f.registries, ", ") }

func (f *fixed) Credentials(_ context.Context, q Query) (Credentials, error) {
	f.asked = append(f.asked, q)
	return f.answer, f.err
}

// of is a Set of providers that use the node's identity.
func of(providers ...Provider) Set {
	var s Set
	for _, p := range providers {
		s.Kinds = append(s.Kinds, Kind{Name: "fixed", Open: func() (Provider, error) { return p, nil }})
	}
	return s
}

func TestAnswerRefusals(t *testing.T) {
	good := Credentials{Username: "u", Password: cloudauth.NewSecret("p")}
	ask := func(image string) *Request { return &Request{APIVersion: v1, Image: image} }
	for name, tt := range map[string]struct {
		request  *Request
		provider fixed
		want     string
	}{
		"other registry":    {ask("other.example/a"), fixed{registries: []string{"r.example"}, answer: good}, `image other.example/a: registry other.example is none of those configured: fixed serves r.example; add it there or take it out of matchImages`},
		"other port":        {ask("r.example:5000/a"), fixed{registries: []string{"r.example"}, answer: good}, "registry r.example:5000 is none of"},
		"provider's error":  {ask("r.example/a"), fixed{registries: []string{"r.example"}, err: errors.New("no luck")}, "image r.example/a: no luck"},
		"empty credentials": {ask("r.example/a"), fixed{registries: []string{"r.example"}}, "the credentials found for r.example are empty"},
		"expired":           {ask("r.example/a"), fixed{registries: []string{"r.example"}, answer: Credentials{Username: "u", Expires: time.Unix(1, 0)}}, "have expired at 1970-01-01T00:00:01Z; check the clock"},
		"bad image":         {ask("https://r.example/a"), fixed{registries: []string{"r.example"}, answer: good}, "no scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := of(&tt.provider).Answer(t.Context(), tt.request)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := (Set{}).Answer(t.Context(), ask("r.example/a")); err == nil || !strings.Contains(err.Error(), "no kind of registry is configured") {
		t.Errorf("nothing configured: %v", err)
	}
}

// The first kind that serves the image is asked; no kind after it is even opened.
func TestAnswerAsksTheResponsibleProvider(t *testing.T) {
	first := &fixed{registries: []string{"a.example", "docker.io"}, answer: Credentials{Username: "first"}}
	second := &fixed{registries: []string{"B.example:5000", "a.example"}, answer: Credentials{Username: "second"}}
	opened := 0
	set := of(first, second)
	inner := set.Kinds[1].Open
	set.Kinds[1].Open = func() (Provider, error) { opened++; return inner() }
	for _, image := range []string{"a.example/x", "b.example:5000/y/z", "nginx"} {
		if _, err := set.Answer(t.Context(), &Request{APIVersion: v1, Image: image}); err != nil {
			t.Errorf("%s: %v", image, err)
		}
	}
	if len(first.asked) != 2 || len(second.asked) != 1 || second.asked[0].Image.Registry != "b.example:5000" {
		t.Errorf("the first was asked for %v, the second for %v", first.asked, second.asked)
	}
	if opened != 1 {
		t.Errorf("the second was opened %d times, want once", opened)
	}
	set.Kinds[1].Open = func() (Provider, error) { return nil, errors.New("broken") }
	if _, err := set.Answer(t.Context(), &Request{APIVersion: v1, Image: "a.example/x"}); err != nil {
		t.Errorf("a kind that is not asked is broken: %v", err)
	}
	if _, err := set.Answer(t.Context(), &Request{APIVersion: v1, Image: "b.example:5000/x"}); err == nil || err.Error() != "broken" {
		t.Errorf("the kind cannot be opened: %v", err)
	}
}

// Only a registry that the user lists gets the answer without credentials.
func TestAnonymous(t *testing.T) {
	p := &fixed{registries: []string{"a.example"}, answer: Credentials{Username: "u"}}
	set := of(p)
	set.Anonymous = []string{"Public.example"}
	got, err := set.Answer(t.Context(), &Request{APIVersion: v1, Image: "public.example/a"})
	if err != nil || len(got.wire.Auth) != 0 || got.wire.CacheKeyType != "Registry" || got.wire.Auth == nil {
		t.Errorf("got %+v, %v, want an empty auth", got, err)
	}
	if _, err := set.Answer(t.Context(), &Request{APIVersion: v1, Image: "public.example:5000/a"}); err == nil {
		t.Error("another port of the registry is answered as well")
	}
}

// The peers keep credentials for half of their life, for a fixed time or not at all. Here it is the real
// life less a margin, and never more than what is configured.
func TestDefectCacheUsesRealLife(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	d := func(d time.Duration) *time.Duration { return &d }
	for name, tt := range map[string]struct {
		life, tokenLife time.Duration // 0 is none
		configured      *time.Duration
		want            *time.Duration
		ahead           time.Duration // of the cloud's clock
	}{
		"nothing known":              {0, 0, nil, nil, 0},
		"configured alone":           {0, 0, d(time.Hour), d(time.Hour), 0},
		"12 hours":                   {12 * time.Hour, 0, nil, d(12*time.Hour - 15*time.Minute), 0},
		"an hour":                    {time.Hour, 0, nil, d(54 * time.Minute), 0},
		"five minutes":               {5 * time.Minute, 0, nil, d(4 * time.Minute), 0},
		"half a minute":              {30 * time.Second, 0, nil, d(0), 0},
		"whole seconds":              {time.Hour + 1500*time.Millisecond, 0, nil, d(54*time.Minute + time.Second), 0},
		"configured is shorter":      {time.Hour, 0, d(time.Minute), d(time.Minute), 0},
		"configured is longer":       {time.Hour, 0, d(2 * time.Hour), d(54 * time.Minute), 0},
		"configured off":             {time.Hour, 0, d(0), d(0), 0},
		"the pod's token is sooner":  {12 * time.Hour, 10 * time.Minute, nil, d(9 * time.Minute), 0},
		"the pod's token is later":   {time.Hour, 2 * time.Hour, nil, d(54 * time.Minute), 0},
		"the pod's token alone":      {0, time.Hour, nil, d(54 * time.Minute), 0},
		"the node's clock is behind": {12 * time.Hour, 2 * time.Hour, nil, d(54 * time.Minute), time.Hour},
		"the node's clock is ahead":  {12 * time.Hour, 10 * time.Minute, nil, d(time.Hour + 3*time.Minute), -time.Hour},
		"the pod's token has ended":  {12 * time.Hour, time.Hour, nil, d(0), 2 * time.Hour},
		"a hostile life":             {1 << 62, 0, nil, d(12*time.Hour - 15*time.Minute), 0},
		"a hostile life, configured": {1 << 62, 0, d(time.Minute), d(time.Minute), 0},
		"a hostile pod's life":       {0, 1 << 62, nil, d(12*time.Hour - 15*time.Minute), 0},
		"a hostile clock":            {0, time.Hour, nil, d(12*time.Hour - 15*time.Minute), -1 << 62},
	} {
		t.Run(name, func(t *testing.T) {
			c := Credentials{CacheDuration: tt.configured, Ahead: tt.ahead}
			if tt.life != 0 {
				c.Expires = now.Add(tt.life)
			}
			var account *ServiceAccount
			if tt.tokenLife != 0 {
				account = &ServiceAccount{Expires: now.Add(tt.tokenLife)}
			}
			got, err := cacheDuration(c, account, now)
			if err != nil || (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}
