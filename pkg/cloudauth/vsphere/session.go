package vsphere

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Options are a vCenter, and what the program tells it.
type Options struct {
	// Server and Port are the vCenter's.
	Server, Port string
	// Insecure takes any certificate of it, CAFile has the authorities that are trusted in place of the system's, and Thumbprint
	// is that of the one certificate that is taken whoever has signed it.
	Insecure   bool
	CAFile     string
	Thumbprint string
	// Credentials are asked for before each login. Required; their errors say what is missing.
	Credentials func(ctx context.Context) (Credentials, error)
	// UserAgent names the program.
	UserAgent string
	// RequestTimeout bounds each request; 0 is a minute.
	RequestTimeout time.Duration
}

const (
	defaultTimeout = time.Minute
	// A login that was refused is tried again after refusedFirst, twice as long after each further one up to refusedLast: by
	// default a vCenter locks a user out after five refusals within three minutes.
	refusedFirst, refusedLast = time.Minute, 15 * time.Minute
	// goodbye is how long a logout may take.
	goodbye = 5 * time.Second
)

// Session is the access to one vCenter. It may be used concurrently. Its errors are *cloudauth.Error where there is no login, and
// those of govmomi otherwise, but for what Explain makes of them.
type Session struct {
	options Options
	soap    atomic.Pointer[door[vim25.Client]]
	rest    atomic.Pointer[door[rest.Client]]
}

// New returns a Session. It calls nobody; its error is a CAFile that cannot be used.
func New(o Options) (*Session, error) {
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = defaultTimeout
	}
	s := &Session{options: o}
	if _, err := s.client(); err != nil {
		return nil, err
	}
	s.Reset()
	return s, nil
}

// Reset forgets sessions and refusals, because the credentials are others now. The sessions are ended.
func (s *Session) Reset() {
	if old := s.soap.Swap(newDoor(s, s.enter, leave)); old != nil {
		go old.close()
	}
	if old := s.rest.Swap(newDoor(s, s.enterREST, leaveREST)); old != nil {
		go old.close()
	}
}

// Close ends the sessions.
func (s *Session) Close() {
	s.rest.Load().close()
	s.soap.Load().close()
}

// SOAP does something by the vSphere API, once more where the session had ended: do changes nothing then.
func (s *Session) SOAP(ctx context.Context, do func(*vim25.Client) error) error {
	return through(ctx, &s.soap, do, func(err error) bool { return fault.Is(err, &types.NotAuthenticated{}) })
}

// REST is the same by the API of tags.
func (s *Session) REST(ctx context.Context, do func(*rest.Client) error) error {
	return through(ctx, &s.rest, do, func(err error) bool { return rest.IsStatusError(err, http.StatusUnauthorized) })
}

func through[C any](ctx context.Context, at *atomic.Pointer[door[C]], do func(*C) error, ended func(error) bool) error {
	c, err := inside(ctx, at, nil)
	if err != nil {
		return err
	}
	if err = do(c); err == nil || !ended(err) {
		return err
	}
	if c, err = inside(ctx, at, c); err != nil {
		return err
	}
	return do(c)
}

// inside is a session by the credentials of now, and another than the one that has ended, nil for none. What became of a login by
// credentials that were replaced meanwhile is no answer.
func inside[C any](ctx context.Context, at *atomic.Pointer[door[C]], ended *C) (*C, error) {
	for {
		d := at.Load()
		c, err := d.cache.Get(ctx)
		if err == nil && c == ended {
			c, err = d.cache.Renew(ctx)
		}
		if err == nil || ctx.Err() != nil || at.Load() == d {
			return c, err
		}
	}
}

// door is a session of one kind.
type door[C any] struct {
	cache  *cloudauth.Cache[*C]
	leave  func(context.Context, *C)
	inside atomic.Pointer[C]
	closed atomic.Bool
}

func newDoor[C any](s *Session, enter func(context.Context) (*C, error), leave func(context.Context, *C)) *door[C] {
	d := &door[C]{leave: leave}
	d.cache = cloudauth.NewCache(cloudauth.CacheOptions[*C]{
		Timeout: s.options.RequestTimeout,
		Backoff: func(failures int, err error) time.Duration {
			var e *cloudauth.Error
			if errors.As(err, &e) && e.Reason == cloudauth.Rejected {
				return backoff.Doubling(refusedFirst, refusedLast, failures)
			}
			return backoff.Doubling(time.Second, 30*time.Second, failures-1)
		},
		Fetch: func(ctx context.Context) (*C, time.Time, error) {
			c, err := enter(ctx)
			if err != nil {
				return nil, time.Time{}, err
			}
			if old := d.inside.Swap(c); old != nil { // it had ended, or somebody was faster
				go d.end(old)
			}
			if d.closed.Load() { // while it began
				if d.inside.CompareAndSwap(c, nil) {
					d.end(c)
				}
				return nil, time.Time{}, cloudauth.NewError(cloudauth.Failed, "%s: the session has ended meanwhile, as the program ends", s.where())
			}
			return c, time.Time{}, nil
		},
	})
	return d
}

func (d *door[C]) close() {
	d.closed.Store(true)
	if c := d.inside.Swap(nil); c != nil {
		d.end(c)
	}
}

// end ends a session that nobody uses any more; where it fails, the vCenter ends it after half an hour.
func (d *door[C]) end(c *C) {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye) //nolint:forbidigo // nobody waits for it
	defer cancel()
	d.leave(ctx, c)
}

func leave(ctx context.Context, c *vim25.Client) { _ = session.NewManager(c).Logout(ctx) } // see end

func leaveREST(ctx context.Context, c *rest.Client) { _ = c.Logout(ctx) } // see end

// where is how messages call the vCenter.
func (s *Session) where() string {
	return fmt.Sprintf("vCenter %s:%s", s.options.Server, s.options.Port)
}
