package aws

import (
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// Options configures a simulator. The zero value is a good one.
type Options struct {
	// TokenLifetime is how long a registry token lives, 12 hours by default as with ECR.
	TokenLifetime time.Duration
	// CredentialsLifetime is how long temporary credentials live, 1 hour by default.
	CredentialsLifetime time.Duration
	// EC2 configures EC2's regions.
	EC2 ec2.Options
	// ELB and ELBv2 configure load balancers, classic ones and others.
	ELB   elb.Options
	ELBv2 elbv2.Options
	// Traffic has load balancers listen, and carry traffic to instances. All addresses are of this machine's 127.N.0.0/16 then, a
	// free one; regions have the same ones, so that only one may have load balancers.
	Traffic bool
}

// Sim is a running simulator. All methods may be called concurrently.
type Sim struct {
	*cloudsim.Front
	*cloudsim.Issuer
	opts Options

	mu       sync.Mutex // guards all below
	iam      iamState
	registry map[string]*registryToken // by password
	metadata metadataState
	states   map[place]*state

	traffic *traffic      // has its own lock; nil for none
	buckets query.Buckets // has its own lock
}

// Start starts a simulator without users and roles.
func Start(opts Options) (*Sim, error) {
	if opts.TokenLifetime == 0 {
		opts.TokenLifetime = 12 * time.Hour
	}
	if opts.CredentialsLifetime == 0 {
		opts.CredentialsLifetime = time.Hour
	}
	s := &Sim{registry: map[string]*registryToken{}, metadata: newMetadata(), iam: newIAM(), states: map[place]*state{}}
	var err error
	if s.Issuer, err = cloudsim.NewIssuer(); err != nil {
		return nil, err
	}
	s.Front, err = cloudsim.OpenFront(cloudsim.FrontOptions{
		Cloud:  "AWS",
		Knows:  func(host string) bool { _, known := endpointOf(host); return known },
		Handle: s.answer,
	})
	if err != nil {
		return nil, err
	}
	if opts.Traffic {
		if s.traffic, err = opts.carry(); err != nil {
			s.Front.Close()
			return nil, err
		}
	}
	s.opts = opts // nobody knows yet where to ask
	return s, nil
}

// Env are environment variables that make a process take this simulator for AWS. The instance
// metadata service is in it; nothing else gives the process credentials. AWS_CA_BUNDLE is for the SDK, which may find one in the
// environment that knows nothing of the simulator.
func (s *Sim) Env() []string {
	return append(s.ProxyEnv(), "AWS_CA_BUNDLE="+s.CAFile(), "AWS_EC2_METADATA_SERVICE_ENDPOINT="+s.URL())
}
