package openstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

const (
	// pollEvery is how often the files are looked at.
	pollEvery = 5 * time.Second
	// lastReload is the longest wait before changed credentials that did not work yet are
	// tried again.
	lastReload = time.Minute
)

// watched is what the present credentials, or the latest attempt to replace them, came from.
type watched struct {
	cfg         Config // used again when only other files than cloud.conf changed
	files       []string
	fingerprint string
}

// load completes cfg, which came from the files in w, and returns what to watch from now on.
// read is nil where cfg is given and not read from a file. What changes while it is read, is
// read again, so that the settings are never a mixture; what changes later, is seen at the
// next look.
func (s *Session) load(w watched, read func() (Config, error)) (*settings, watched, error) {
	for range 4 { // twice when the files name other files than before
		w.fingerprint = cloudauth.Fingerprint(w.files...)
		if read != nil {
			cfg, err := read()
			if err != nil {
				return nil, w, err
			}
			w.cfg = cfg
		}
		set, err := newSettings(w.cfg, s.options.ConfigFile, s.getenv)
		files := set.files
		if s.options.ConfigFile != "" {
			files = append([]string{s.options.ConfigFile}, files...)
		}
		set.material = cloudauth.Fingerprint(set.files...)
		if slices.Equal(files, w.files) && cloudauth.Fingerprint(w.files...) == w.fingerprint {
			return set, w, err
		}
		w.files = files
	}
	return nil, w, errors.New("the files with the credentials change all the time")
}

// Run takes over the credentials when cloud.conf, clouds.yaml, the CA or the client
// certificate change on disk, until ctx ends; then it returns nil. New credentials are used
// only after they got a token. A file that is broken, or credentials that are refused, leave
// the old ones in use and are logged once; they are tried again, less and less often, until
// they work or change.
//
// The region and the project stay those of the start: everything else that was configured
// was for them.
func (s *Session) Run(ctx context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.files.lookNow(ctx)
		}
	}
}

// reloader looks after the files that the credentials came from.
type reloader struct {
	session *Session

	turn chan struct{} // holds one element while someone looks; guards what follows

	watched     watched
	failure     error  // why what is on disk is not in use; nil when it is
	said        string // the failure that was logged last
	otherRegion string // the region that was read last
	failures    int
	retryAt     time.Time
}

// enter waits for the caller's turn to look; false when ctx ended first.
func (r *reloader) enter(ctx context.Context) bool {
	select {
	case r.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *reloader) leave() { <-r.turn }

func (r *reloader) lookNow(ctx context.Context) {
	if r.enter(ctx) {
		defer r.leave()
		_ = r.look(ctx, time.Now()) // it is logged
	}
}

// look takes the files over where they changed, or where they failed before and it is time to
// try again. It returns why what is on disk is not in use, nil when it is.
func (r *reloader) look(ctx context.Context, now time.Time) error {
	changed := cloudauth.Fingerprint(r.watched.files...) != r.watched.fingerprint
	if !changed && (r.failure == nil || now.Before(r.retryAt)) {
		return r.failure
	}
	if changed {
		r.failures = 0
	}
	before := r.failure
	var taken bool
	taken, r.failure = r.session.reload(ctx)
	if r.failure != nil && ctx.Err() != nil {
		r.retryAt = now // it says nothing about the files
		return r.failure
	}
	if observe := r.session.options.Reloaded; observe != nil && (taken || before != nil || r.failure != nil) {
		observe(r.failure)
	}
	log := klog.FromContext(ctx)
	switch {
	case r.failure != nil:
		r.postpone(now)
		if text := r.failure.Error(); text != r.said {
			r.said = text
			log.Error(r.failure, "OpenStack credentials changed on disk, but are not usable; the old ones stay in use until that is repaired")
		}
		return r.failure
	case taken:
		log.Info("OpenStack credentials changed on disk and are in use now", "identity", r.session.login().settings.cfg.who())
	case before != nil:
		log.Info("OpenStack credentials on disk are again the ones in use")
	}
	r.said = ""
	return nil
}

// postpone decides when to try again what failed. What was refused is not tried often: that
// locks accounts.
func (r *reloader) postpone(now time.Time) {
	first := firstRetry
	if e := AsError(r.failure); e != nil && e.Reason == Rejected {
		first = pollEvery
	}
	r.retryAt = now.Add(min(first<<min(r.failures, 10), lastReload))
	r.failures++
}

// reload reads everything again, authenticates, and only then replaces the login. It reports
// whether it did: it does not when the credentials are still the same. The caller has the
// reloader's turn.
func (s *Session) reload(ctx context.Context) (bool, error) {
	var read func() (Config, error)
	if file := s.options.ConfigFile; file != "" {
		read = func() (Config, error) { return readGlobal(file) }
	}
	set, w, err := s.load(s.files.watched, read)
	s.files.watched = w
	if err != nil {
		return false, err
	}
	old := s.login()
	s.keepRegion(ctx, set, old.settings.cfg.Region)
	if old.settings.same(set) {
		return false, nil
	}
	next := s.newLogin(set)
	if _, _, err := next.ready(ctx); err != nil {
		next.http.CloseIdleConnections()
		return false, err
	}
	if err := sameProject(old, next); err != nil {
		next.http.CloseIdleConnections()
		return false, err
	}
	s.use(next)
	old.http.CloseIdleConnections()
	return true, nil
}

// keepRegion keeps the region of the start, and says so once where another one is on disk.
func (s *Session) keepRegion(ctx context.Context, set *settings, region string) {
	onDisk := set.cfg.Region
	set.cfg.Region = region
	if onDisk != region && onDisk != s.files.otherRegion {
		klog.FromContext(ctx).Info("The region changed on disk, which takes effect only at the next start; restart to use it", "inUse", region, "onDisk", onDisk)
	}
	s.files.otherRegion = onDisk
}

// use makes l the login in use.
func (s *Session) use(l *login) {
	l.inUse.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = l
}

// sameProject refuses credentials of another project than the ones in use: what runs has
// everything of that project in hand, and would take it for gone.
func sameProject(old, next *login) error {
	old.mu.Lock()
	worked, was := old.client != nil, old.holder.project
	old.mu.Unlock()
	next.mu.Lock()
	defer next.mu.Unlock()
	if !worked || next.holder.project == was {
		return nil
	}
	return &Error{Reason: Misconfigured, text: fmt.Sprintf("the new credentials (%s) are for project %q, those in use for project %q: correct them, or restart to change the project",
		next.settings.cfg.who(), next.holder.project, was)}
}

// readGlobal reads the section [Global] of cloud.conf. Mistakes in other sections are not
// its business.
func readGlobal(file string) (Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("reading cloud.conf again: %w", err)
	}
	var conf struct{ Global Config }
	if _, err := gcfg.DecodePart(file, data, &conf); err != nil {
		return Config{}, err
	}
	if len(data) == 0 {
		return Config{}, errors.New(file + " is empty")
	}
	return conf.Global, nil
}
