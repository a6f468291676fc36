// Command draw-dashboard draws the panels of the Grafana dashboard as an SVG: a real Prometheus scrapes the real manager in a cluster on a
// simulated OpenStack, where not all goes well, and answers the panels' questions. Grafana takes no part in it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

const help = `draw-dashboard: the dashboard's panels, of a real Prometheus and the real manager

  make dashboard-picture

It takes about four minutes, and needs etcd and kube-apiserver (from $KUBEBUILDER_ASSETS or bin/) and bin/prometheus.

Flags:
`

func main() { rig.Main("draw-dashboard", start) }

func start(ctx context.Context, args []string, out io.Writer) error {
	var dashboard, ours, prometheus, svg string
	var keep bool
	fs := rig.NewFlagSet("draw-dashboard", help, out)
	fs.StringVar(&dashboard, "dashboard", "manifests/monitoring/dashboard.json", "`file` of the dashboard")
	fs.StringVar(&ours, "ours", "bin/cloud-controller-manager", "`path` of the manager")
	fs.StringVar(&prometheus, "prometheus", "bin/prometheus", "`path` of Prometheus")
	fs.StringVar(&svg, "svg", "", "`file` to write")
	fs.BoolVar(&keep, "keep", false, "keep the logs and say where they are")
	if err := rig.Parse(fs, args); err != nil {
		return err
	}
	if svg == "" {
		return errors.New("-svg is missing: see -help")
	}
	panels, err := readPanels(dashboard)
	if err != nil {
		return err
	}
	return rig.InFolder(ctx, "draw-dashboard", keep, out, func(dir string) error {
		return record(ctx, &recording{dir: dir, manager: ours, binary: prometheus, out: out}, panels, svg)
	})
}

// recording is what runs.
type recording struct {
	dir, manager, binary string
	out                  io.Writer
	begin                time.Time
}

// record plays, asks and draws.
func record(ctx context.Context, r *recording, panels []panel, svg string) (err error) {
	w, err := newWorld(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	p, err := startPrometheus(ctx, r, w.address)
	if err != nil {
		return err
	}
	defer p.process.Stop()
	r.begin = time.Now()
	marks, err := w.play(ctx)
	if err != nil {
		return err
	}
	x := axis(time.Since(r.begin), marks)
	charts, err := ask(ctx, p, panels, r.begin, len(x.Xs))
	if err != nil {
		return err
	}
	fmt.Fprintln(r.out, "writing", filepath.Clean(svg))
	return os.WriteFile(svg, []byte(draw(x, charts)), 0o644) //nolint:gosec // everybody may read it
}
