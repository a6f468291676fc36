package aws

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// Session is a login to AWS. All of its methods may be called concurrently.
type Session struct {
	cfg     Config
	options Options
	base    aws.Config
	seen    *seen
}

// New checks the configuration and returns a Session for it. It reads the shared config files
// but does not use the network.
func New(ctx context.Context, cfg Config, o Options) (*Session, error) {
	if err := cfg.check(); err != nil {
		return nil, misconfigured(err)
	}
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = defaultRequestTimeout
	}
	if o.maxBackoff <= 0 {
		o.maxBackoff = defaultMaxBackoff
	}
	s := &Session{cfg: cfg, options: o, seen: &seen{}}
	if err := s.login(ctx); err != nil {
		return nil, s.Explain(err)
	}
	return s, nil
}

// AWS returns the configuration for a client of one of AWS' services. It is the caller's own.
func (s *Session) AWS() aws.Config { return s.base.Copy() }

// ForAnswers is AWS for a service whose answers may have so many bytes: lists are longer than what AWS bounds answers to,
// 1 MiB.
func (s *Session) ForAnswers(bytes int64) aws.Config {
	cfg := s.base.Copy()
	cfg.APIOptions = s.apiOptions(bytes)
	return cfg
}

// Metadata returns a client of the instance metadata service of this machine. It speaks version 2 only, past any proxy, and
// needs no credentials. endpoint is its URL; empty takes the SDK's. What goes wrong is for Explain.
func (s *Session) Metadata(endpoint string) *imds.Client {
	bare := s.base.Copy()
	bare.HTTPClient = withoutProxy(s.base.HTTPClient)
	return imds.NewFromConfig(bare, s.metadataOptions, func(o *imds.Options) {
		if endpoint != "" {
			o.Endpoint = endpoint
		}
	})
}

// metadataOptions are those of each client of the metadata service. It waits for half a second at a time, so that a
// service that is slow for a moment is asked again.
func (s *Session) metadataOptions(o *imds.Options) {
	o.EnableFallback = aws.FalseTernary
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = s.options.maxBackoff })
}

func (s *Session) now() time.Time {
	if s.options.now != nil {
		return s.options.now()
	}
	return time.Now()
}

// Region is where requests go that name no other region.
func (s *Session) Region() string { return s.base.Region }

// Login gets credentials unless some are at hand. What goes wrong after it in a call to a service is the service's.
// Its errors are *cloudauth.Error.
func (s *Session) Login(ctx context.Context) error {
	if _, err := s.base.Credentials.Retrieve(ctx); err != nil {
		return s.Explain(err)
	}
	return nil
}

// Assume returns a Session that is a role, which it assumes with this one's credentials.
func (s *Session) Assume(role Role) (*Session, error) {
	if err := role.Check(); err != nil {
		return nil, misconfigured(err)
	}
	other := *s
	other.cfg.Role = &role
	other.base = s.base.Copy()
	other.base.Credentials = s.keep(s.assumed(s.base, role), nil)
	return &other, nil
}

// login sets base up: where the credentials come from, and how requests are sent.
func (s *Session) login(ctx context.Context) error {
	load := s.load
	if s.cfg.WebIdentity != nil {
		load = s.loadWebIdentity
	}
	base, err := load(ctx)
	if err != nil {
		return err
	}
	if s.cfg.WebIdentity != nil {
		base.Credentials = s.keep(base.Credentials, nil)
	} else {
		shared, err := sharedFiles()
		if err != nil {
			return err
		}
		f := &files{session: s, current: base.Credentials}
		for _, file := range shared {
			f.paths = append(f.paths, file.path)
		}
		f.fingerprint = f.look()
		base.Credentials = s.keep(f, f.look)
	}
	if s.cfg.Role != nil {
		base.Credentials = s.keep(s.assumed(base, *s.cfg.Role), nil)
	}
	s.base = base
	return nil
}

// load reads the environment and the shared config files and decides on the source.
func (s *Session) load(ctx context.Context) (aws.Config, error) {
	if s.cfg.Profile == "" { // else the environment's credentials are not looked at
		if err := checkEnvironment(); err != nil {
			return aws.Config{}, misconfigured(err)
		}
	}
	files, err := sharedFiles()
	if err != nil {
		return aws.Config{}, err
	}
	if err := checkFiles(files); err != nil {
		return aws.Config{}, misconfigured(err)
	}
	if bundle := os.Getenv("AWS_CA_BUNDLE"); bundle != "" {
		if _, err := trusting(newHTTPClient(s.options), bundle); err != nil {
			return aws.Config{}, misconfigured(err) // the SDK does not say which file it is about
		}
	}
	// What speaks to services on this machine is made when it is used: of what is loaded, and not at all where there are keys.
	var base aws.Config
	local := later(sync.OnceValue(func() aws.HTTPClient { return withoutProxy(base.HTTPClient) }))
	metadata := &within{limit: s.options.RequestTimeout, open: sync.OnceValue(func() ec2rolecreds.GetMetadataAPIClient {
		bare := base.Copy()
		bare.HTTPClient = local()
		return imds.NewFromConfig(bare, s.metadataOptions)
	})}
	base, err = config.LoadDefaultConfig(ctx, append(s.loadOptions(),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) { o.Client = metadata }),
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) {
			o.HTTPClient, o.Retryer, o.APIOptions = local, s.newRetryer(), append(o.APIOptions, named("the container credentials endpoint"), bounded)
		}),
	)...)
	return base, err
}

// later is a client that is made when it is used.
type later func() aws.HTTPClient

// Do implements aws.HTTPClient.
func (l later) Do(r *http.Request) (*http.Response, error) { return l().Do(r) }

// within bounds each question to the metadata service, with all that the SDK sends for it.
type within struct {
	limit time.Duration
	open  func() ec2rolecreds.GetMetadataAPIClient
}

// GetMetadata implements ec2rolecreds.GetMetadataAPIClient. The answer is read to its end before it returns.
func (w *within) GetMetadata(ctx context.Context, in *imds.GetMetadataInput, o ...func(*imds.Options)) (*imds.GetMetadataOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	return w.open().GetMetadata(ctx, in, o...)
}

// loadWebIdentity reads what the environment says of the network (endpoints, CAs, region), and takes the credentials from
// the web identity alone. The AWS config files are the node's: neither they nor AWS_PROFILE are a pod's business.
func (s *Session) loadWebIdentity(ctx context.Context) (aws.Config, error) {
	env, err := config.NewEnvConfig()
	if err != nil {
		return aws.Config{}, misconfigured(fmt.Errorf("the environment: %w", err))
	}
	client, err := trusting(newHTTPClient(s.options), env.CustomCABundle)
	if err != nil {
		return aws.Config{}, misconfigured(err)
	}
	base := aws.Config{
		Region: cmp.Or(s.cfg.Region, env.Region, s.cfg.DefaultRegion), HTTPClient: client, Retryer: s.newRetryer,
		Logger: logging.Nop{}, APIOptions: s.apiOptions(wire.MaxAnswer), AppID: env.AppID, ConfigSources: []any{env},
	}
	if ignored, _, err := env.GetIgnoreConfiguredEndpoints(ctx); env.BaseEndpoint != "" && err == nil && !ignored {
		base.BaseEndpoint = &env.BaseEndpoint
	}
	base.Credentials = s.webIdentity(base, *s.cfg.WebIdentity)
	return base, nil
}

// apiOptions are what all clients do with each request, and to whom they say so; answers have so many bytes at most.
func (s *Session) apiOptions(bytes int64) []func(*middleware.Stack) error {
	return []func(*middleware.Stack) error{onlyEncrypted, plainBody, boundedBy(bytes), awsmiddleware.AddUserAgentKeyValue(s.options.Program, s.options.Version)}
}

func (s *Session) loadOptions() []func(*config.LoadOptions) error {
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(newHTTPClient(s.options)),
		config.WithRetryer(s.newRetryer),
		config.WithLogger(logging.Nop{}), // else it writes to stderr, which is the program's
		config.WithDefaultRegion(s.cfg.DefaultRegion),
		config.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = sdkEarly }),
		config.WithAPIOptions(s.apiOptions(wire.MaxAnswer)),
	}
	if s.cfg.Region != "" {
		options = append(options, config.WithRegion(s.cfg.Region))
	}
	if s.cfg.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(s.cfg.Profile))
	}
	return options
}

// Who says whose credentials are in use, for errors.
func (s *Session) Who() string {
	switch {
	case s.cfg.Role != nil:
		return "role " + s.cfg.Role.ARN
	case s.cfg.WebIdentity != nil:
		return "role " + s.cfg.WebIdentity.RoleARN
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	switch source := s.seen.last.Source; source {
	case "":
		return "the credentials configured on this machine"
	case ec2rolecreds.ProviderName:
		return "the instance's role"
	case endpointcreds.ProviderName:
		return "the credentials of the container endpoint"
	default:
		return fmt.Sprintf("the credentials of %s (access key %s)", cloudauth.Excerpt(source, 200), cloudauth.Excerpt(s.seen.last.AccessKeyID, 40))
	}
}
