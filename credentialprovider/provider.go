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

// Provider gives credentials for the registries of one kind of source.
type Provider interface {
	// Registries lists the registries, as host or host:port, that it is configured for.
	Registries() []string
	// Credentials returns the credentials for an image of one of these registries. It is
	// called for no others.
	Credentials(ctx context.Context, image Image) (Credentials, error)
}

// Credentials let the kubelet pull images.
type Credentials struct {
	Username string
	Password cloudauth.Secret
	// ImageOnly says that they are for the image that was asked for. Otherwise they are for
	// every image of its registry.
	ImageOnly bool
	// CacheDuration is how long the kubelet may keep them; nil leaves it to the kubelet's
	// configuration.
	CacheDuration *time.Duration
}

// Answer asks the provider that is responsible for the request's image and returns the
// response.
func Answer(ctx context.Context, request *Request, providers ...Provider) (*Response, error) {
	image, err := ParseImage(request.Image)
	if err != nil {
		return nil, err
	}
	if !request.ServiceAccountToken.IsEmpty() {
		return nil, fmt.Errorf("image %s: the kubelet sends a service account token, which no registry here uses; "+
			"remove tokenAttributes from this provider in the kubelet's CredentialProviderConfig, so that it is clear that the node's identity is used", image)
	}
	provider := responsible(image, providers)
	if provider == nil {
		return nil, fmt.Errorf("image %s: %w", image, notConfigured(image, providers))
	}
	credentials, err := provider.Credentials(ctx, image)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", image, err)
	}
	if credentials.Username == "" && credentials.Password.IsEmpty() {
		return nil, fmt.Errorf("image %s: the credentials found for %s are empty", image, image.Registry)
	}
	return newResponse(request, image, credentials), nil
}

func responsible(image Image, providers []Provider) Provider {
	for _, p := range providers {
		if slices.ContainsFunc(p.Registries(), func(r string) bool { return SameRegistry(r, image.Registry) }) {
			return p
		}
	}
	return nil
}

func notConfigured(image Image, providers []Provider) error {
	var all []string
	for _, p := range providers {
		all = append(all, p.Registries()...)
	}
	if len(all) == 0 {
		return errors.New("no registry is configured; add a [Registry \"" + image.Registry + "\"] section to cloud.conf")
	}
	slices.Sort(all)
	return fmt.Errorf("registry %s is not configured (configured: %s); add a [Registry %q] section to cloud.conf or take it out of matchImages in the kubelet's CredentialProviderConfig",
		image.Registry, strings.Join(all, ", "), image.Registry)
}
