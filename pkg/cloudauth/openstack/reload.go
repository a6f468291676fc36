package openstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
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
// Each fingerprint is taken before its files are read, so that a change in between is seen at
// the next poll. read is nil where cfg is given and not read from a file.
func (s *Session) load(w watched, read func() (Config, error)) (*settings, watched, error) {
	for range 3 { // twice when the files name other files than before
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
		if slices.Equal(files, w.files) {
			return set, w, err
		}
		w.files = files
	}
	return nil, w, errors.New("the files that cloud.conf names change all the time")
}

// Run takes over the credentials when cloud.conf, clouds.yaml, the CA or the client
// certificate change on disk, until ctx ends; then it returns nil. New credentials are used
// only after they got a token. A file that is broken, or credentials that are refused, leave
// the old ones in use and are logged; they are tried again, less and less often, until they
// work or change.
func (s *Session) Run(ctx context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	r := reloader{session: s}
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			r.poll(ctx, now)
		}
	}
}

// reloader is the state of Run.
type reloader struct {
	session  *Session
	pending  bool // what was read last is not in use yet
	failures int
	retryAt  time.Time
}

// poll looks at the files and reloads them where they changed or failed before.
func (r *reloader) poll(ctx context.Context, now time.Time) {
	log := klog.FromContext(ctx)
	changed := cloudauth.Fingerprint(r.session.watched.files...) != r.session.watched.fingerprint
	if !changed && (!r.pending || now.Before(r.retryAt)) {
		return
	}
	if changed {
		r.failures = 0
	}
	taken, err := r.session.reload(ctx)
	if err != nil {
		wait := min(pollEvery<<min(r.failures, 10), lastReload)
		r.pending, r.retryAt = true, now.Add(wait)
		r.failures++
		log.Error(err, "OpenStack credentials changed on disk, but are not usable; the old ones stay in use", "retryAfter", wait)
		return
	}
	switch {
	case taken:
		log.Info("OpenStack credentials changed on disk and are in use now", "identity", r.session.login().settings.cfg.who())
	case r.pending:
		log.Info("OpenStack credentials on disk are again the ones in use")
	}
	r.pending, r.failures = false, 0
}

// reload reads everything again, authenticates, and only then replaces the login. It reports
// whether it did: it does not when the credentials are still the same.
func (s *Session) reload(ctx context.Context) (bool, error) {
	var read func() (Config, error)
	if file := s.options.ConfigFile; file != "" {
		read = func() (Config, error) { return readGlobal(file) }
	}
	set, w, err := s.load(s.watched, read)
	s.watched = w
	if err != nil {
		return false, err
	}
	old, next := s.login(), newLogin(set, s.options)
	if reflect.DeepEqual(old.settings.cfg, set.cfg) && old.material == next.material {
		return false, nil
	}
	if _, _, err := next.ready(ctx); err != nil {
		return false, err
	}
	s.mu.Lock()
	s.current = next
	s.mu.Unlock()
	old.http.CloseIdleConnections()
	return true, nil
}

// readGlobal reads the section [Global] of cloud.conf. Mistakes in other sections are not
// its business.
func readGlobal(file string) (Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("reading cloud.conf again: %w", err)
	}
	var conf struct{ Global Config }
	if _, err := DecodePart(file, data, &conf); err != nil {
		return Config{}, err
	}
	if len(data) == 0 {
		return Config{}, errors.New(file + " is empty")
	}
	return conf.Global, nil
}
