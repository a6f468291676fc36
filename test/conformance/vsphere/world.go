package vsphere

import (
	"context"
	"errors"
	"net/netip"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// World is a simulated vCenter for the conformance suite.
type World struct{ *sim.VCenter }

// Setup is the vCenter for the suite.
func (w World) Setup() cloudtest.Setup {
	start := func(conf string) func(o cloud.Options) (*cloud.Provider, func(), error) {
		return func(o cloud.Options) (*cloud.Provider, func(), error) {
			ctx, cancel := context.WithCancel(context.Background())
			p, _, err := vsphere.New(ctx, conf, o)
			if err != nil {
				cancel()
				return nil, nil, err
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = p.Run(ctx) // it ends with the context
			}()
			return p, func() { cancel(); <-done }, nil
		}
	}
	return cloudtest.Setup{New: start(w.Config()), NewDenied: start(w.ConfigDenied()), World: w, Unsupported: unsupported()}
}

// MakeInstance implements cloudtest.World.
func (w World) MakeInstance(ctx context.Context, name string) (cloudtest.Instance, error) {
	m, err := w.MakeMachine(ctx, name)
	if err != nil {
		return cloudtest.Instance{}, err
	}
	return cloudtest.Instance{Ref: cloud.InstanceRef{NodeName: name, ProviderID: "vsphere://" + m.UUID}, Addresses: []netip.Addr{m.IPv4, m.IPv6}, Zone: sim.Zone, MachineID: m.UUID}, nil
}

// StopInstance implements cloudtest.World.
func (w World) StopInstance(ctx context.Context, i cloudtest.Instance) error {
	return w.Stop(ctx, i.MachineID)
}

// DeleteInstance implements cloudtest.World.
func (w World) DeleteInstance(ctx context.Context, i cloudtest.Instance) error {
	return w.Delete(ctx, i.MachineID)
}

// UnknownID implements cloudtest.World.
func (w World) UnknownID() string { return "vsphere://" + uuid.NewString() }

// ForeignID implements cloudtest.World.
func (w World) ForeignID() string { return "aws:///eu-central-1a/i-0123456789abcdef0" }

// Throttle implements cloudtest.World.
func (w World) Throttle() (undo func(), reason string) { return w.VCenter.Throttle(), "" }

// Everything implements cloudtest.World.
func (w World) Everything(ctx context.Context) ([]string, error) { return w.Machines(ctx) }

// Left implements cloudtest.World: there is nothing that a Service could have made.
func (w World) Left(context.Context, cloud.LoadBalancerRef) ([]string, error) { return nil, nil }

var errNotServed = errors.New("vSphere has nothing of the kind")

// Settings implements cloudtest.World.
func (w World) Settings(context.Context, cloudtest.Feature) (cloud.Settings, error) {
	return nil, cloudtest.ErrNoAnnotation
}

// UseLoadBalancer implements cloudtest.World.
func (w World) UseLoadBalancer(id string) cloud.Settings { return cloud.Settings{"use": id} }

// MakeLoadBalancer implements cloudtest.World: there are none, and so nobody who could use one.
func (w World) MakeLoadBalancer(context.Context, string) (string, error) { return "none", nil }

// LoadBalancer implements cloudtest.World.
func (w World) LoadBalancer(_ context.Context, id string) (*cloudtest.LoadBalancer, error) {
	return &cloudtest.LoadBalancer{ID: id}, nil
}

// LoadBalancerID implements cloudtest.World.
func (w World) LoadBalancerID(*cloud.LoadBalancerStatus) string { return "" }

// DeleteLoadBalancer implements cloudtest.World.
func (w World) DeleteLoadBalancer(context.Context, string) error { return nil }

// ReserveAddress implements cloudtest.World: there are none, and so nobody who could take one.
func (w World) ReserveAddress(context.Context) (cloudtest.Address, error) {
	return cloudtest.Address{IP: netip.MustParseAddr("192.0.2.1"), Release: func(context.Context) error { return nil }}, nil
}

// MakeForeign implements cloudtest.World.
func (w World) MakeForeign(context.Context, cloud.LoadBalancerRef, string) (intact, remove func(context.Context) error, err error) {
	return nil, nil, errNotServed
}

// AddRoute implements cloudtest.World.
func (w World) AddRoute(context.Context, cloud.Route) error { return errNotServed }

// RemoveRoute implements cloudtest.World.
func (w World) RemoveRoute(context.Context, cloud.Route) error { return errNotServed }

// Routes implements cloudtest.World.
func (w World) Routes(context.Context) ([]cloud.Route, error) { return nil, nil }

// MakeVolume implements cloudtest.World.
func (w World) MakeVolume(ctx context.Context) (*corev1.PersistentVolume, string, error) {
	id, err := w.VCenter.MakeVolume(ctx)
	if err != nil {
		return nil, "", err
	}
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.vsphere.vmware.com", VolumeHandle: id}}}}, sim.Zone, nil
}

// DeleteVolume implements cloudtest.World.
func (w World) DeleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	return w.VCenter.DeleteVolume(ctx, pv.Spec.CSI.VolumeHandle)
}
