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

// known is which object a UUID was last seen at, of UUIDs that one machine has. It is a hint: what is read there decides.
type known struct {
	mu sync.Mutex
	at map[string]Ref
}

// set remembers all machines that there are, in place of those before. A UUID is remembered, too, whose machine is there with another
// one.
func (k *known) set(all []Machine) {
	there := map[Ref]bool{}
	for i := range all {
		there[all[i].Ref] = true
	}
	k.mu.Lock()
	maps.DeleteFunc(k.at, func(_ string, r Ref) bool { return !there[r] })
	k.mu.Unlock()
	k.add(all)
}

func (k *known) add(some []Machine) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at == nil {
		k.at = map[string]Ref{}
	}
	seen := map[string]bool{}
	for i := range some {
		m := &some[i]
		if k.at[m.UUID] = m.Ref; m.UUID == "" || seen[m.UUID] {
			delete(k.at, m.UUID)
		}
		seen[m.UUID] = true
	}
}

// Known is the object that the only machine with a UUID was last seen at.
func (c *Client) Known(uuid string) (Ref, bool) {
	c.known.mu.Lock()
	defer c.known.mu.Unlock()
	ref, ok := c.known.at[uuid]
	return ref, ok
}

// Recall reads the machines of those UUIDs that were seen before, a thousand with a call. Those whose machine is gone, or has another
// UUID now, are left out.
func (c *Client) Recall(ctx context.Context, uuids []string) ([]Machine, error) {
	var refs []Ref
	for _, uuid := range uuids {
		if ref, ok := c.Known(uuid); ok {
			refs = append(refs, ref)
		}
	}
	return c.read(ctx, refs)
}
