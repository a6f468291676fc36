package api

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// viewed are the kinds of objects that are read by views.
var viewed = []string{"VirtualMachine", "HostSystem", "ComputeResource", "ResourcePool", "Folder", "Datacenter", "Datastore"}

// views are those of one session, by what they are of. They end with the session.
type views struct {
	mu sync.Mutex
	of *vim25.Client
	by map[Ref]Ref
}

func (w *views) get(v *vim25.Client, container Ref) (Ref, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	view, ok := w.by[container]
	return view, ok && w.of == v
}

func (w *views) put(v *vim25.Client, container, view Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of != v {
		w.of, w.by = v, map[Ref]Ref{}
	}
	w.by[container] = view
}

func (w *views) forget(some []Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.by, func(_, v Ref) bool { return slices.Contains(some, v) })
}

// view shows all objects of the viewed kinds below a container, as they come and go.
func (c *Client) view(ctx context.Context, what string, below container) (view Ref, err error) {
	const op = "CreateContainerView"
	err = c.session.SOAP(ctx, func(v *vim25.Client) error {
		container := below(v)
		var ok bool
		if view, ok = c.views.get(v, container); ok {
			return nil
		}
		return c.one(ctx, "vim", op, what, func() error {
			answer, err := methods.CreateContainerView(ctx, v, &types.CreateContainerView{This: *v.ServiceContent.ViewManager, Container: container, Type: viewed, Recursive: true})
			if err == nil {
				view = answer.Returnval
				c.views.put(v, container, view)
			}
			return err
		})
	})
	return view, c.failed(op+" "+what, err)
}

// known is which object a UUID was last seen at, of UUIDs that one machine has. It is a hint: what is read there decides. What a list
// lacks is none about it: who may not see a machine any more is shown a list without it.
type known struct {
	mu sync.Mutex
	at map[string]Ref
	of map[Ref]string
}

// maxKnown bounds them; a vCenter has at most 45,000 machines.
const maxKnown = 100_000

func (k *known) add(some []Machine) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at == nil || len(k.at) > maxKnown {
		k.at, k.of = map[string]Ref{}, map[Ref]string{}
	}
	seen := map[string]bool{}
	for i := range some {
		m := &some[i]
		switch {
		case m.UUID == "":
		case seen[m.UUID]:
			delete(k.of, k.at[m.UUID])
			delete(k.at, m.UUID)
		default:
			k.at[m.UUID], k.of[m.Ref], seen[m.UUID] = m.Ref, m.UUID, true
		}
	}
}

// forget forgets objects that a read of themselves has left out.
func (k *known) forget(asked []Ref, there []Machine) {
	is := map[Ref]bool{}
	for i := range there {
		is[there[i].Ref] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ref := range asked {
		if !is[ref] {
			if uuid := k.of[ref]; k.at[uuid] == ref {
				delete(k.at, uuid)
			}
			delete(k.of, ref)
		}
	}
}

// UUIDOf is the UUID that an object was last seen with, empty where that is not known.
func (c *Client) UUIDOf(ref Ref) string {
	c.known.mu.Lock()
	defer c.known.mu.Unlock()
	return c.known.of[ref]
}

// Recall reads the objects that those UUIDs were seen at, a thousand with a call. One that is gone is left out; one may have another
// UUID now, or none.
func (c *Client) Recall(ctx context.Context, uuids []string) ([]Machine, error) {
	var refs []Ref
	c.known.mu.Lock()
	for _, uuid := range uuids {
		if ref, ok := c.known.at[uuid]; ok {
			refs = append(refs, ref)
		}
	}
	c.known.mu.Unlock()
	out, err := c.Read(ctx, refs)
	if err == nil {
		c.known.forget(refs, out)
	}
	return out, err
}
