package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// LoadBalancers are settings of the service controller.
type LoadBalancers struct {
	// SyncPeriod is the longest time until a load balancer is read afresh and repaired; 0 turns that off.
	SyncPeriod time.Duration
	// DefaultClass tells that Services without a load balancer class are served.
	DefaultClass bool
}

func defaultLoadBalancers() LoadBalancers {
	return LoadBalancers{SyncPeriod: 30 * time.Minute, DefaultClass: true}
}

func (l *LoadBalancers) addFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&l.SyncPeriod, "load-balancer-sync-period", l.SyncPeriod,
		"Each load balancer is read afresh from the cloud, and what others have changed is put right, after a random time between half of this and this; 0 turns that off.")
	fs.BoolVar(&l.DefaultClass, "load-balancer-default-class", l.DefaultClass,
		"Whether Services without spec.loadBalancerClass are served. Turn it off to run beside another cloud controller manager that serves them: "+
			"then only Services of one of the cloud's classes are, isthmus-cloud.github.io/<cloud> and isthmus-cloud.github.io/<cloud>-<name> with OpenStack, "+
			"and --leader-elect-resource-name must be another one than the other's.")
}

// check says what is wrong with them.
func (l *LoadBalancers) check() []error {
	if d := l.SyncPeriod; d != 0 && d < time.Second {
		return []error{fmt.Errorf("--load-balancer-sync-period must be 0, which turns it off, or at least 1s, not %s", d)}
	}
	return nil
}
