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
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/cns"
	_ "github.com/vmware/govmomi/cns/simulator" // serves volumes
	cnstypes "github.com/vmware/govmomi/cns/types"
	"github.com/vmware/govmomi/find"
	_ "github.com/vmware/govmomi/lookup/simulator" // says where tokens are given
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/sts/simulator" // gives tokens
	"github.com/vmware/govmomi/vapi/rest"
	_ "github.com/vmware/govmomi/vapi/simulator" // serves tags
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
)

// The user of the simulator, and the categories of tags.
const (
	user, password = "administrator@vsphere.local", "s3cret"
	zones, regions = "k8s-zone", "k8s-region"
)

// Zone is where the first datacenter's machines and volumes are, in Region.
const (
	Zone   = "zone-a"
	Region = "region-a"
)

// VCenter is a simulated vCenter.
type VCenter struct {
	model  *simulator.Model
	server *simulator.Server
	dir    string
	client *govmomi.Client
	last   atomic.Int32 // of addresses
	copies struct {
		mu sync.Mutex
		of *object.VirtualMachine
		in *object.Folder
	}
	confs [2]string // with the password, and with a wrong one
	seen  requests
	// refuse is the status that all requests get, 0 for none.
	refuse atomic.Int32
	// Requests counts those of others than the simulator, and Open those of them that are not answered yet. Delay is how long each takes, in
	// nanoseconds.
	Requests, Open, Delay atomic.Int64
	// logouts is held by a logout alone, see inOrder.
	logouts sync.RWMutex
	// instead answers the requests of others, if it is set.
	instead atomic.Pointer[Answerer]
	// Bytes are those of the answers to others.
	Bytes atomic.Int64
}

// counted counts the bytes of an answer.
type counted struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// agent is how the VCenter names itself, so that its own requests count for nothing.
const agent = "the simulator"

// New starts a vCenter with two datacenters, whose first one is in a region and its clusters in a zone; machines is how many there
// are in each pool. Close ends it. dir is for files.
func New(ctx context.Context, dir string, machines int) (*VCenter, error) {
	v := newVCenter(dir)
	v.model.Machine = machines
	if err := v.start(ctx); err != nil {
		return nil, err
	}
	if err := v.tag(ctx); err != nil {
		return nil, err
	}
	v.forget()
	return v, nil
}

func newVCenter(dir string) *VCenter {
	v := &VCenter{model: simulator.VPX(), dir: dir, seen: requests{password: password, methods: map[string]int{}, sessions: map[string]bool{}}}
	v.model.Datacenter = 2
	return v
}

// forget counts anew: the simulator's client has asked before it had a name.
func (v *VCenter) forget() {
	v.Requests.Store(0)
	v.seen.mu.Lock()
	defer v.seen.mu.Unlock()
	clear(v.seen.methods)
}

// creation is one at a time: vcsim's models write to variables of its package.
var creation sync.Mutex

func create(m *simulator.Model) error {
	creation.Lock()
	defer creation.Unlock()
	return m.Create()
}

// start starts what the model describes.
func (v *VCenter) start(ctx context.Context) error {
	if err := create(v.model); err != nil {
		return err
	}
	v.model.Map().Put(&searchIndex{v.model.Map().SearchIndex()})
	v.model.Service.TLS = new(tls.Config)
	v.model.Service.Listen = &url.URL{User: url.UserPassword(user, password)}
	v.model.Service.RegisterEndpoints = true
	v.model.Map().SessionManager().ValidLogin = v.login
	v.server = v.model.Service.NewServer()
	v.server.Config.Handler = v.handler(v.server.Config.Handler)
	var err error
	if v.client, err = govmomi.NewClient(ctx, v.server.URL, true); err != nil {
		return err
	}
	v.client.UserAgent = agent
	for n, password := range []string{password, "wrong"} {
		if v.confs[n], err = v.conf(password); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the vCenter.
func (v *VCenter) Close() {
	v.server.Close()
	v.model.Remove()
}

// Address is where the vCenter answers, HOST:PORT.
func (v *VCenter) Address() string { return v.server.URL.Host }

// Host is its host, as a vsphere.conf has it.
func (v *VCenter) Host() string { return v.server.URL.Hostname() }

// tag says where the first datacenter is.
func (v *VCenter) tag(ctx context.Context) error {
	r := rest.NewClient(v.client.Client)
	if err := r.Login(ctx, v.server.URL.User); err != nil {
		return err
	}
	m, finder := tags.NewManager(r), find.NewFinder(v.client.Client)
	for category, of := range map[string]struct{ path, tag string }{zones: {"/DC0/host/*", Zone}, regions: {"/DC0", Region}} {
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
func (v *VCenter) conf(password string) (string, error) {
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(v.dir, "ca.pem"), data, 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(v.dir, password+".yaml")
	return path, os.WriteFile(path, []byte(v.text(password, "ipv4, ipv6")), 0o600)
}

func (v *VCenter) text(password, families string) string {
	return v.ConfigBy(fmt.Sprintf("user: %s\n  password: %s\n  ipFamily: [%s]", user, password, families))
}

// ConfigBy is the content of a vsphere.conf whose section global has the lines, indented by two blanks but for the first.
func (v *VCenter) ConfigBy(global string) string {
	return fmt.Sprintf("global:\n  %s\nvcenter:\n  sim:\n    server: %q\n    port: %s\n    caFile: %s\nlabels:\n  zone: %s\n  region: %s\n",
		global, v.Host(), v.server.URL.Port(), filepath.Join(v.dir, "ca.pem"), zones, regions)
}

// Secret is the data of a Secret, or of a directory's files, with the user and a password.
func (v *VCenter) Secret(password string) map[string][]byte {
	return map[string][]byte{v.Host() + ".username": []byte(user), v.Host() + ".password": []byte(password)}
}

// Password is the user's at the beginning.
func (v *VCenter) Password() string { return password }

// ConfigIPv4 is the content of a vsphere.conf for addresses of IPv4 alone.
func (v *VCenter) ConfigIPv4() string { return v.text(password, "ipv4") }

// Config is the path of a vsphere.conf with the right password.
func (v *VCenter) Config() string { return v.confs[0] }

// ConfigDenied is the path of one with a wrong password.
func (v *VCenter) ConfigDenied() string { return v.confs[1] }

// Answerer answers a request in place of the vCenter, which is next.
type Answerer func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Lie has a answer the requests of others until undo.
func (v *VCenter) Lie(a Answerer) (undo func()) {
	v.instead.Store(&a)
	return func() { v.instead.Store(nil) }
}

// Machine is one that MakeMachine has made.
type Machine struct {
	// Name is that of the machine and that which its tools tell.
	Name string
	// UUID is that of its BIOS, and IPv4 and IPv6 are the addresses that its tools tell.
	UUID       string
	IPv4, IPv6 netip.Addr
}

// template is the machine that others are copies of, and where they go. A search for it reads all machines: so it is done once.
func (v *VCenter) template(ctx context.Context) (*object.VirtualMachine, *object.Folder, error) {
	v.copies.mu.Lock()
	defer v.copies.mu.Unlock()
	if v.copies.of != nil {
		return v.copies.of, v.copies.in, nil
	}
	finder := find.NewFinder(v.client.Client)
	of, err := finder.VirtualMachine(ctx, "/DC0/vm/DC0_C0_RP0_VM0")
	if err != nil {
		return nil, nil, err
	}
	in, err := finder.Folder(ctx, "/DC0/vm")
	if err != nil {
		return nil, nil, err
	}
	v.copies.of, v.copies.in = of, in
	return of, in, nil
}

// MakeMachine makes a copy of a machine in the first datacenter, which is on and whose tools tell addresses.
func (v *VCenter) MakeMachine(ctx context.Context, name string) (Machine, error) {
	source, folder, err := v.template(ctx)
	if err != nil {
		return Machine{}, err
	}
	id := uuid.NewString()
	task, err := source.Clone(ctx, folder, name, types.VirtualMachineCloneSpec{Config: &types.VirtualMachineConfigSpec{Uuid: id}})
	if err != nil {
		return Machine{}, err
	}
	made, err := task.WaitForResult(ctx, nil)
	if err != nil {
		return Machine{}, err
	}
	on, err := object.NewVirtualMachine(v.client.Client, made.Result.(types.ManagedObjectReference)).PowerOn(ctx)
	if err != nil {
		return Machine{}, err
	}
	if err := on.Wait(ctx); err != nil {
		return Machine{}, err
	}
	n := v.last.Add(1)
	v4, v6 := fmt.Sprintf("10.96.%d.%d", n/250, n%250+1), fmt.Sprintf("fd00:96::%x", n)
	vm, ok := v.model.Map().Get(made.Result.(types.ManagedObjectReference)).(*simulator.VirtualMachine)
	if !ok {
		return Machine{}, errors.New("the copy is no machine")
	}
	v.model.Service.Context.WithLock(vm, func() {
		vm.Guest.HostName = name
		vm.Guest.Net = []types.GuestNicInfo{
			{Network: "cni0", DeviceConfigId: -1, IpAddress: []string{"10.244.0.1"}},
			{Network: "VM Network", DeviceConfigId: 4000, IpAddress: []string{"fe80::1", v4, v6}},
		}
	})
	return Machine{Name: name, UUID: id, IPv4: netip.MustParseAddr(v4), IPv6: netip.MustParseAddr(v6)}, nil
}

// find is the machine of a UUID, nil where there is none.
func (v *VCenter) find(ctx context.Context, uuid string) (*object.VirtualMachine, error) {
	found, err := object.NewSearchIndex(v.client.Client).FindByUuid(ctx, nil, uuid, true, types.NewBool(false))
	if err != nil || found == nil {
		return nil, err
	}
	return object.NewVirtualMachine(v.client.Client, found.Reference()), nil
}

// Stop turns a machine off.
func (v *VCenter) Stop(ctx context.Context, uuid string) error {
	vm, err := v.find(ctx, uuid)
	if err != nil {
		return err
	}
	task, err := vm.PowerOff(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// Delete removes a machine, if there is one.
func (v *VCenter) Delete(ctx context.Context, uuid string) error {
	vm, err := v.find(ctx, uuid)
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

// ChangeUUID gives a machine another UUID.
func (v *VCenter) ChangeUUID(ctx context.Context, from, to string) error {
	vm, err := v.find(ctx, from)
	if err != nil || vm == nil {
		return fmt.Errorf("machine %s: %w", from, err)
	}
	task, err := vm.Reconfigure(ctx, types.VirtualMachineConfigSpec{Uuid: to})
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// Throttle has the vCenter refuse everything as too much until undo.
func (v *VCenter) Throttle() (undo func()) {
	v.refuse.Store(http.StatusTooManyRequests)
	return func() { v.refuse.Store(0) }
}

// Down has the vCenter answer nothing until undo.
func (v *VCenter) Down() (undo func()) {
	v.refuse.Store(http.StatusServiceUnavailable)
	return func() { v.refuse.Store(0) }
}

// RemoveAll removes all machines, as a user sees it whose rights were taken.
func (v *VCenter) RemoveAll(ctx context.Context) error {
	found, err := find.NewFinder(v.client.Client).VirtualMachineList(ctx, "/*/vm/*")
	for _, vm := range found {
		if err := remove(ctx, vm); err != nil {
			return err
		}
	}
	return err
}

// Machines names all machines.
func (v *VCenter) Machines(ctx context.Context) ([]string, error) {
	found, err := find.NewFinder(v.client.Client).VirtualMachineList(ctx, "/*/vm/*")
	var out []string
	for _, m := range found {
		out = append(out, "machine "+m.Reference().Value+" "+m.Name())
	}
	return out, err
}

// MakeVolume makes a volume of Cloud Native Storage on a datastore of all hosts of the first datacenter, and returns its ID.
func (v *VCenter) MakeVolume(ctx context.Context) (string, error) {
	store, err := find.NewFinder(v.client.Client).Datastore(ctx, "/DC0/datastore/LocalDS_0")
	if err != nil {
		return "", err
	}
	c, err := cns.NewClient(ctx, v.client.Client)
	if err != nil {
		return "", err
	}
	task, err := c.CreateVolume(ctx, []cnstypes.CnsVolumeCreateSpec{{
		Name: fmt.Sprint("pvc-", v.last.Add(1)), VolumeType: string(cnstypes.CnsVolumeTypeBlock), Datastores: []types.ManagedObjectReference{store.Reference()},
		BackingObjectDetails: &cnstypes.CnsBlockBackingDetails{CnsBackingObjectDetails: cnstypes.CnsBackingObjectDetails{CapacityInMb: 1}},
	}})
	if err != nil {
		return "", err
	}
	info, err := task.WaitForResult(ctx, nil)
	if err != nil {
		return "", err
	}
	made, ok := info.Result.(cnstypes.CnsVolumeOperationBatchResult)
	if !ok || len(made.VolumeResults) != 1 {
		return "", fmt.Errorf("%T is no volume that was made", info.Result)
	}
	return made.VolumeResults[0].GetCnsVolumeOperationResult().VolumeId.Id, nil
}

// DeleteVolume removes a volume, if there is one.
func (v *VCenter) DeleteVolume(ctx context.Context, id string) error {
	c, err := cns.NewClient(ctx, v.client.Client)
	if err != nil {
		return err
	}
	task, err := c.DeleteVolume(ctx, []cnstypes.CnsVolumeId{{Id: id}}, true)
	if err != nil {
		return err
	}
	_ = task.Wait(ctx) // it may be gone
	return nil
}
