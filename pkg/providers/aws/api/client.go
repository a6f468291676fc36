package api

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

const (
	// maxAnswer bounds an answer: a page of a thousand instances with many interfaces has some 20 MiB.
	maxAnswer = 128 << 20
	// metadataPatience is what the metadata service may take. It is on this machine, or not there at all.
	metadataPatience = 10 * time.Second
)

// Client is the access to the services of one region. All abilities of the provider share one. All methods may be called
// concurrently; their errors are *cloud.Error.
type Client struct {
	cfg     *config.Config
	options cloud.Options
	login   auth.Options
	dry     *dryRun // nil where all is sent

	// start is the session that is made at once, also where it is not known yet in which region.
	start *auth.Session
	// there is what is used once that is known; turn holds one element while someone finds out.
	there atomic.Pointer[place]
	turn  chan struct{}

	accounts accounts
}

// place is the region with what speaks to it.
type place struct {
	session *auth.Session
	region  string
	ec2     *ec2.Client
	elb     *elb.Client
	elbv2   *elbv2.Client
}

// Keep is cloud.Options' Keep.
func (c *Client) Keep(name string) func(at time.Time) { return c.options.Keep(name) }

// New makes the client of the configuration. It calls nobody: where the configuration says no region, it is found out when
// it is needed.
func New(ctx context.Context, cfg *config.Config, o cloud.Options) (*Client, error) {
	c := &Client{cfg: cfg, options: o, turn: make(chan struct{}, 1)}
	if o.DryRun {
		c.dry = &dryRun{c: c, logger: klog.FromContext(ctx)}
	}
	program := o.UserAgent[strings.LastIndexByte(o.UserAgent, ' ')+1:] // those before it are added by agents
	c.login = auth.Options{RequestTimeout: o.RequestTimeout}
	if o.Expires != nil {
		c.login.Observe = func(_ time.Duration, expires time.Time, err error) {
			if err == nil {
				o.Expires(expires)
			}
		}
	}
	c.login.Program, c.login.Version, _ = strings.Cut(program, "/")
	s, err := auth.New(ctx, auth.Config{Region: cfg.Global.Region, Role: cfg.Global.Role()}, c.login)
	if err != nil {
		return nil, authError("log in to AWS", err)
	}
	if c.start = s; s.Region() != "" {
		c.there.Store(c.at(s))
	}
	return c, nil
}

// at makes what speaks to a session's region.
func (c *Client) at(s *auth.Session) *place {
	region := s.Region()
	p := &place{session: s, region: region}
	at := func(service, family string) (aws.Config, *config.ServiceOverride) {
		cfg := s.ForAnswers(maxAnswer)
		cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		cfg.APIOptions = append(append(cfg.APIOptions, c.around(family, region)), c.agents()...)
		return cfg, c.cfg.Override(service, region)
	}
	cfg, o := at(config.EC2, "ec2")
	p.ec2 = ec2.NewFromConfig(cfg, overridden(o, func(o *ec2.Options) **string { return &o.BaseEndpoint }, ec2.WithSigV4SigningRegion, ec2.WithSigV4SigningName))
	cfg, o = at(config.ELB, elbFamily)
	p.elb = elb.NewFromConfig(cfg, overridden(o, func(o *elb.Options) **string { return &o.BaseEndpoint }, elb.WithSigV4SigningRegion, elb.WithSigV4SigningName))
	cfg, o = at(config.ELBV2, elbFamily)
	p.elbv2 = elbv2.NewFromConfig(cfg, overridden(o, func(o *elbv2.Options) **string { return &o.BaseEndpoint }, elbv2.WithSigV4SigningRegion, elbv2.WithSigV4SigningName))
	return p
}

// overridden leads a service's client to the endpoint that cloud.conf has for it, which goes before the environment's.
func overridden[O any](to *config.ServiceOverride, endpoint func(*O) **string, region, name func(string) func(*O)) func(*O) {
	return func(o *O) {
		if to == nil {
			return
		}
		*endpoint(o) = &to.URL
		region(to.SigningRegion)(o)
		if to.SigningName != "" {
			name(to.SigningName)(o)
		}
	}
}

// elbFamily is what Traffic knows both services of load balancers by: AWS counts their requests together.
const elbFamily = "elasticloadbalancing"

// agents name the products of the user agent that stand before the program.
func (c *Client) agents() []stackOption {
	var out []stackOption
	products := strings.Fields(c.options.UserAgent)
	for _, product := range products[:max(len(products)-1, 0)] {
		name, version, _ := strings.Cut(product, "/")
		out = append(out, awsmiddleware.AddUserAgentKeyValue(name, version))
	}
	return out
}

// open returns what speaks to the region; where nothing has said which that is, this machine's is taken.
func (c *Client) open(ctx context.Context) (*place, error) {
	if p := c.there.Load(); p != nil {
		return p, nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, &cloud.Error{Op: "find the region", Err: context.Cause(ctx)}
	}
	if p := c.there.Load(); p != nil {
		return p, nil
	}
	m, err := c.machine(ctx, "find the region", "set Region in [Global] of cloud.conf, or AWS_REGION")
	if err != nil {
		return nil, err
	}
	s, err := auth.New(ctx, auth.Config{Region: m.Region, Role: c.cfg.Global.Role()}, c.login)
	if err != nil {
		return nil, authError("log in to AWS", err)
	}
	p := c.at(s)
	c.there.Store(p)
	return p, nil
}

// Region is the region: the label of Nodes and volumes.
func (c *Client) Region(ctx context.Context) (string, error) {
	p, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	return p.region, nil
}

// Self is the ID of the instance that this machine is, as the instance metadata service says.
func (c *Client) Self(ctx context.Context, hint string) (string, error) {
	m, err := c.machine(ctx, "find this machine's instance", hint)
	return m.InstanceID, err
}

// machine is what the metadata service says of this machine; hint is what to do where it says nothing.
func (c *Client) machine(ctx context.Context, op, hint string) (imds.InstanceIdentityDocument, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataPatience)
	defer cancel()
	endpoint := ""
	if o := c.cfg.Override(config.Metadata, ""); o != nil {
		endpoint = o.URL
	}
	out, err := c.start.Metadata(endpoint).GetInstanceIdentityDocument(ctx, &imds.GetInstanceIdentityDocumentInput{})
	if err == nil && (out.Region == "" || out.InstanceID == "") {
		err = fmt.Errorf("its answer has no region or no instance ID")
	}
	if err != nil {
		return imds.InstanceIdentityDocument{}, &cloud.Error{Kind: cloud.KindUnavailable, Op: op,
			Err: fmt.Errorf("the instance metadata service does not tell what this machine is (%s); on a machine outside of EC2, or in a pod that does not reach it, %s", brief(err), hint)}
	}
	return out.InstanceIdentityDocument, nil
}

// Check asks the cloud whether it can be used: with these credentials, in this region, for what nothing works without.
func (c *Client) Check(ctx context.Context) error {
	_, _, err := c.Some(ctx)
	return err
}
