package aws

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/smithy-go"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// kept gives credentials from memory while they are good.
type kept struct {
	cache *cloudauth.Cache[aws.Credentials]
}

var _ aws.CredentialsProvider = kept{}

// Retrieve implements aws.CredentialsProvider.
func (k kept) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := k.cache.Get(ctx)
	if err != nil && ctx.Err() != nil && err == ctx.Err() { //nolint:errorlint // the cache's own word about who did not wait
		err = &smithy.OperationError{ServiceID: "the source of the AWS credentials", Err: err}
	}
	return c, err
}

// keep makes of a provider one that keeps what it gives. watch is a fingerprint of the files that it depends on, if any.
func (s *Session) keep(provider aws.CredentialsProvider, watch func() string) kept {
	return kept{cloudauth.NewCache(cloudauth.CacheOptions[aws.Credentials]{
		Fetch: func(ctx context.Context) (aws.Credentials, time.Time, error) {
			c, err := provider.Retrieve(ctx)
			if err != nil {
				return c, time.Time{}, err
			}
			s.seen.note(c)
			var expires time.Time
			if c.CanExpire {
				expires = c.Expires
			}
			return c, expires, nil
		},
		Timeout: 3 * s.options.RequestTimeout, Watch: watch, Now: s.options.now, Observe: s.options.Observe,
	})}
}

// Credentials are those of the Session, for clients of any SDK. They are got before the old ones end.
func (s *Session) Credentials() aws.CredentialsProvider { return s.base.Credentials }

// files gives the credentials of the shared config files, or of what they name. It reads them
// again when they have changed; while they cannot be used, what was read before stays.
type files struct {
	session *Session
	paths   []string

	// Guarded by the cache, which asks once at a time.
	current     aws.CredentialsProvider
	fingerprint string
	source      string // of current's credentials, once they were used
}

func (f *files) look() string { return cloudauth.Fingerprint(f.paths...) }

// pending is how long credentials are kept whose files have changed and cannot be used.
const pending = 30 * time.Second

// Retrieve implements aws.CredentialsProvider, with the credentials of the files as they are now, or else of those before.
func (f *files) Retrieve(ctx context.Context) (aws.Credentials, error) {
	now := f.look()
	changed := now != f.fingerprint
	if changed {
		if base, err := f.session.load(ctx); err == nil {
			if c, err := toTheEnd(ctx, base.Credentials); err == nil && !fallsBack(f.source, c.Source) {
				f.current, f.fingerprint, f.source = base.Credentials, now, c.Source
				return c, nil
			}
		}
	}
	c, err := toTheEnd(ctx, f.current)
	switch {
	case err != nil:
	case !changed:
		f.source = c.Source
	case !c.CanExpire || c.Expires.Sub(f.session.now()) > pending:
		c.CanExpire, c.Expires = true, f.session.now().Add(pending)
	}
	return c, err
}

// sdkEarly is by how much the SDK is told to let what it keeps by itself end before it does, so that it is got anew when
// this package asks for it; an instance's goes on for a while if the metadata service is out of order.
const sdkEarly = 5 * time.Minute

// toTheEnd gives the SDK's credentials the end that they have. Of an instance's that end within a quarter of an hour the
// SDK takes nothing off.
func toTheEnd(ctx context.Context, p aws.CredentialsProvider) (aws.Credentials, error) {
	c, err := p.Retrieve(ctx)
	if err == nil && c.CanExpire && time.Until(c.Expires) > 15*time.Minute {
		c.Expires = c.Expires.Add(sdkEarly)
	}
	return c, err
}

// fallsBack reports whether a source comes after the files: who had credentials in them and
// finds them broken or half written, must not become the instance.
func fallsBack(before, now string) bool {
	last := []string{"", ec2rolecreds.ProviderName, endpointcreds.ProviderName}
	return !slices.Contains(last, before) && slices.Contains(last, now)
}

// remembered is of how many credentials the secrets are kept out of errors.
const remembered = 4

// seen remembers the credentials in use, so that no error shows them, and where they are from.
type seen struct {
	mu   sync.Mutex
	last aws.Credentials
	also []cloudauth.Secret
}

func (s *seen) note(c aws.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.SecretAccessKey != c.SecretAccessKey {
		s.also = append(s.also, cloudauth.NewSecret(c.SecretAccessKey), cloudauth.NewSecret(c.SessionToken))
		s.also = s.also[max(len(s.also)-2*remembered, 0):]
	}
	s.last = c
}
