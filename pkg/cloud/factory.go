package cloud

import (
	"context"
	"time"
)

// Factory makes a cloud's Provider from its configuration file; an empty configFile means
// that there is none. It checks the whole configuration but does not call the cloud, so it
// does not fail because the cloud is down. warnings are for the log, one line each; they may
// come with an error, which joins everything that is wrong, each naming file, section and key.
type Factory func(ctx context.Context, configFile string, o Options) (p *Provider, warnings []string, err error)

// Options is what the process tells every cloud.
type Options struct {
	// UserAgent names the program and its version to the cloud.
	UserAgent string
	// RequestTimeout bounds each request to the cloud; 0 means the cloud's default.
	RequestTimeout time.Duration
	// Traffic stands before every request to the cloud; those for its tokens are never told to be
	// throttled. May be nil.
	Traffic Traffic
	// Kube is the cluster, for what the configuration names there. Nil where there is none.
	Kube Kube
	// Reloaded is told every attempt to take over credentials that changed on disk: nil when
	// they are in use, else why not. May be nil; must not block.
	Reloaded func(err error)
	// Expires is told when what the cloud has issued for the credentials (a token, temporary keys) ends, each time it issues
	// some. May be nil; must not block.
	Expires func(at time.Time)
	// LoginExpires is told when what is logged in with itself ends (a password, an application credential), each time the provider has
	// looked; zero where it does not end, or the cloud does not tell. May be nil; must not block.
	LoginExpires func(at time.Time)
	// Kept makes what is told when a thing of the cloud that is kept in memory was read, by the thing's name, of which there are few. Nil
	// for nobody who wants to know.
	Kept func(name string) func(at time.Time)
	// DryRun makes a Provider that changes nothing: it logs every mutating request it would
	// send to the cloud, with its content, and goes on as if the cloud had accepted it, as far
	// as that can be known. What depends on an object that was not made ends in KindRetryAfter.
	DryRun bool
}

// Keep is Kept, nil for nobody.
func (o *Options) Keep(name string) func(at time.Time) {
	if o.Kept == nil {
		return nil
	}
	return o.Kept(name)
}
