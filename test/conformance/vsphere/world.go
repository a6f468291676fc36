package vsphere

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/cns"
	_ "github.com/vmware/govmomi/cns/simulator" // serves volumes
	cnstypes "github.com/vmware/govmomi/cns/types"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	_ "github.com/vmware/govmomi/vapi/simulator" // serves tags
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
)

// The user of the simulator, and the categories of tags.
const (
	user, password = "administrator@vsphere.local", "s3cret"
	zones, regions = "k8s-zone", "k8s-region"
	zone, region   = "zone-a", "region-a"
)

// World is a simulated vCenter.
type World struct {
	model  *simulator.Model
	server *simulator.Server
	dir    string
	client *govmomi.Client
	last   atomic.Int32 // of addresses
	confs  [2]string    // with the password, and with a wrong one
	// refuse is the status that all requests get, 0 for none.
	refuse atomic.Int32
	// Requests counts those of others than the World, and Open those of them that are not answered yet. Delay is how long each takes, in
	// nanoseconds.
	Requests, Open, Delay atomic.Int64
}

// agent is how the World names itself, so that its own requests count for nothing.
const agent = "the world"

// New starts a vCenter with two datacenters, whose first one is in a region and its clusters in a zone; machines is how many there
// are in each pool. Close ends it. dir is for files.
func New(ctx context.Context, dir string, machines int) (*World, error) {
	w := &World{model: simulator.VPX(), dir: dir}
	w.model.Datacenter, w.model.Machine = 2, machines
	if err := w.model.Create(); err != nil {
		return nil, err
	}
	w.model.Service.TLS = new(tls.Config)
	w.model.Service.Listen = &url.URL{User: url.UserPassword(user, password)}
	w.model.Service.RegisterEndpoints = true
	w.server = w.model.Service.NewServer()
	next := w.server.Config.Handler
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.UserAgent() == agent {
			next.ServeHTTP(rw, r)
			return
		}
		w.Requests.Add(1)
		w.Open.Add(1)
		defer w.Open.Add(-1)
		time.Sleep(time.Duration(w.Delay.Load()))
		if status := int(w.refuse.Load()); status != 0 {
			http.Error(rw, "no", status)
			return
		}
		next.ServeHTTP(rw, r)
	})
	var err error
	if w.client, err = govmomi.NewClient(ctx, w.server.URL, true); err != nil {
		return nil, err
	}
	w.client.UserAgent = agent
	for n, password := range []string{password, "wrong"} {
		if w.confs[n], err = w.conf(password); err != nil {
			return nil, err
		}
	}
	return w, w.tag(ctx)
}

// Close ends the vCenter.
func (w *World) Close() {
	w.server.Close()
	w.model.Remove()
}

// tag says where the first datacenter is.
func (w *World) tag(ctx context.Context) error {
	r := rest.NewClient(w.client.Client)
	if err := r.Login(ctx, w.server.URL.User); err != nil {
		return err
	}
	m, finder := tags.NewManager(r), find.NewFinder(w.client.Client)
	for category, of := range map[string]struct{ path, tag string }{zones: {"/DC0/host/*", zone}, regions: {"/DC0", region}} {
		id, err := m.CreateCategory(ctx, &tags.Category{Name: category, Cardinality: "SINGLE"})
		if err != nil {
			return err
		}
		t, err := m.CreateTag(ctx, &tags.Tag{Name: of.tag, CategoryID: id})
		if err != nil {
			return err
		}
		found, err := finder.ManagedObjectList(ctx, of.path)
		if err != nil {
			return err
		}
		for _, o := range found {
			if err := m.AttachTag(ctx, t, o.Object); err != nil {
				return err
			}
		}
	}
	return nil
}

// conf writes a vsphere.conf, and returns its path.
func (w *World) conf(password string) (string, error) {
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(w.dir, "ca.pem"), data, 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(w.dir, password+".yaml")
	return path, os.WriteFile(path, []byte(w.text(password, "ipv4, ipv6")), 0o600)
}

func (w *World) text(password, families string) string {
	return fmt.Sprintf("vcenter:\n  sim:\n    server: %q\n    port: %s\n    user: %s\n    password: %s\n    caFile: %s\n    ipFamily: [%s]\nlabels:\n  zone: %s\n  region: %s\n",
		w.server.URL.Hostname(), w.server.URL.Port(), user, password, filepath.Join(w.dir, "ca.pem"), families, zones, regions)
}

// ConfigIPv4 is the content of a vsphere.conf for addresses of IPv4 alone.
func (w *World) ConfigIPv4() string { return w.text(password, "ipv4") }

// Config is the path of a vsphere.conf with the right password.
func (w *World) Config() string { return w.confs[0] }

// Setup is the vCenter for the suite.
func (w *World) Setup() cloudtest.Setup {
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
	return cloudtest.Setup{New: start(w.confs[0]), NewDenied: start(w.confs[1]), World: w, Unsupported: unsupported()}
}

// MakeInstance implements cloudtest.World: a copy of a machine, whose tools tell addresses.
func (w *World) MakeInstance(ctx context.Context, name string) (cloudtest.Instance, error) {
	finder := find.NewFinder(w.client.Client)
	source, err := finder.VirtualMachine(ctx, "/DC0/vm/DC0_C0_RP0_VM0")
	if err != nil {
		return cloudtest.Instance{}, err
	}
	folder, err := finder.Folder(ctx, "/DC0/vm")
	if err != nil {
		return cloudtest.Instance{}, err
	}
	id := uuid.NewString()
	task, err := source.Clone(ctx, folder, name, types.VirtualMachineCloneSpec{Config: &types.VirtualMachineConfigSpec{Uuid: id}})
	if err != nil {
		return cloudtest.Instance{}, err
	}
	made, err := task.WaitForResult(ctx, nil)
	if err != nil {
		return cloudtest.Instance{}, err
	}
	on, err := object.NewVirtualMachine(w.client.Client, made.Result.(types.ManagedObjectReference)).PowerOn(ctx)
	if err != nil {
		return cloudtest.Instance{}, err
	}
	if err := on.Wait(ctx); err != nil {
		return cloudtest.Instance{}, err
	}
	n := w.last.Add(1)
	v4, v6 := fmt.Sprintf("10.96.%d.%d", n/250, n%250+1), fmt.Sprintf("fd00:96::%x", n)
	vm, ok := w.model.Map().Get(made.Result.(types.ManagedObjectReference)).(*simulator.VirtualMachine)
	if !ok {
		return cloudtest.Instance{}, errors.New("the copy is no machine")
	}
	w.model.Service.Context.WithLock(vm, func() {
		vm.Guest.HostName = name
		vm.Guest.Net = []types.GuestNicInfo{
			{Network: "cni0", DeviceConfigId: -1, IpAddress: []string{"10.244.0.1"}},
			{Network: "VM Network", DeviceConfigId: 4000, IpAddress: []string{"fe80::1", v4, v6}},
		}
	})
	return cloudtest.Instance{
		Ref:       cloud.InstanceRef{NodeName: name, ProviderID: "vsphere://" + id},
		Addresses: []netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}, Zone: zone, MachineID: id,
	}, nil
}

func (w *World) machine(ctx context.Context, i cloudtest.Instance) (*object.VirtualMachine, error) {
	found, err := object.NewSearchIndex(w.client.Client).FindByUuid(ctx, nil, strings.TrimPrefix(i.Ref.ProviderID, "vsphere://"), true, types.NewBool(false))
	if err != nil || found == nil {
		return nil, err
	}
	return object.NewVirtualMachine(w.client.Client, found.Reference()), nil
}

// StopInstance implements cloudtest.World.
func (w *World) StopInstance(ctx context.Context, i cloudtest.Instance) error {
	vm, err := w.machine(ctx, i)
	if err != nil {
		return err
	}
	task, err := vm.PowerOff(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// DeleteInstance implements cloudtest.World.
func (w *World) DeleteInstance(ctx context.Context, i cloudtest.Instance) error {
	vm, err := w.machine(ctx, i)
	if err != nil || vm == nil {
		return err
	}
	return remove(ctx, vm)
}

func remove(ctx context.Context, vm *object.VirtualMachine) error {
	if task, err := vm.PowerOff(ctx); err == nil {
		_ = task.Wait(ctx) // it may be off
	}
	task, err := vm.Destroy(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// UnknownID implements cloudtest.World.
func (w *World) UnknownID() string { return "vsphere://" + uuid.NewString() }

// ForeignID implements cloudtest.World.
func (w *World) ForeignID() string { return "aws:///eu-central-1a/i-0123456789abcdef0" }

// Throttle implements cloudtest.World.
func (w *World) Throttle() (undo func(), reason string) {
	w.refuse.Store(http.StatusTooManyRequests)
	return func() { w.refuse.Store(0) }, ""
}

// Down has the vCenter answer nothing until undo.
func (w *World) Down() (undo func()) {
	w.refuse.Store(http.StatusServiceUnavailable)
	return func() { w.refuse.Store(0) }
}

// RemoveAll removes all machines, as a user sees it whose rights were taken.
func (w *World) RemoveAll(ctx context.Context) error {
	found, err := find.NewFinder(w.client.Client).VirtualMachineList(ctx, "/*/vm/*")
	for _, vm := range found {
		if err := remove(ctx, vm); err != nil {
			return err
		}
	}
	return err
}

// Everything implements cloudtest.World.
func (w *World) Everything(ctx context.Context) ([]string, error) {
	found, err := find.NewFinder(w.client.Client).VirtualMachineList(ctx, "/*/vm/*")
	var out []string
	for _, vm := range found {
		out = append(out, "machine "+vm.Reference().Value+" "+vm.Name())
	}
	return out, err
}

// Left implements cloudtest.World: there is nothing that a Service could have made.
func (w *World) Left(context.Context, cloud.LoadBalancerRef) ([]string, error) { return nil, nil }

var errNotServed = errors.New("vSphere has nothing of the kind")

// Settings implements cloudtest.World.
func (w *World) Settings(context.Context, cloudtest.Feature) (cloud.Settings, error) {
	return nil, cloudtest.ErrNoAnnotation
}

// UseLoadBalancer implements cloudtest.World.
func (w *World) UseLoadBalancer(id string) cloud.Settings { return cloud.Settings{"use": id} }

// MakeLoadBalancer implements cloudtest.World: there are none, and so nobody who could use one.
func (w *World) MakeLoadBalancer(context.Context, string) (string, error) { return "none", nil }

// LoadBalancer implements cloudtest.World.
func (w *World) LoadBalancer(_ context.Context, id string) (*cloudtest.LoadBalancer, error) {
	return &cloudtest.LoadBalancer{ID: id}, nil
}

// LoadBalancerID implements cloudtest.World.
func (w *World) LoadBalancerID(*cloud.LoadBalancerStatus) string { return "" }

// DeleteLoadBalancer implements cloudtest.World.
func (w *World) DeleteLoadBalancer(context.Context, string) error { return nil }

// ReserveAddress implements cloudtest.World: there are none, and so nobody who could take one.
func (w *World) ReserveAddress(context.Context) (cloudtest.Address, error) {
	return cloudtest.Address{IP: netip.MustParseAddr("192.0.2.1"), Release: func(context.Context) error { return nil }}, nil
}

// MakeForeign implements cloudtest.World.
func (w *World) MakeForeign(context.Context, cloud.LoadBalancerRef, string) (intact, remove func(context.Context) error, err error) {
	return nil, nil, errNotServed
}

// AddRoute implements cloudtest.World.
func (w *World) AddRoute(context.Context, cloud.Route) error { return errNotServed }

// RemoveRoute implements cloudtest.World.
func (w *World) RemoveRoute(context.Context, cloud.Route) error { return errNotServed }

// Routes implements cloudtest.World.
func (w *World) Routes(context.Context) ([]cloud.Route, error) { return nil, nil }

// MakeVolume implements cloudtest.World: one of Cloud Native Storage, on a datastore of all hosts of the first datacenter.
func (w *World) MakeVolume(ctx context.Context) (*corev1.PersistentVolume, string, error) {
	store, err := find.NewFinder(w.client.Client).Datastore(ctx, "/DC0/datastore/LocalDS_0")
	if err != nil {
		return nil, "", err
	}
	c, err := cns.NewClient(ctx, w.client.Client)
	if err != nil {
		return nil, "", err
	}
	task, err := c.CreateVolume(ctx, []cnstypes.CnsVolumeCreateSpec{{
		Name: fmt.Sprint("pvc-", w.last.Add(1)), VolumeType: string(cnstypes.CnsVolumeTypeBlock), Datastores: []types.ManagedObjectReference{store.Reference()},
		BackingObjectDetails: &cnstypes.CnsBlockBackingDetails{CnsBackingObjectDetails: cnstypes.CnsBackingObjectDetails{CapacityInMb: 1}},
	}})
	if err != nil {
		return nil, "", err
	}
	info, err := task.WaitForResult(ctx, nil)
	if err != nil {
		return nil, "", err
	}
	made, ok := info.Result.(cnstypes.CnsVolumeOperationBatchResult)
	if !ok || len(made.VolumeResults) != 1 {
		return nil, "", fmt.Errorf("%T is no volume that was made", info.Result)
	}
	id := made.VolumeResults[0].GetCnsVolumeOperationResult().VolumeId.Id
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.vsphere.vmware.com", VolumeHandle: id}}}}, zone, nil
}

// DeleteVolume implements cloudtest.World.
func (w *World) DeleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	c, err := cns.NewClient(ctx, w.client.Client)
	if err != nil {
		return err
	}
	task, err := c.DeleteVolume(ctx, []cnstypes.CnsVolumeId{{Id: pv.Spec.CSI.VolumeHandle}}, true)
	if err != nil {
		return err
	}
	_ = task.Wait(ctx) // it may be gone
	return nil
}
