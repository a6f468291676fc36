package credentialprovider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Provider gives credentials for the registries of one kind, such as ECR.
type Provider interface {
	// Serves reports whether the registry of an image is this provider's. It uses no network.
	Serves(image Image) bool
	// MatchImages are the patterns for matchImages in the kubelet's CredentialProviderConfig
	// that cover what is served and as little else as the kubelet's matching allows.
	MatchImages() []string
	// Describe says in a few words, for an error, which registries are served and how to add
	// one, such as "ECR serves …".
	Describe() string
	// Credentials returns the credentials for an image that is served. It is called for no
	// other. They open no more than the image's registry, and are sent to nobody else.
	Credentials(ctx context.Context, q Query) (Credentials, error)
}

// Query is what a Provider is asked: the credentials for an image, as the node or as a pod.
type Query struct {
	Image Image
	// ServiceAccount is whose identity is to be used. It is nil exactly if the kind is
	// configured for the node's identity; then the node's is to be used, else never.
	ServiceAccount *ServiceAccount
}

// Credentials let the kubelet pull images.
type Credentials struct {
	Username string
	Password cloudauth.Secret
	// ImageOnly says that they are for the image that was asked for. Otherwise they are for
	// every image of its registry. There is nothing wider: an answer for all registries of the
	// kubelet's configuration (cacheKeyType Global) would hand them to registries that nobody
	// asked about.
	ImageOnly bool
	// Expires is when they end by this machine's clock, the zero time if they do not or nobody knows.
	Expires time.Time
	// Ahead is how much the clock of who gave them is ahead of this machine's, 0 if it did not tell.
	Ahead time.Duration
	// CacheDuration is how long the kubelet may keep them at most, as the user configured it;
	// nil for no such limit.
	CacheDuration *time.Duration
}

// Options are what the program tells every Provider.
type Options struct {
	// UserAgent is sent with every request where the protocol has such a thing.
	UserAgent string
	// Timeout bounds each request to the cloud, which is not sent again when it was not answered in time.
	Timeout time.Duration
	// Find, if set, says where a file that the configuration names is to be read, for a check before
	// it is in its place.
	Find func(file string) string
}

// File is where a file that the configuration names is to be read.
func (o Options) File(name string) string {
	if o.Find == nil || name == "" {
		return name
	}
	return o.Find(name)
}

// Kind is one kind of registries as it is configured.
type Kind struct {
	// Name is the kind's name in --registries and its section in the configuration.
	Name string
	// Identity says as whom the credentials are got.
	Identity Identity
	// Open makes the provider. It may read configuration, but uses no network. It is called
	// only where no kind before this one serves the image.
	Open func() (Provider, error)
}

// Set is all that is configured.
type Set struct {
	// Kinds are asked in this order for the first that serves an image.
	Kinds []Kind
	// Anonymous are the registries, as host or host:port, that are to be used without
	// credentials because the user said so.
	Anonymous []string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Answer asks the provider that is responsible for the request's image and returns the
// response.
func (s Set) Answer(ctx context.Context, request *Request) (*Response, error) {
	image, err := ParseImage(request.Image)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.Anonymous, func(r string) bool { return sameRegistry(r, image.Registry) }) {
		return anonymous(request), nil
	}
	kind, provider, err := s.Responsible(image)
	if err != nil {
		return nil, err
	}
	now := s.Now
	if now == nil {
		now = time.Now
	}
	account, err := kind.account(request, now())
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", image, err)
	}
	credentials, err := provider.Credentials(ctx, Query{Image: image, ServiceAccount: account})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", image, err)
	}
	if credentials.Username == "" && credentials.Password.IsEmpty() {
		return nil, fmt.Errorf("image %s: the credentials found for %s are empty", image, image.Registry)
	}
	keep, err := cacheDuration(credentials, account, now())
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", image, err)
	}
	return newResponse(request, image, credentials, keep), nil
}

// Responsible returns the first kind that serves an image, with its provider.
func (s Set) Responsible(image Image) (Kind, Provider, error) {
	var served []string
	for _, kind := range s.Kinds {
		provider, err := kind.Open()
		if err != nil {
			return Kind{}, nil, err
		}
		if provider.Serves(image) {
			return kind, provider, nil
		}
		served = append(served, provider.Describe())
	}
	if len(served) == 0 {
		return Kind{}, nil, errors.New("no kind of registry is configured; name them with --registries or --config (see --help)")
	}
	return Kind{}, nil, fmt.Errorf("image %s: registry %s is none of those configured: %s; add it there or take it out of matchImages in the kubelet's CredentialProviderConfig",
		image, image.Registry, strings.Join(served, "; "))
}
