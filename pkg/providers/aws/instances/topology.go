package instances

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
)

const (
	// muteFor is how long is not asked again what AWS does not know or does not tell.
	muteFor = 24 * time.Hour
	// topologyPatience is how long after its launch an instance of a type that has a topology waits for one that cannot be read.
	// Labels are set when a Node is initialized, and not again; but a Node must not wait for ever.
	topologyPatience = 10 * time.Minute
	// maxRemembered bounds how many instances are remembered.
	maxRemembered = 50_000
)

// topology reads where instances are in the network, many with a call, each once: it does not change while an instance runs.
//
// AWS knows it of few types. Those that are known to have it are all asked about. Of each other type one instance is asked
// about, and only if it has a topology the rest.
type topology struct {
	// read reads what is above instances, at most api.MaxTopologyIDs.
	read func(ctx context.Context, ids []string) (map[string][]string, error)
	// known reports whether a type has a topology for sure.
	known func(instanceType string) bool

	mu         sync.Mutex
	above      map[string][]string  // by instance
	has        map[string]bool      // whether a type that was tried has one
	mutedUntil map[string]time.Time // by instance, by type, "" for all
}

// layers are what is above instances in the network, the farthest first, by their IDs. failed are those that must wait, as
// it could not be read.
func (t *topology) layers(ctx context.Context, byID map[string]*api.Instance) (layers map[string][]string, failed map[string]error) {
	failed = map[string]error{}
	// Twice, as what the first of a type says decides about the rest.
	for range 2 {
		ask := t.open(byID, time.Now())
		for chunk := range slices.Chunk(ask, api.MaxTopologyIDs) {
			nodes, err := t.read(ctx, chunk)
			if err == nil {
				t.note(byID, chunk, nodes)
				continue
			}
			if t.denied(ctx, err) {
				return t.of(byID), nil
			}
			klog.FromContext(ctx).V(2).Info("The network topology of instances could not be read", "instances", len(chunk), "reason", err.Error())
			layers = t.of(byID)
			for _, id := range ask {
				if f := byID[id]; layers[id] == nil && t.known(string(f.InstanceType)) && time.Since(aws.ToTime(f.LaunchTime)) < topologyPatience {
					failed[id] = err
				}
			}
			return layers, failed
		}
	}
	return t.of(byID), failed
}

// of are the layers that are known.
func (t *topology) of(byID map[string]*api.Instance) map[string][]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string][]string{}
	for id := range byID {
		if nodes, ok := t.above[id]; ok {
			out[id] = nodes
		}
	}
	return out
}

// open are the instances that are to be asked about, those of known types first.
func (t *topology) open(byID map[string]*api.Instance, now time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	muted := func(what string) bool { return now.Before(t.mutedUntil[what]) }
	if muted("") {
		return nil
	}
	var sure, try []string
	tried := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		f := byID[id]
		typ := string(f.InstanceType)
		_, done := t.above[id]
		switch {
		case done, typ == "", muted(id), stateOf(f) != types.InstanceStateNameRunning: // none other has one
		case t.known(typ), t.has[typ]:
			sure = append(sure, id)
		case !muted(typ) && !tried[typ]:
			tried[typ] = true
			try = append(try, id)
		}
	}
	return append(sure, try...)
}

// note takes an answer over.
func (t *topology) note(byID map[string]*api.Instance, asked []string, nodes map[string][]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.above == nil || len(t.above)+len(t.mutedUntil) > maxRemembered {
		t.above, t.has, t.mutedUntil = map[string][]string{}, map[string]bool{}, map[string]time.Time{}
	}
	until := time.Now().Add(muteFor)
	for _, id := range asked {
		typ := string(byID[id].InstanceType)
		switch {
		case len(nodes[id]) > 0:
			t.above[id], t.has[typ] = nodes[id], true
		case t.known(typ), t.has[typ]:
			t.mutedUntil[id] = until
		default:
			t.mutedUntil[typ] = until
		}
	}
}

// denied reports whether an error says that the topology is not told here, or not to us; then it is not asked for a while.
func (t *topology) denied(ctx context.Context, err error) bool {
	kind := cloud.KindOf(err)
	if kind != cloud.KindUnsupported && kind != cloud.KindDenied {
		return false
	}
	klog.FromContext(ctx).Info("Nodes get no labels of the network topology", "label", labelLayer+"1", "tryAgainIn", muteFor, "reason", err.Error())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mutedUntil == nil {
		t.mutedUntil = map[string]time.Time{}
	}
	t.mutedUntil[""] = time.Now().Add(muteFor)
	return true
}
