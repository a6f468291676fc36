package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	ccmstatus "github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
)

// The values of report.Source.
const (
	fromLeader  = "leader"
	fromCluster = "cluster"
)

// report is what is known at one time.
type report struct {
	Time time.Time `json:"time"`
	// Source is where Status comes from: the leader's page, or reads of the API server.
	Source string `json:"source,omitempty"`
	// NotAsked says why it is not the leader's.
	NotAsked string `json:"leaderNotAsked,omitempty"`
	// Leader is who leads, in words.
	Leader string `json:"leader,omitempty"`
	// Unknown names the fields of Status that only the leader could fill.
	Unknown []string            `json:"unknown,omitempty"`
	Status  *ccmstatus.Snapshot `json:"status,omitempty"`
	// Problem says why nothing is known, in place of all the others.
	Problem string `json:"problem,omitempty"`
}

// leaseFlags name the lease of the leader.
type leaseFlags struct{ namespace, name string }

func (f *leaseFlags) addTo(fs *pflag.FlagSet) {
	fs.StringVar(&f.name, "leader-elect-resource-name", "cloud-controller-manager", "the lease of the leader, as the controller manager has it by its flag of this name")
	fs.StringVar(&f.namespace, "leader-elect-resource-namespace", metav1.NamespaceSystem, "the lease's namespace, as the controller manager has it by its flag of this name")
}

func (f *leaseFlags) validate() error {
	if f.name == "" || f.namespace == "" {
		return errors.New("--leader-elect-resource-name and --leader-elect-resource-namespace must not be empty")
	}
	return nil
}

// reader knows where the status may come from.
type reader struct {
	client kubernetes.Interface
	// leader and forwarder are how the leader is asked, one of them at most; both nil where it is not to be.
	leader    *leader
	forwarder *forwarder
	lease     leaseFlags
	now       func() time.Time
}

// read asks the leader, and where that does not answer the API server.
func (r *reader) read(ctx context.Context) (*report, error) {
	out := &report{Time: r.now().UTC(), Source: fromCluster}
	holder := sync.OnceValues(func() (identity, words string) { return r.holder(ctx) }) // read where it is needed, and once
	s, err := r.ask(ctx, holder)
	if err == nil {
		out.Source, out.Leader, out.Status = fromLeader, s.Leader, s
		return out, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out.NotAsked = err.Error()
	source, err := r.cluster(ctx)
	if err != nil {
		return nil, err
	}
	identity, words := holder()
	out.Leader = words
	source.Leader = func() (string, bool) { return identity, false }
	taken := source.Take()
	out.Status, out.Unknown = &taken, []string{"volumes", "queues", "traffic", "webhooks", "metrics", "errors"}
	if !source.Routes {
		out.Unknown = append(out.Unknown, "routes")
	}
	return out, nil
}

// ask returns what the leader knows. An error says why it is not known.
func (r *reader) ask(ctx context.Context, holder func() (identity, words string)) (*ccmstatus.Snapshot, error) {
	switch {
	case r.leader != nil:
		return r.leader.ask(ctx)
	case r.forwarder == nil:
		return nil, errors.New("--" + accountFlag + " is empty, and no --leader-url is given")
	}
	identity, words := holder()
	if identity == "" {
		return nil, errors.New(words)
	}
	return r.forwarder.ask(ctx, identity)
}

// cluster reads what the API server knows. Routes are known where the route controller has written of one Node at least: whether the
// controller manager makes them is not in the API.
func (r *reader) cluster(ctx context.Context) (*ccmstatus.Source, error) {
	index := func() cache.Indexer { return cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil) }
	nodes, services := index(), index()
	out := &ccmstatus.Source{Now: r.now, Nodes: corelisters.NewNodeLister(nodes), Services: corelisters.NewServiceLister(services)}
	err := access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := r.client.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			n := &list.Items[i]
			if _, ok := ccmstatus.RouteCondition(n); ok {
				out.Routes = true
			}
			if err := nodes.Add(n); err != nil {
				return nil, err
			}
		}
		return list, nil
	})
	if err != nil {
		return nil, access.Failed(ctx, r.client, "list Nodes", err)
	}
	err = access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := r.client.CoreV1().Services("").List(ctx, o)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if s := &list.Items[i]; s.Spec.Type == corev1.ServiceTypeLoadBalancer {
				if err := services.Add(s); err != nil {
					return nil, err
				}
			}
		}
		return list, nil
	})
	if err != nil {
		return nil, access.Failed(ctx, r.client, "list Services", err)
	}
	return out, nil
}

// holder is who leads by the lease, and that in words.
func (r *reader) holder(ctx context.Context) (identity, words string) {
	name := r.lease.namespace + "/" + r.lease.name
	l, err := r.client.CoordinationV1().Leases(r.lease.namespace).Get(ctx, r.lease.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", "nobody: there is no lease " + name
	case err != nil:
		return "", "not known: read lease " + name + ": " + err.Error()
	case l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "":
		return "", "nobody: lease " + name + " has no holder"
	case l.Spec.RenewTime == nil:
		return *l.Spec.HolderIdentity, *l.Spec.HolderIdentity
	}
	identity = *l.Spec.HolderIdentity
	var seconds int32
	if l.Spec.LeaseDurationSeconds != nil {
		seconds = *l.Spec.LeaseDurationSeconds
	}
	age := max(0, r.now().Sub(l.Spec.RenewTime.Time)).Truncate(time.Second)
	if age > time.Duration(cmp.Or(seconds, 15))*time.Second {
		return "", fmt.Sprintf("nobody: %s has renewed lease %s last %s ago, by this machine's clock", identity, name, age)
	}
	return identity, fmt.Sprintf("%s, renewed %s ago", identity, age)
}
