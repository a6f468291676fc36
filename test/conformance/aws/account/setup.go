package account

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
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

func (w *World) make(o cloud.Options) (*cloud.Provider, func(), error) {
	conf := "[Global]\nRegion = " + w.region + "\nKubernetesClusterID = " + w.cluster + "\nVPC = " + w.vpc + "\nSubnetID = " + *w.subnets[0].SubnetId +
		"\nNodeIPFamilies = ipv4\n"
	if w.dual() {
		conf += "NodeIPFamilies = ipv6\n"
	}
	return aws.Make(w.dir, conf, o, caller.Policy{Attempts: 4, BackoffBase: 500 * time.Millisecond})
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
	if w.Kind == aws.Network && !w.dual() {
		out[cloudtest.LoadBalancerIPv6], out[cloudtest.LoadBalancerDual] = "not tried: the VPC got no range of IPv6", "not tried: the VPC got no range of IPv6"
	}
	out[cloudtest.LoadBalancerTraffic] = "not tried: nothing answers on the instances"
	if os.Getenv(certificateVariable) == "" {
		out[cloudtest.LoadBalancerTLS] = "not tried: " + certificateVariable + " has the ARN of no certificate"
	}
	return out
}
