package neutron

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// Extensions remembers which extensions Neutron has.
type Extensions struct {
	aliases inventory.Value[map[string]bool]
}

// NewExtensions remembers those of the client's region.
func NewExtensions(c *api.Client) *Extensions {
	x := &Extensions{}
	x.aliases.Read = c.Keep("network_extensions")
	return x
}

// extensionsTTL is how long the answer is used: Neutron may be upgraded under us.
const extensionsTTL = 10 * time.Minute

// Get returns the aliases of Neutron's extensions.
func (e *Extensions) Get(ctx context.Context, c *api.Client) (map[string]bool, error) {
	return e.aliases.Get(ctx, extensionsTTL, func(ctx context.Context) (map[string]bool, error) {
		const op = "list network extensions"
		type extension struct{ Alias string }
		list, err := api.Get[[]extension](ctx, c.On(ctx, api.Network, op), "extensions", "extensions")
		if err != nil {
			return nil, err
		}
		if len(*list) == 0 {
			return nil, &cloud.Error{Op: op, Err: errors.New("the answer names none")}
		}
		aliases := make(map[string]bool, len(*list))
		for _, x := range *list {
			aliases[x.Alias] = true
		}
		return aliases, nil
	})
}

// Guard makes Neutron refuse a change when the object has another revision by now.
func Guard(can map[string]bool, revision int) map[string]string {
	if !can["revision-if-match"] {
		return nil
	}
	return map[string]string{"If-Match": fmt.Sprintf("revision_number=%d", revision)}
}
