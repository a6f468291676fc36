package neutron

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// Extensions remembers which extensions Neutron has.
type Extensions struct {
	mu      sync.Mutex
	aliases map[string]bool
	read    time.Time
}

// extensionsTTL is how long the answer is used: Neutron may be upgraded under us.
const extensionsTTL = 10 * time.Minute

// Get returns the aliases of Neutron's extensions.
func (e *Extensions) Get(ctx context.Context, c *api.Client) (map[string]bool, error) {
	e.mu.Lock()
	aliases, fresh := e.aliases, time.Since(e.read) < extensionsTTL
	e.mu.Unlock()
	if aliases != nil && fresh {
		return aliases, nil
	}
	sc, err := c.Network(ctx)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Extensions []struct {
			Alias string `json:"alias"`
		} `json:"extensions"`
	}
	const op = "list network extensions"
	if err := api.GetJSON(ctx, sc, sc.ServiceURL("extensions"), &doc); err != nil {
		return nil, api.WrapError(op, err)
	}
	if len(doc.Extensions) == 0 {
		return nil, &cloud.Error{Op: op, Err: fmt.Errorf("the answer names none")}
	}
	aliases = make(map[string]bool, len(doc.Extensions))
	for _, x := range doc.Extensions {
		aliases[x.Alias] = true
	}
	e.mu.Lock()
	e.aliases, e.read = aliases, time.Now()
	e.mu.Unlock()
	return aliases, nil
}

// Guard makes Neutron refuse a change when the object has another revision by now.
func Guard(can map[string]bool, revision int) map[string]string {
	if !can["revision-if-match"] {
		return nil
	}
	return map[string]string{"If-Match": fmt.Sprintf("revision_number=%d", revision)}
}
