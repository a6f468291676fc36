package openstack

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/cloudconf"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/nova"
)

// neededServices are those without which nothing works, so that a wrong region is found at the start.
var neededServices = []string{"compute", "network"}

// keeper is what the provider does beside its abilities: it says whether the cloud can be
// used, and looks after cloud.conf.
type keeper struct {
	session *auth.Session
	file    string
	cfg     *config.Config
	once    sync.Once // for the warnings of the start

	loginExpires func(time.Time) // cloud.Options'
	reloaded     chan struct{}   // has an element after other credentials were taken over
}

// ready implements cloud.Provider.Ready. Only the first call may cost a request.
func (k *keeper) ready(ctx context.Context) error {
	if err := k.session.Check(ctx); err != nil {
		return err
	}
	if err := k.session.Require(ctx, neededServices...); err != nil {
		return err
	}
	k.once.Do(func() { k.warn(ctx) })
	return nil
}

// warn says what will not work, or may be meant otherwise.
func (k *keeper) warn(ctx context.Context) {
	log := klog.FromContext(ctx)
	if k.cfg.LoadBalancer.Enabled {
		if err := k.session.Require(ctx, "load-balancer"); err != nil {
			log.Info("Services of type LoadBalancer cannot be served; where that is intended, set enabled = false in [LoadBalancer] of cloud.conf", "reason", err.Error())
		}
	}
	if err := k.session.Require(ctx, "block-storage"); err != nil {
		log.Info("PersistentVolumes cannot be labeled", "reason", err.Error())
	}
	regions, err := k.session.Regions(ctx)
	if err == nil && k.session.Region() == "" && len(regions) > 1 {
		log.Info("The cloud has several regions and none is configured, so that the first one of each service is used; set region in [Global] of cloud.conf", "regions", regions)
	}
}

// run implements cloud.Provider.Run.
func (k *keeper) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return k.session.Run(ctx) })
	g.Go(func() error { return k.conf().Watch(ctx) })
	if k.loginExpires != nil {
		g.Go(func() error { return k.followLogin(ctx) })
	}
	if k.cfg.Metadata.SearchOrder != "" {
		g.Go(func() error {
			nova.CheckMachine(ctx, api.New(k.session), &k.cfg.Metadata)
			return nil
		})
	}
	return g.Wait()
}

const (
	// loginEvery is how often it is asked when the login ends, beside each change of it: operators move the end, seldom.
	loginEvery = 12 * time.Hour
	// loginAgain is for after a failure.
	loginAgain = 10 * time.Minute
)

// followLogin tells when the login ends. While the cloud does not answer, what was told before stands.
func (k *keeper) followLogin(ctx context.Context) error {
	for {
		timer := time.NewTimer(k.tellLogin(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-k.reloaded:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// tellLogin tells it once, and returns when to do so again.
func (k *keeper) tellLogin(ctx context.Context) time.Duration {
	e, err := k.session.LoginExpiry(ctx)
	switch {
	case errors.Is(err, auth.ErrNotTold):
		klog.FromContext(ctx).V(2).Info("Nobody warns before the login to the cloud ends", "reason", err.Error())
	case err != nil:
		return loginAgain
	}
	k.loginExpires(e.At) // zero where it is not told
	return loginEvery
}

// afterReload is auth.Options.Reloaded.
func (k *keeper) afterReload(told func(error)) func(error) {
	return func(err error) {
		if told != nil {
			told(err)
		}
		if err != nil {
			return
		}
		select {
		case k.reloaded <- struct{}{}:
		default:
		}
	}
}

// conf is cloud.conf, in which only [Global], the session's, and the registries, the credential provider's,
// need no restart.
func (k *keeper) conf() cloudconf.File[config.Config] {
	return cloudconf.File[config.Config]{Path: k.file, InUse: k.cfg,
		Parse: func(data []byte) (*config.Config, error) {
			cfg, _, err := config.Parse(k.file, data)
			return cfg, err
		},
		Section: func(f reflect.StructField) string {
			name := f.Tag.Get("gcfg")
			if name == "" || name == "Global" || name == "Registry" {
				return ""
			}
			return "[" + name + "]"
		}}
}
