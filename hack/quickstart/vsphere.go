package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	vspheresim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// vSphere plays on a simulated vCenter.
type vSphere struct{ *world }

func playVSphere(w *world) []step {
	v := &vSphere{w}
	return []step{
		{"a simulated vCenter with 3 machines", v.start},
		{"etcd and kube-apiserver", v.startCluster},
		{"the controller manager, as a user of the vCenter", v.startManager},
		{"nodes join and are initialized", v.nodesJoin},
		{"a machine's stop is noticed", v.shutdownNoticed},
		{"a machine's deletion is noticed", v.deletionNoticed},
		{"a PersistentVolume comes back labeled", v.volumeLabeled},
	}
}

// start starts the vCenter with its machines.
func (v *vSphere) start(ctx context.Context) (string, error) {
	sim, err := vspheresim.New(ctx, v.dir, 1)
	if err != nil {
		return "", err
	}
	v.onClose(func() error { sim.Close(); return nil })
	v.scene = &scene{
		provider: "vsphere", region: vspheresim.Region, conf: sim.ConfigIPv4(), args: []string{"--configure-cloud-routes=false"},
		calls:  func() int { return int(sim.Requests.Load()) },
		stop:   func(ctx context.Context, m machine) error { return sim.Stop(ctx, m.id) },
		remove: func(ctx context.Context, m machine) error { return sim.Delete(ctx, m.id) },
		volume: func(ctx context.Context, _ string) (corev1.PersistentVolumeSource, error) {
			id, err := sim.MakeVolume(ctx)
			return csiVolume("csi.vsphere.vmware.com", id), err
		},
		lacks: "load balancers and routes, which are NSX-T's and not served; pulling images, as vSphere has no registry",
	}
	for n := range 3 {
		m, err := sim.MakeMachine(ctx, fmt.Sprint("node-", n))
		if err != nil {
			return "", err
		}
		v.scene.machines = append(v.scene.machines, machine{m.UUID, m.Name, "vsphere://" + m.UUID, vspheresim.Zone, m.IPv4.String()})
	}
	return "simulated: govmomi's vcsim, at " + sim.Address(), nil
}
