package openstack

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/nova"
)

// configPoll is how often cloud.conf is looked at.
const configPoll = 5 * time.Second

// neededServices are those without which nothing works, so that a wrong region is found at the start.
var neededServices = []string{"compute", "network"}

// keeper is what the provider does beside its abilities: it says whether the cloud can be
// used, and looks after cloud.conf.
type keeper struct {
	session *auth.Session
	file    string
	cfg     *config.Config
	once    sync.Once // for the warnings of the start
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
	g.Go(func() error { return k.watch(ctx) })
	if k.cfg.Metadata.SearchOrder != "" {
		g.Go(func() error {
			nova.CheckMachine(ctx, api.New(k.session), &k.cfg.Metadata)
			return nil
		})
	}
	return g.Wait()
}

// watch says when cloud.conf changed in what only a restart takes over.
func (k *keeper) watch(ctx context.Context) error {
	if k.file == "" {
		return nil
	}
	ticker := time.NewTicker(configPoll)
	defer ticker.Stop()
	seen, said := cloudauth.Fingerprint(k.file), ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if now := cloudauth.Fingerprint(k.file); now != seen {
			seen = now
			said = k.compare(ctx, said)
		}
	}
}

// compare says what differs between cloud.conf and what is in use, unless it was said last;
// it returns what there is to be said.
func (k *keeper) compare(ctx context.Context, said string) string {
	log := klog.FromContext(ctx)
	data, err := os.ReadFile(k.file)
	if err != nil {
		return said // the session says so
	}
	cfg, _, err := config.Parse(k.file, data)
	if err != nil {
		if said != err.Error() {
			log.Error(err, "cloud.conf changed and has mistakes now: correct them, the next start would fail")
		}
		return err.Error()
	}
	sections := strings.Join(changedSections(k.cfg, cfg), ", ")
	switch sections {
	case said:
	case "":
		log.Info("cloud.conf is again what is in use")
	default:
		log.Info("cloud.conf changed in sections that are read only at the start: restart to use them; until then all of the old ones stay in use", "sections", sections)
	}
	return sections
}

// changedSections names the sections other than [Global] in which two configurations differ.
func changedSections(a, b *config.Config) []string {
	var out []string
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for n := range x.NumField() {
		name := x.Type().Field(n).Tag.Get("gcfg")
		if name == "" || name == "Global" || name == "Registry" {
			continue // the session's, and the credential provider's
		}
		if !reflect.DeepEqual(x.Field(n).Interface(), y.Field(n).Interface()) {
			out = append(out, fmt.Sprintf("[%s]", name))
		}
	}
	return out
}
