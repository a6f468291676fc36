package gcp

import (
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
)

// Options configures a simulator. The zero value is a good one.
type Options struct {
	// TokenLifetime is how long an access token lives, an hour by default as with Google.
	TokenLifetime time.Duration
}

// Sim is a running simulator. All methods may be called concurrently.
type Sim struct {
	*cloudsim.Front
	*cloudsim.Issuer
	opts   Options
	images http.Handler

	mu       sync.Mutex // guards all below
	iam      iamState
	instance instance
}

// Start starts a simulator without accounts.
func Start(opts Options) (*Sim, error) {
	if opts.TokenLifetime == 0 {
		opts.TokenLifetime = time.Hour
	}
	s := &Sim{opts: opts, iam: newIAM(), images: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	var err error
	if s.Issuer, err = cloudsim.NewIssuer(); err != nil {
		return nil, err
	}
	s.Front, err = cloudsim.OpenFront(cloudsim.FrontOptions{
		Cloud:  "Google Cloud",
		Knows:  func(host string) bool { return serviceOf(host) != "" },
		Handle: s.answer,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Env are environment variables that make a process take this simulator for Google Cloud, its
// metadata server included; nothing else gives the process credentials.
func (s *Sim) Env() []string {
	return append(s.ProxyEnv(), "GCE_METADATA_HOST="+s.MetadataHost())
}

// MetadataHost is the metadata server's host:port.
func (s *Sim) MetadataHost() string { return strings.TrimPrefix(s.URL(), "http://") }
