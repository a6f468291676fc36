package cloudauth_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// server gives values on demand: each Fetch takes one of answers, and hangs until there is one.
type server struct {
	mu      sync.Mutex
	clock   time.Time
	begun   int
	state   string // of the files
	answers chan answer
}

type answer struct {
	value string
	life  time.Duration // 0 is for ever
	err   error
}

func newServer() *server {
	return &server{clock: time.Unix(1_800_000_000, 0), answers: make(chan answer, 10)}
}

func (s *server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *server) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

func (s *server) fetches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

func (s *server) files(state ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(state) > 0 {
		s.state = state[0]
	}
	return s.state
}

func (s *server) fetch(ctx context.Context) (string, time.Time, error) {
	s.mu.Lock()
	s.begun++
	s.mu.Unlock()
	select {
	case a := <-s.answers:
		if a.err != nil || a.life == 0 {
			return a.value, time.Time{}, a.err
		}
		return a.value, s.now().Add(a.life), nil
	case <-ctx.Done():
		return "", time.Time{}, fmt.Errorf("the server hangs: %w", ctx.Err())
	}
}

func (s *server) cache(o cloudauth.CacheOptions[string]) *cloudauth.Cache[string] {
	o.Fetch, o.Now = s.fetch, s.now
	if o.Timeout == 0 {
		o.Timeout = time.Hour
	}
	return cloudauth.NewCache(o)
}

// get is a Get that must not have to wait for the server.
func get(t *testing.T, c *cloudauth.Cache[string], want string) {
	t.Helper()
	if got, err := c.Get(t.Context()); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// A value is replaced before its end behind the backs of those who ask: with a server that hangs, all get the one that
// is still good, at once, and it is asked once.
func TestCacheStaleWhileValid(t *testing.T) {
	s := newServer()
	c := s.cache(cloudauth.CacheOptions[string]{})
	s.answers <- answer{value: "one", life: time.Hour}
	get(t, c, "one")
	s.pass(54 * time.Minute)
	get(t, c, "one")
	if n := s.fetches(); n != 1 {
		t.Errorf("%d fetches of a fresh value", n)
	}
	s.pass(2 * time.Minute) // less than five minutes are left
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { get(t, c, "one") })
	}
	all.Wait() // the server hangs
	eventually.True(t, "it is asked", func() bool { return s.fetches() == 2 })
	s.answers <- answer{value: "two", life: time.Hour}
	eventually.True(t, "the new one is there", func() bool { v, err := c.Get(t.Context()); return err == nil && v == "two" })
	if n := s.fetches(); n != 2 {
		t.Errorf("%d fetches", n)
	}
}

// What lives shortly is replaced in the last fifth of its life, and what does not end never.
func TestCacheShortAndEndlessLives(t *testing.T) {
	s := newServer()
	c := s.cache(cloudauth.CacheOptions[string]{Early: 4 * time.Minute})
	s.answers <- answer{value: "short", life: 5 * time.Minute}
	get(t, c, "short")
	s.pass(4*time.Minute - time.Second)
	get(t, c, "short")
	if n := s.fetches(); n != 1 {
		t.Errorf("%d fetches", n)
	}
	s.pass(time.Minute - 8*time.Second) // 9 s before its end it is none any more
	s.answers <- answer{value: "endless"}
	get(t, c, "endless")
	s.pass(1000 * time.Hour)
	get(t, c, "endless")
	if n := s.fetches(); n != 2 {
		t.Errorf("%d fetches", n)
	}
}

// After the second failure in a row the server is left alone, for longer each time.
func TestCacheBackoff(t *testing.T) {
	s := newServer()
	var observed []error
	c := s.cache(cloudauth.CacheOptions[string]{Observe: func(_ time.Duration, _ time.Time, err error) { observed = append(observed, err) }})
	broken := errors.New("broken")
	for range 2 { // one failure may be of a moment
		s.answers <- answer{err: broken}
		if _, err := c.Get(t.Context()); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
	if stays, err := c.Failure(); !stays || !errors.Is(err, broken) || s.fetches() != 2 {
		t.Errorf("it is said to be %v, %t after %d fetches", err, stays, s.fetches())
	}
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		s.pass(wait - time.Millisecond)
		before := s.fetches()
		if _, err := c.Get(t.Context()); !errors.Is(err, broken) || s.fetches() != before {
			t.Errorf("before %s: %v, %d fetches", wait, err, s.fetches()-before)
		}
		s.pass(time.Millisecond)
		s.answers <- answer{err: broken}
		if _, err := c.Get(t.Context()); !errors.Is(err, broken) || s.fetches() != before+1 {
			t.Errorf("after %s: %v, %d fetches", wait, err, s.fetches()-before)
		}
	}
	s.pass(30 * time.Second)
	s.answers <- answer{value: "well", life: time.Hour}
	get(t, c, "well")
	if stays, err := c.Failure(); stays || err != nil {
		t.Errorf("it is said to be %v", err)
	}
	if n := len(observed); n != s.fetches() || observed[n-1] != nil || !errors.Is(observed[0], broken) {
		t.Errorf("%d of %d fetches observed: %v", n, s.fetches(), observed)
	}
}

// While there is a value that is good, a failure costs nobody anything, and the server is not asked by everyone.
func TestCacheFailureWhileValid(t *testing.T) {
	s := newServer()
	c := s.cache(cloudauth.CacheOptions[string]{})
	s.answers <- answer{value: "one", life: time.Hour}
	get(t, c, "one")
	s.pass(56 * time.Minute)
	s.answers <- answer{err: errors.New("broken")}
	get(t, c, "one")
	eventually.True(t, "it failed", func() bool { stays, _ := c.Failure(); return stays })
	for range 10 {
		get(t, c, "one")
	}
	if n := s.fetches(); n != 2 {
		t.Errorf("%d fetches", n)
	}
	s.pass(11 * time.Second)
	get(t, c, "one")
	eventually.True(t, "it is asked again", func() bool { return s.fetches() == 3 })
	s.answers <- answer{value: "two", life: time.Hour}
	eventually.True(t, "the new one is there", func() bool { v, err := c.Get(t.Context()); return err == nil && v == "two" })
}

// Who asked first may leave without ending it for others; when all have left, it is given up, and that is no failure.
func TestCacheWaitersLeave(t *testing.T) {
	s := newServer()
	c := s.cache(cloudauth.CacheOptions[string]{})
	first, leave := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { _, err := c.Get(first); gone <- err }()
	eventually.True(t, "it is asked", func() bool { return s.fetches() == 1 })
	second := make(chan string)
	go func() { v, _ := c.Get(t.Context()); second <- v }()
	short, done := context.WithCancel(t.Context())
	third := make(chan error)
	go func() { _, err := c.Get(short); third <- err }()
	done()
	if err := <-third; !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves: %v", err)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who asked first: %v", err)
	}
	s.answers <- answer{value: "one", life: time.Hour}
	if v := <-second; v != "one" {
		t.Errorf("who stayed got %q", v)
	}
	s.pass(2 * time.Hour)
	all, end := context.WithCancel(t.Context())
	go func() { _, err := c.Get(all); gone <- err }()
	before := s.fetches()
	eventually.True(t, "it is asked", func() bool { return s.fetches() >= before && s.fetches() > 1 })
	end()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the last of them: %v", err)
	}
	if stays, err := c.Failure(); stays || err != nil {
		t.Errorf("given up is taken for %v", err)
	}
	close(s.answers) // which gives empty ones
	if _, err := c.Get(t.Context()); err != nil {
		t.Errorf("who asks again: %v", err)
	}
}

// A Fetch ends by itself, with all who wait for it.
func TestCacheTimeout(t *testing.T) {
	s := newServer()
	c := s.cache(cloudauth.CacheOptions[string]{Timeout: 50 * time.Millisecond})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := c.Get(t.Context()); err == nil {
				t.Error("a server that hangs gives a value")
			}
		})
	}
	all.Wait()
	if n := s.fetches(); n > 3 { // some come after the first has failed; then there is a backoff
		t.Errorf("%d fetches: they wait one after the other", n)
	}
}

// What values depend on is looked at every few seconds; once it has changed, the next one is waited for. While that
// fails, the one before is given.
func TestCacheWatch(t *testing.T) {
	s := newServer()
	c := s.cache(cloudauth.CacheOptions[string]{Watch: func() string { return s.files() }})
	s.answers <- answer{value: "one"}
	get(t, c, "one")
	s.files("changed")
	get(t, c, "one") // too early to look
	s.pass(5 * time.Second)
	s.answers <- answer{err: errors.New("half written")}
	get(t, c, "one")
	s.pass(15 * time.Second)
	s.answers <- answer{value: "two"}
	get(t, c, "two")
	s.pass(time.Hour)
	get(t, c, "two")
	if n := s.fetches(); n != 3 {
		t.Errorf("%d fetches", n)
	}
}

// A value that was refused is not given out again, not even while a new one is not to be had.
func TestCacheRenew(t *testing.T) {
	s := newServer()
	c := s.cache(cloudauth.CacheOptions[string]{})
	s.answers <- answer{value: "refused", life: time.Hour}
	get(t, c, "refused")
	s.answers <- answer{value: "new", life: time.Hour}
	if v, err := c.Renew(t.Context()); err != nil || v != "new" {
		t.Errorf("got %q, %v", v, err)
	}
	get(t, c, "new")
	s.answers <- answer{err: errors.New("broken")}
	if v, err := c.Renew(t.Context()); err == nil || v != "" {
		t.Errorf("got %q", v)
	}
	s.answers <- answer{value: "well", life: time.Hour}
	get(t, c, "well")
}

// A value is not given out after it was refused, also while another one is fetched already.
func TestCacheRenewDuringARenewal(t *testing.T) {
	s := newServer()
	c := s.cache(cloudauth.CacheOptions[string]{Early: 5 * time.Minute})
	s.answers <- answer{value: "refused", life: time.Hour}
	get(t, c, "refused")
	s.pass(56 * time.Minute)
	get(t, c, "refused") // and a renewal begins, which waits for the server
	renewed := make(chan string, 1)
	go func() {
		v, err := c.Renew(t.Context())
		if err != nil {
			t.Error(err)
		}
		renewed <- v
	}()
	select {
	case v := <-renewed:
		t.Errorf("got %q before the server has answered", v)
	case <-time.After(50 * time.Millisecond): // as long as it would take
	}
	s.answers <- answer{value: "new", life: time.Hour}
	if v := <-renewed; v != "new" {
		t.Errorf("got %q", v)
	}
}

// How long before its end a value is replaced is for who makes the cache to say.
func TestCacheEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := s.cache(cloudauth.CacheOptions[string]{Early: time.Minute})
		s.answers <- answer{value: "one", life: time.Hour}
		get(t, c, "one")
		s.pass(59*time.Minute - time.Second)
		get(t, c, "one")
		synctest.Wait()
		if n := s.fetches(); n != 1 {
			t.Errorf("%d fetches of a fresh value", n)
		}
		s.pass(time.Second)
		get(t, c, "one")
		synctest.Wait()
		if n := s.fetches(); n != 2 {
			t.Errorf("%d fetches, a minute before its end", n)
		}
		s.answers <- answer{value: "two", life: time.Hour}
		synctest.Wait()
		get(t, c, "two")
	})
}
