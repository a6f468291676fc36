package paravirtual

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"encoding/pem"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

//go:embed testdata/crds.yaml
var crds []byte

//go:embed testdata/role.yaml
var role []byte

// The kinds of objects.
var (
	Machines     = schema.GroupVersionResource{Group: "vmoperator.vmware.com", Version: "v1alpha6", Resource: "virtualmachines"}
	VMServices   = schema.GroupVersionResource{Group: "vmoperator.vmware.com", Version: "v1alpha6", Resource: "virtualmachineservices"}
	RouteSets    = schema.GroupVersionResource{Group: "nsx.vmware.com", Version: "v1alpha1", Resource: "routesets"}
	StaticRoutes = schema.GroupVersionResource{Group: "crd.nsx.vmware.com", Version: "v1alpha1", Resource: "staticroutes"}
)

// kinds are all of them.
func kinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{Machines, VMServices, RouteSets, StaticRoutes}
}

// World is a namespace of a Supervisor.
type World struct {
	// Namespace is its name, and Owner the reference to the guest cluster's object there.
	Namespace string
	Owner     metav1.OwnerReference
	// Hold keeps VM Operator and NSX from their work on what is new.
	Hold atomic.Bool

	client dynamic.Interface // with all rights
	server *httptest.Server  // stands before the API server
	refuse atomic.Int32      // the status that all requests get, 0 for none
	dir    string
	last   atomic.Int32 // of addresses
	stop   func()

	mu       sync.Mutex
	requests []string
}

// InstallCRDs makes the kinds of VM Operator and NSX known to an API server.
func InstallCRDs(ctx context.Context, plane *controlplane.ControlPlane) error {
	if err := plane.Apply(ctx, crds); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(plane.Config)
	if err != nil {
		return err
	}
	for _, kind := range kinds() { // the API server takes a moment to serve them
		if err := until(ctx, func() (bool, error) {
			_, err := client.Resource(kind).Namespace(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
			return err == nil, ignore(err, apierrors.IsNotFound)
		}); err != nil {
			return fmt.Errorf("%s: %w", kind.Resource, err)
		}
	}
	return nil
}

func ignore(err error, is func(error) bool) error {
	if is(err) {
		return nil
	}
	return err
}

// until asks again until the answer is yes, or an error.
func until(ctx context.Context, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// worlds counts them, for their names.
var worlds atomic.Int32

// New makes a namespace on an API server that has the kinds, with a service account that has the rights of testdata/role.yaml, and
// VM Operator and NSX at work in it until Close. dir is for files. The namespace's name begins with the one given: an API server may have
// had such before.
func New(ctx context.Context, plane *controlplane.ControlPlane, dir, namespace string) (*World, error) {
	w := &World{Namespace: fmt.Sprintf("%s-%d", namespace, worlds.Add(1)), dir: dir,
		Owner: metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "guest", UID: types.UID("11111111-2222-4333-8444-555555555555")}}
	var err error
	if w.client, err = dynamic.NewForConfig(plane.Config); err != nil {
		return nil, err
	}
	token, err := w.account(ctx, plane)
	if err != nil {
		return nil, err
	}
	if err := w.serve(plane.Config); err != nil {
		return nil, err
	}
	owner, err := json.Marshal(w.Owner)
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"token": token, "ca.crt": w.ca(), "namespace": w.Namespace, "denied/token": "no-token", "denied/ca.crt": w.ca(),
		"denied/namespace": w.Namespace, "ownerref.json": string(owner), "cloud.yaml": w.config(dir), "denied.yaml": w.config(filepath.Join(dir, "denied"))} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	w.work(ctx)
	return w, nil
}

// Close ends the work and the server.
func (w *World) Close() {
	w.stop()
	w.server.Close()
}

// account makes the namespace with the guest cluster's account, and returns a token of it.
func (w *World) account(ctx context.Context, plane *controlplane.ControlPlane) (string, error) {
	const name = "guest-ccm"
	if _, err := plane.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if _, err := plane.Client.CoreV1().ServiceAccounts(w.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	var r rbacv1.Role
	if err := yaml.UnmarshalStrict(role, &r); err != nil {
		return "", err
	}
	if _, err := plane.Client.RbacV1().Roles(w.Namespace).Create(ctx, &r, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.Namespace, Name: name}}}
	if _, err := plane.Client.RbacV1().RoleBindings(w.Namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	cfg, err := plane.ServiceAccountConfig(ctx, w.Namespace, name, time.Hour)
	if err != nil {
		return "", err
	}
	as, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return "", err
	}
	return cfg.BearerToken, until(ctx, func() (bool, error) { // the API server takes a moment to know the rights
		_, err := as.Resource(StaticRoutes).Namespace(w.Namespace).List(ctx, metav1.ListOptions{})
		return err == nil, ignore(err, apierrors.IsForbidden)
	})
}

// serve stands before the API server: it notes requests, and refuses them where it is told to.
func (w *World) serve(to *rest.Config) error {
	target, err := url.Parse(to.Host)
	if err != nil {
		return err
	}
	tls, err := rest.TLSConfigFor(rest.AnonymousClientConfig(to))
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}}
	w.server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/apis/"))
		w.mu.Unlock()
		if status := int(w.refuse.Load()); status != 0 {
			rw.Header().Set("Retry-After", "1")
			http.Error(rw, "no", status)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	return nil
}

func (w *World) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}))
}

func (w *World) config(credentials string) string {
	return fmt.Sprintf("supervisor:\n  server: %s\n  credentialsDirectory: %s\n  ownerReferenceFile: %s\n  vmOperatorAPIVersion: v1alpha6\ncluster:\n  clusterIPFamily: ipv4ipv6\n  routes: true\n  enableVPCMode: true\n  podIPPoolType: Private\n",
		w.server.URL, credentials, filepath.Join(w.dir, "ownerref.json"))
}

// Config writes a cloud.conf for the namespace, in which change has changed the text of the suite's, and returns its path.
func (w *World) Config(change *strings.Replacer) (string, error) {
	path := filepath.Join(w.dir, "changed.yaml")
	return path, os.WriteFile(path, []byte(change.Replace(w.config(w.dir))), 0o600)
}

// Requests returns what the guest cluster has asked for since the last call: the method and the path of each request.
func (w *World) Requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.requests
	w.requests = nil
	return out
}

// Writes are those of requests that change something.
func Writes(requests []string) []string {
	return slices.DeleteFunc(slices.Clone(requests), func(r string) bool { return strings.HasPrefix(r, "GET ") })
}

// Refuse has all requests of the guest cluster answered with a status, until undo.
func (w *World) Refuse(status int) (undo func()) {
	w.refuse.Store(int32(status)) //nolint:gosec // a status
	return func() { w.refuse.Store(0) }
}

// Objects are those of a kind in the namespace, with all rights.
func (w *World) Objects(kind schema.GroupVersionResource) dynamic.ResourceInterface {
	return w.client.Resource(kind).Namespace(w.Namespace)
}

// Setup is the namespace for the suite.
func (w *World) Setup() cloudtest.Setup {
	start := func(file string) func(cloud.Options) (*cloud.Provider, func(), error) {
		return func(o cloud.Options) (*cloud.Provider, func(), error) {
			p, _, err := paravirtual.New(context.Background(), filepath.Join(w.dir, file), o)
			return p, nil, err
		}
	}
	return cloudtest.Setup{New: start("cloud.yaml"), NewDenied: start("denied.yaml"), World: w, Unsupported: unsupported()}
}

// Throttle implements cloudtest.World.
func (w *World) Throttle() (undo func(), reason string) {
	return w.Refuse(http.StatusTooManyRequests), ""
}
