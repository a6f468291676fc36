package vsphere

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/klog/v2"

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

	mu     sync.Mutex
	unread bool              // the Secret has not been read yet
	data   map[string][]byte // the Secret's
	err    error             // why there is none
	last   auth.Credentials  // what the folder had last
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
	c.unread = c.secret.Name != ""
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
	switch {
	case c.folder != "":
		out, err := c.fromFolder()
		c.mu.Lock()
		defer c.mu.Unlock()
		if err == nil {
			c.last = out
		} else if c.last != (auth.Credentials{}) {
			return c.last, nil
		}
		return out, err
	case c.secret.Name != "":
		if err := c.first(ctx); err != nil {
			return auth.Credentials{}, err
		}
		c.mu.Lock()
		data, err := c.data, c.err
		c.mu.Unlock()
		if err != nil {
			return auth.Credentials{}, err
		}
		return c.of(data)
	}
	return auth.Credentials{User: c.vcenter.User, Password: c.vcenter.Password}, nil
}

// first reads the Secret where nobody has yet: the program waits for the cloud's answer before it runs what watches.
func (c *credentials) first(ctx context.Context) error {
	c.mu.Lock()
	unread := c.unread
	c.mu.Unlock()
	if !unread {
		return nil
	}
	if c.kube == nil {
		return fmt.Errorf("%s has not been read yet", c.where())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return c.kube.WatchSecret(ctx, c.secret.Namespace, c.secret.Name, func(data map[string][]byte) {
		_, _ = c.put(data) // who asks is told
		cancel()
	})
}

// fromFolder is what the folder has now.
func (c *credentials) fromFolder() (auth.Credentials, error) {
	data, err := readFolder(c.folder)
	if err != nil {
		return auth.Credentials{}, err
	}
	return c.of(data)
}

// of finds the vCenter's credentials in data from where they are.
func (c *credentials) of(data map[string][]byte) (auth.Credentials, error) {
	out, err := auth.FromSecret(data, c.vcenter.Server)
	if err != nil {
		return auth.Credentials{}, fmt.Errorf("%s: %w", c.where(), err)
	}
	return out, nil
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

// watch takes over what changes, until ctx ends. Sessions begun with what was there before are ended. What cannot be taken over is told,
// and what was there before stays in use.
func (c *credentials) watch(ctx context.Context, s *auth.Session, reloaded func(error)) error {
	tell := func(err error) {
		log := klog.FromContext(ctx).WithValues("vCenter", c.vcenter.Server)
		if err != nil {
			log.Error(err, "Credentials cannot be taken over, those before stay in use")
		} else {
			log.Info("Credentials taken over", "from", c.where())
		}
		if reloaded != nil {
			reloaded(err)
		}
	}
	switch {
	case c.folder != "":
		c.poll(ctx, s, tell)
	case c.secret.Name != "" && c.kube != nil:
		return c.kube.WatchSecret(ctx, c.secret.Namespace, c.secret.Name, func(data map[string][]byte) { c.take(data, s, tell) })
	}
	return nil
}

// take takes over a Secret. One that was deleted changes nothing: its credentials may be good, and the next start says so.
func (c *credentials) take(data map[string][]byte, s *auth.Session, tell func(error)) {
	changed, err := c.put(data)
	tell(err)
	if changed {
		s.Reset()
	}
}

// put keeps what a Secret has, which is nil where there is none, and says whether there are other credentials now. What cannot be used
// is kept only where nothing was there before.
func (c *credentials) put(data map[string][]byte) (changed bool, err error) {
	var now auth.Credentials
	if data == nil {
		err = fmt.Errorf("%s does not exist", c.where())
	} else {
		now, err = c.of(data)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread = false
	if err != nil {
		if c.data == nil {
			c.err = err
		}
		return false, err
	}
	before, _ := c.of(c.data) // none at first
	c.data, c.err = data, nil
	return !now.Equal(&before), nil
}

// poll takes over what changes in the folder.
func (c *credentials) poll(ctx context.Context, s *auth.Session, tell func(error)) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	last, _ := c.get(ctx) // who logs in is told
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := c.fromFolder()
		switch {
		case err != nil && err.Error() != told:
			told = err.Error()
			tell(err)
		case err == nil && (told != "" || !now.Equal(&last)):
			told, last = "", now
			tell(nil)
			s.Reset()
		}
	}
}
