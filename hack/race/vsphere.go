package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/inflight"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// vmware is govmomi's simulator of a vCenter, which others maintain.
func vmware() cloudKind {
	return cloudKind{name: "vsphere", provider: "vsphere", other: "CPI", nodesOnly: true, bytes: true, open: func(d delays) (world, error) {
		dir, err := os.MkdirTemp("", "isthmus-race-vcsim-")
		if err != nil {
			return nil, err
		}
		sim, err := vsphere.New(context.Background(), dir, 1)
		if err != nil {
			return nil, err
		}
		sim.Delay.Store(int64(d.call))
		return &vsphereWorld{sim: sim, dir: dir}, nil
	}}
}

type vsphereWorld struct {
	sim    *vsphere.VCenter
	dir    string
	joined int
}

func (w *vsphereWorld) config() string { return w.sim.ConfigIPv4() }

func (w *vsphereWorld) environ() []string { return nil }

func (w *vsphereWorld) about() string { return "vcsim, the simulator of govmomi, with zones by tags" }

func (w *vsphereWorld) join(n int) ([]machine, error) {
	out, errs := make([]machine, n), make([]error, n)
	inflight.Each(16, slices.All(out), func(k int, _ machine) { // the simulator takes a moment for each
		m, err := w.sim.MakeMachine(context.Background(), fmt.Sprint("node-", w.joined+k+1))
		out[k], errs[k] = machine{id: m.UUID, name: m.Name, uuid: m.UUID}, err
	})
	w.joined += n
	return out, errors.Join(errs...)
}

func (w *vsphereWorld) leave(m machine) error {
	return w.sim.Delete(context.Background(), m.id)
}

func (w *vsphereWorld) calls() calls {
	return calls{reads: int(w.sim.Requests.Load()), open: int(w.sim.Open.Load()), bytes: w.sim.Bytes.Load()}
}

func (w *vsphereWorld) behind(machine) (in, pools int) { return 0, 0 }

func (w *vsphereWorld) left() int { return 0 }

func (w *vsphereWorld) busy() bool { return false }

func (w *vsphereWorld) close() {
	w.sim.Close()
	_ = os.RemoveAll(w.dir)
}
