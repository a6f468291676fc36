package vsphere

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// requests is what stands before the vCenter, and sees the requests of others.
type requests struct {
	mu       sync.Mutex
	password string
	page     int
	methods  map[string]int
	sessions map[string]bool // those of the API of tags; false of one that was ended
}

// SetPassword changes the user's password. Sessions that are there go on.
func (v *VCenter) SetPassword(password string) {
	v.seen.mu.Lock()
	defer v.seen.mu.Unlock()
	v.seen.password = password
}

// EndSessions ends the sessions of all others, as the vCenter's restart does.
func (v *VCenter) EndSessions(ctx context.Context) error {
	v.seen.mu.Lock()
	for id := range v.seen.sessions {
		v.seen.sessions[id] = false
	}
	v.seen.mu.Unlock()
	var m mo.SessionManager
	if err := v.client.RetrieveOne(ctx, *v.client.ServiceContent.SessionManager, []string{"sessionList"}, &m); err != nil {
		return err
	}
	manager := session.NewManager(v.client.Client)
	own, err := manager.UserSession(ctx)
	if err != nil {
		return err
	}
	for _, s := range m.SessionList {
		if s.Key != own.Key {
			_ = manager.TerminateSession(ctx, []string{s.Key}) // it may have ended meanwhile
		}
	}
	return nil
}

// CloneTicket is good for one copy of the simulator's session.
func (v *VCenter) CloneTicket(ctx context.Context) (string, error) {
	return session.NewManager(v.client.Client).AcquireCloneTicket(ctx)
}

// SetPage bounds how many objects an answer has that reads properties, as a vCenter does with many; 0 is no bound.
func (v *VCenter) SetPage(objects int) {
	v.seen.mu.Lock()
	defer v.seen.mu.Unlock()
	v.seen.page = objects
}

// Methods are what others have called so far: methods of SOAP by their names, and others by HTTP's method and path, without IDs.
func (v *VCenter) Methods() map[string]int {
	v.seen.mu.Lock()
	defer v.seen.mu.Unlock()
	return maps.Clone(v.seen.methods)
}

// login is how vcsim asks about a user and a password.
func (v *VCenter) login(r *types.Login) bool {
	v.seen.mu.Lock()
	defer v.seen.mu.Unlock()
	return r.UserName == user && r.Password == v.seen.password
}

// handler counts what others ask next for, and has it answered late, or not at all, where a test wants that.
func (v *VCenter) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.UserAgent() == agent {
			next.ServeHTTP(rw, r)
			return
		}
		v.Requests.Add(1)
		v.Open.Add(1)
		defer v.Open.Add(-1)
		time.Sleep(time.Duration(v.Delay.Load()))
		if status := int(v.refuse.Load()); status != 0 {
			http.Error(rw, "no", status)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		name, body, valid := v.seen.note(r, body)
		if !valid {
			http.Error(rw, "the session has ended", http.StatusUnauthorized)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		rw = counted{rw, &v.Bytes}
		next := v.inOrder(name, next)
		if instead := v.instead.Load(); instead != nil {
			(*instead)(rw, r, next)
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// inOrder answers a logout by itself, after what is answered and before what comes next. vcsim's Logout has the lock of the session's
// objects and then asks for those of its views; a read of a view asks for them the other way round, and both would wait for good
// (govmomi v0.55.1, simulator/session_manager.go and property_collector.go). What waits for news holds no view.
func (v *VCenter) inOrder(name string, next http.Handler) http.Handler {
	lock, unlock := v.logouts.RLock, v.logouts.RUnlock
	switch {
	case name == "Logout":
		lock, unlock = v.logouts.Lock, v.logouts.Unlock
	case strings.HasPrefix(name, "WaitForUpdates"):
		return next
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		lock()
		defer unlock()
		next.ServeHTTP(rw, r)
	})
}

// restSession is the header by which the API of tags knows a session.
const restSession = "vmware-api-session-id"

// note records a request and returns what it calls, and its body as it goes on. It is not valid where its session was ended.
func (s *requests) note(r *http.Request, body []byte) (name string, _ []byte, valid bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = method(r, body)
	s.methods[name]++
	if name == "RetrievePropertiesEx" && s.page > 0 {
		body = options.ReplaceAll(body, fmt.Appendf(nil, "<options><maxObjects>%d</maxObjects></options>", s.page))
	}
	id := r.Header.Get(restSession)
	if cookie, err := r.Cookie(restSession); err == nil && id == "" {
		id = cookie.Value
	}
	if id == "" {
		return name, body, true
	}
	valid, known := s.sessions[id]
	if !known {
		valid, s.sessions[id] = true, true
	}
	return name, body, valid
}

var (
	options = regexp.MustCompile(`<options></options>|<options/>`)
	ids     = regexp.MustCompile(`id:[^/?]+`)
)

// method names what a request calls.
func method(r *http.Request, body []byte) string {
	if r.Method != http.MethodPost || !bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		name := r.Method + " " + ids.ReplaceAllString(strings.TrimPrefix(r.URL.Path, "/rest/com/vmware/cis"), "ID")
		if action := r.URL.Query().Get("~action"); action != "" {
			name += " " + action
		}
		return name
	}
	inside := false
	for d := xml.NewDecoder(bytes.NewReader(body)); ; {
		token, err := d.Token()
		if err != nil {
			return "?"
		}
		element, ok := token.(xml.StartElement)
		if ok && inside {
			return element.Name.Local
		}
		inside = inside || ok && element.Name.Local == "Body"
	}
}
