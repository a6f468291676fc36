package play

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
)

// Place is the vCenters in which a group is played.
type Place struct {
	VCenters []*sim.VCenter
	Symbols  *symbol.Symbols
	dir      string
	down     map[int]func()
}

// Make makes the vCenters of a World. The caller must Close the Place.
func Make(ctx context.Context, w *script.World) (*Place, error) {
	dir, err := os.MkdirTemp("", "vcenters-")
	if err != nil {
		return nil, err
	}
	p := &Place{Symbols: symbol.New("", ""), dir: dir, down: map[int]func(){}}
	count := 1
	if w.Two {
		count = 2
	}
	for n := range count {
		folder := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, errors.Join(err, p.Close())
		}
		v, err := sim.NewWith(ctx, folder, &w.Inventory)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("vCenter %d: %w", n, err), p.Close())
		}
		p.VCenters = append(p.VCenters, v)
		for key, value := range v.Access() {
			p.Symbols.Set(fmt.Sprintf("vc%d:%s", n, key), value)
		}
	}
	return p, nil
}

// Close ends the vCenters.
func (p *Place) Close() error {
	for _, v := range p.VCenters {
		v.Close()
	}
	return os.RemoveAll(p.dir)
}

// Changes are the calls that others have made to the vCenters and that may have changed something.
func (p *Place) Changes() (out []string) {
	for _, v := range p.VCenters {
		out = append(out, v.Changes()...)
	}
	return out
}

// PlaneOptions are those of a control plane.
func PlaneOptions() controlplane.Options { return controlplane.Options{} }
