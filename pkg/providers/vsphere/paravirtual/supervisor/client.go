package supervisor

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
)

// requestTimeout bounds a request where the process sets no bound.
const requestTimeout = 30 * time.Second

// Resource is a kind of objects of the Supervisor.
type Resource struct {
	Group, Version, Kind, Plural string
}

func (r Resource) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}
}

// Client reads and writes the objects of the guest cluster's namespace. All errors are *cloud.Error; of them KindNotFound is the
// Supervisor's own word about the object that was asked for, and never about a namespace or an API that is missing. It may be used
// concurrently.
type Client struct {
	dynamic   dynamic.Interface
	namespace string
	owner     metav1.OwnerReference
	place     string
	tokenFile string
}

// New makes a Client. It reads the files that cfg names, the token's anew as it changes, and does not call the Supervisor.
func New(ctx context.Context, cfg *config.Supervisor, o cloud.Options) (*Client, error) {
	at := func(name string) string { return filepath.Join(cfg.CredentialsDirectory, name) }
	namespace, err := os.ReadFile(at("namespace"))
	if err != nil {
		return nil, fmt.Errorf("the guest cluster's namespace in the Supervisor: %w", err)
	}
	c := &Client{namespace: strings.TrimSpace(string(namespace)), tokenFile: at("token")}
	if c.namespace == "" {
		return nil, fmt.Errorf("the guest cluster's namespace in the Supervisor: %s is empty", at("namespace"))
	}
	if _, err := os.ReadFile(at("token")); err != nil {
		return nil, fmt.Errorf("the token for the Supervisor: %w", err)
	}
	ca, err := os.ReadFile(at("ca.crt"))
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		err = fmt.Errorf("%s has none in PEM", at("ca.crt"))
	}
	if err != nil {
		return nil, fmt.Errorf("the authorities for the Supervisor's certificate: %w", err)
	}
	if c.owner, err = readOwner(cfg.OwnerReferenceFile); err != nil {
		return nil, err
	}
	c.place = "Supervisor " + strings.TrimPrefix(cfg.Server, "https://")
	timeout := o.RequestTimeout
	if timeout == 0 {
		timeout = requestTimeout
	}
	to := &rest.Config{Host: cfg.Server, BearerTokenFile: at("token"), TLSClientConfig: rest.TLSClientConfig{CAFile: at("ca.crt")},
		UserAgent: o.UserAgent, Timeout: timeout, QPS: -1, WarningHandler: rest.NoWarnings{}}
	to.Wrap(newTransport(o, c.place, klog.FromContext(ctx)))
	if c.dynamic, err = dynamic.NewForConfig(to); err != nil {
		return nil, fmt.Errorf("reach the Supervisor: %w", err)
	}
	return c, nil
}

// readOwner reads the reference to the guest cluster's object.
func readOwner(file string) (owner metav1.OwnerReference, err error) {
	data, err := os.ReadFile(filepath.Clean(file))
	if err == nil {
		err = json.Unmarshal(data, &owner)
	}
	switch {
	case err != nil:
		return owner, fmt.Errorf("the guest cluster's owner reference: %w", err)
	case owner.UID == "" || owner.Name == "" || owner.Kind == "" || owner.APIVersion == "":
		return owner, fmt.Errorf("the guest cluster's owner reference: %s lacks apiVersion, kind, name or uid, of which all are needed", file)
	}
	return owner, nil
}

// Place names the namespace and where it is.
func (c *Client) Place() string { return c.place + ", namespace " + c.namespace }

// Name says which object of the namespace is meant.
func (c *Client) Name(r Resource, name string) string {
	return r.Kind + " " + c.namespace + "/" + name
}

// Owner is the reference to the guest cluster's object, by whose UID cluster.ID is meant.
func (c *Client) Owner() metav1.OwnerReference { return c.owner }

// ClusterOf is the UID of the cluster that an object belongs to, by its owner references: the guest cluster's own, or else that of
// another object of the same kind; "" where there is none.
func (c *Client) ClusterOf(owners []metav1.OwnerReference) (uid string) {
	for _, o := range owners {
		if o.UID == c.owner.UID {
			return string(o.UID)
		}
		if groupOf(o.APIVersion) == groupOf(c.owner.APIVersion) && o.Kind == c.owner.Kind && uid == "" {
			uid = string(o.UID)
		}
	}
	return uid
}

func groupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, r Resource, name string) (*unstructured.Unstructured, error) {
	obj, err := c.dynamic.Resource(r.gvr()).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
	return obj, c.failed("get", r, name, err)
}

// List reads all objects with the labels, as they are now, in one request; no labels are all.
func (c *Client) List(ctx context.Context, r Resource, with map[string]string) ([]unstructured.Unstructured, error) {
	all, err := c.dynamic.Resource(r.gvr()).Namespace(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(with).String()})
	if err != nil {
		return nil, c.failed("list", r, "", err)
	}
	return all.Items, nil
}

// Check asks whether objects may be listed.
func (c *Client) Check(ctx context.Context, r Resource) error {
	_, err := c.dynamic.Resource(r.gvr()).Namespace(c.namespace).List(ctx, metav1.ListOptions{Limit: 1})
	return c.failed("list", r, "", err)
}

// Create makes an object, whose kind and namespace it fills in. An unknown field is an error. One that is there already is KindStale.
func (c *Client) Create(ctx context.Context, r Resource, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind})
	obj.SetNamespace(c.namespace)
	made, err := c.dynamic.Resource(r.gvr()).Namespace(c.namespace).Create(ctx, obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return made, c.failed("create", r, obj.GetName(), err)
}

// Update writes an object that was read and changed; KindStale where somebody else has changed it since.
func (c *Client) Update(ctx context.Context, r Resource, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	now, err := c.dynamic.Resource(r.gvr()).Namespace(c.namespace).Update(ctx, obj, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	return now, c.failed("update", r, obj.GetName(), err)
}

// Delete deletes the very object that was read: another one of its name is KindStale.
func (c *Client) Delete(ctx context.Context, r Resource, obj *unstructured.Unstructured) error {
	uid := obj.GetUID()
	err := c.dynamic.Resource(r.gvr()).Namespace(c.namespace).Delete(ctx, obj.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	return c.failed("delete", r, obj.GetName(), err)
}

// Decode reads of an object what into, a pointer to a struct with tags of JSON, has fields for.
func Decode(obj *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return cloud.Errorf(cloud.KindUnknown, "%s %s/%s is of another shape than expected: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
	}
	return nil
}
