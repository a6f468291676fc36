package vsphere

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/vsphere"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
)

// poll is how often a directory of secrets is looked at.
const poll = 5 * time.Second

// credentials are those for one vCenter, from where the configuration has them: the vCenter's own Secret, else the directory, else
// the Secret for all, else the file.
type credentials struct {
	kube    cloud.Kube
	vcenter *config.VCenter
	secret  cloud.KubeObject // zero is for none
	folder  string           // "" is for none

	mu   sync.Mutex
	read bool              // the Secret was
	data map[string][]byte // the Secret's
	err  error             // why there is none
}

func newCredentials(cfg *config.Config, v *config.VCenter, kube cloud.Kube) *credentials {
	c := &credentials{kube: kube, vcenter: v}
	g := &cfg.Global
	switch {
	case v.SecretName != "" && v.SecretNamespace != "":
		c.secret = cloud.KubeObject{Kind: cloud.KubeSecret, Namespace: v.SecretNamespace, Name: v.SecretName}
	case g.SecretsDirectory != "":
		c.folder = g.SecretsDirectory
	case g.SecretName != "" && g.SecretNamespace != "":
		c.secret = cloud.KubeObject{Kind: cloud.KubeSecret, Namespace: g.SecretNamespace, Name: g.SecretName}
	}
	if c.secret.Name != "" {
		c.err = fmt.Errorf("%s has not been read yet", c.where())
	}
	return c
}

// where is how messages call the place.
func (c *credentials) where() string {
	if c.folder != "" {
		return "the directory " + c.folder
	}
	return "Secret " + c.secret.Namespace + "/" + c.secret.Name
}

// get is auth.Options.Credentials.
func (c *credentials) get(ctx context.Context) (auth.Credentials, error) {
	var data map[string][]byte
	var err error
	switch {
	case c.folder != "":
		data, err = readFolder(c.folder)
	case c.secret.Name != "":
		data, err = c.fromSecret(ctx)
	default:
		return auth.Credentials{User: c.vcenter.User, Password: c.vcenter.Password}, nil
	}
	if err != nil {
		return auth.Credentials{}, err
	}
	out, err := auth.FromSecret(data, c.vcenter.Server)
	if err != nil {
		return auth.Credentials{}, fmt.Errorf("%s: %w", c.where(), err)
	}
	return out, nil
}

// fromSecret is the Secret's data as it was last seen. Where it was not yet it is read: the manager asks whether the cloud is ready
// before it runs what watches.
func (c *credentials) fromSecret(ctx context.Context) (map[string][]byte, error) {
	c.mu.Lock()
	read := c.read
	c.mu.Unlock()
	if !read && c.kube != nil {
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := c.kube.WatchSecret(within, c.secret.Namespace, c.secret.Name, func(data map[string][]byte) {
			_, _ = c.store(data) // the error is kept
			cancel()
		}); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data, c.err
}

// readFolder reads the files of a directory, as the keys of a Secret are mounted.
func readFolder(folder string) (map[string][]byte, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue // ..data of a mounted Secret
		}
		data, err := cloudauth.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out[e.Name()] = data
	}
	return out, nil
}

// watch takes over what changes, until ctx ends. Sessions begun with what was there before are ended.
func (c *credentials) watch(ctx context.Context, s *auth.Session, reloaded func(error)) error {
	if reloaded == nil {
		reloaded = func(error) {}
	}
	g, ctx := errgroup.WithContext(ctx)
	if c.secret.Name != "" {
		g.Go(func() error {
			return c.kube.WatchSecret(ctx, c.secret.Namespace, c.secret.Name, func(data map[string][]byte) { c.take(data, s, reloaded) })
		})
	}
	if c.folder != "" {
		g.Go(func() error { return c.poll(ctx, s, reloaded) })
	}
	return g.Wait()
}

// take takes over a Secret, and ends the sessions that were begun with another one.
func (c *credentials) take(data map[string][]byte, s *auth.Session, reloaded func(error)) {
	changed, err := c.store(data)
	reloaded(err)
	if err == nil && changed {
		s.Reset()
	}
}

// store keeps a Secret. One that was deleted changes nothing: its credentials may be good, and the next start says so.
func (c *credentials) store(data map[string][]byte) (changed bool, err error) {
	if data == nil {
		err = fmt.Errorf("%s does not exist", c.where())
	} else if _, err = auth.FromSecret(data, c.vcenter.Server); err != nil {
		err = fmt.Errorf("%s: %w", c.where(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, c.read = !maps.EqualFunc(c.data, data, bytes.Equal), true
	if err == nil || c.data == nil {
		c.data, c.err = data, err
	}
	return changed, err
}

func (c *credentials) poll(ctx context.Context, s *auth.Session, reloaded func(error)) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	last, _ := c.get(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, err := c.get(ctx)
		if err != nil || now.Equal(&last) {
			continue
		}
		last = now
		reloaded(nil)
		s.Reset()
	}
}
