package orphans

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// orphan is an object in the cloud without an owner.
type orphan struct {
	Kind      string     `json:"kind"`
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	State     string     `json:"state,omitempty"`
	Service   string     `json:"service"`
	Users     []string   `json:"users,omitempty"`
	Created   *time.Time `json:"created,omitempty"`
	Addresses []string   `json:"addresses,omitempty"`
	// Kept says why --delete leaves it; empty where it may go.
	Kept string `json:"kept,omitempty"`
	// Outcome is what --delete did.
	Outcome outcome `json:"outcome,omitempty"`

	owned cloud.Owned
}

type outcome string

const (
	deleted outcome = "deleted"
	refused outcome = "refused"
	kept    outcome = "kept"
	failed  outcome = "failed"
)

// find compares the cloud with the API server. The cloud is read first: a Service is always there before what is made for it, so
// that one which comes meanwhile is seen.
func find(ctx context.Context, client kubernetes.Interface, inventory cloud.Inventory, cluster cloud.Cluster) ([]*orphan, error) {
	all, err := inventory.Owned(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("list what the cluster has in the cloud: %w", err)
	}
	known, err := readServices(ctx, client)
	if err != nil {
		return nil, err
	}
	var out []*orphan
	for _, x := range all {
		if known.own(&x) {
			continue
		}
		n := &orphan{Kind: x.Kind, ID: x.ID, Name: x.Name, State: x.State, Service: x.Mark.Service, Users: x.Users, Addresses: x.Addresses, owned: x}
		if !x.Created.IsZero() {
			n.Created = &x.Created
		}
		if x.Mark.Service == "" && x.Mark.ServiceUID == "" {
			n.Kept = "it does not tell which Service it was made for: look at it in the cloud"
		}
		out = append(out, n)
	}
	return out, nil
}

// services are those that the API server knows, by namespace and name, and by UID.
type services map[string]bool

// ofAPIServer is a Service that each API server makes, and makes again. A list without it is not all: a proxy may show tenants their own
// objects only.
const ofAPIServer = metav1.NamespaceDefault + "/kubernetes"

func readServices(ctx context.Context, client kubernetes.Interface) (services, error) {
	known := services{}
	err := access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := client.CoreV1().Services("").List(ctx, o)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			s := &list.Items[i]
			known[s.Namespace+"/"+s.Name], known[string(s.UID)] = true, true
		}
		return list, nil
	})
	if err != nil {
		return nil, access.Failed(ctx, client, "list Services, which own what is in the cloud", err)
	}
	if !known[ofAPIServer] {
		return nil, &access.Problem{What: "list Services, which own what is in the cloud: Service " + ofAPIServer + ", which each API server has, is not among them, so the list is not all",
			Next: "look whether the kubeconfig leads to the API server itself, and not to a proxy that shows a part of its objects"}
	}
	return known, nil
}

// own reports whether one of the Services is an owner of an object.
func (s services) own(x *cloud.Owned) bool {
	return s[x.Mark.Service] || s[x.Mark.ServiceUID] || slices.ContainsFunc(x.Users, func(u string) bool { return s[u] })
}
