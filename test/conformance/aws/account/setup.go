package account

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	provider "github.com/isthmus-cloud/isthmus/pkg/providers/aws"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
)

// secret is what a denied process has wrong.
const secret = "AWS_SECRET_ACCESS_KEY"

// environment is locked while providers are made: they take the environment's credentials.
var environment sync.Mutex

func (w *World) start(o cloud.Options) (*cloud.Provider, func(), error) {
	environment.Lock()
	defer environment.Unlock()
	return w.make(o)
}

func (w *World) startDenied(o cloud.Options) (*cloud.Provider, func(), error) {
	environment.Lock()
	defer environment.Unlock()
	right := os.Getenv(secret)
	if err := os.Setenv(secret, "not-"+right); err != nil {
		return nil, nil, err
	}
	p, stop, err := w.make(o)
	return p, stop, errors.Join(err, os.Setenv(secret, right))
}

// make makes the provider as the program does.
func (w *World) make(o cloud.Options) (*cloud.Provider, func(), error) {
	file := filepath.Join(w.dir, "cloud.conf")
	conf := "[Global]\nRegion = " + w.region + "\nKubernetesClusterID = " + w.cluster + "\nVPC = " + w.vpc + "\nSubnetID = " + *w.subnets[0].SubnetId +
		"\nNodeIPFamilies = ipv4\n"
	if w.dual() {
		conf += "NodeIPFamilies = ipv6\n"
	}
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, nil, err
	}
	o.RequestTimeout = 30 * time.Second
	p, _, err := provider.New(context.Background(), file, o)
	if err != nil {
		return nil, nil, err
	}
	policy := caller.Policy{Attempts: 4, BackoffBase: 500 * time.Millisecond}
	d, err := decorate.New(p, caller.Options{Reads: policy, Mutations: policy})
	if err != nil {
		return nil, nil, err
	}
	// The contract is the cloud's; the guard on deletions, which decorate puts before it, answers for many Nodes.
	d.Instances = p.Instances
	return &d.Provider, d.Close, nil
}

func (w *World) dual() bool { return len(w.subnets[0].Ipv6CidrBlockAssociationSet) > 0 }

// Setup is the suite's setup of this World.
func (w *World) Setup() cloudtest.Setup {
	return cloudtest.Setup{New: w.start, NewDenied: w.startDenied, World: w, Unsupported: w.unsupported(), Annotations: w.Annotations(), Patience: patience}
}

// unsupported is what AWS lacks, and what cannot be seen in an account.
func (w *World) unsupported() map[cloudtest.Feature]string {
	out := aws.Unsupported(w.Kind)
	_, out[cloudtest.ErrorsThrottled] = w.Throttle()
	if os.Getenv(certificateVariable) == "" {
		out[cloudtest.LoadBalancerTLS] = "not tried: " + certificateVariable + " has the ARN of no certificate"
	}
	return out
}
