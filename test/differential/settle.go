package differential

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Observer sees from the outside what a manager does.
type Observer struct {
	Client kubernetes.Interface
	// Calls is how many calls have changed the cloud, and how many calls of any kind it has not answered.
	Calls func() (all, open int)
	// Busy says what in the cloud is still changing, "" for nothing; may be nil.
	Busy func(ctx context.Context) (string, error)
	// Look is a text that changes whenever something else happens that is to be waited for; may be nil.
	Look func(ctx context.Context) (string, error)
	// Quiet is how long nothing may happen in the end: longer than the manager's pauses between
	// two looks at what it waits for.
	Quiet time.Duration
	// Failures is how often a Service must have failed until it counts as settled, 1 at least: an
	// attempt may go on where the one before has failed.
	Failures int
}

// Outcomes are how often a Service was worked on to the end, by its events.
type Outcomes struct {
	Done, Failed int
	// LastFailed says that the event written last is one of a failure.
	LastFailed bool
	// last is the resource version of that event.
	last uint64
}

// Mark is what was seen of each Service at a moment.
type Mark map[types.NamespacedName]Outcomes

// done and failed are the reasons of the framework's events that end an attempt.
var (
	done   = []string{"EnsuredLoadBalancer", "UpdatedLoadBalancer", "DeletedLoadBalancer"}
	failed = []string{"SyncLoadBalancerFailed", "UpdateLoadBalancerFailed", "DeleteLoadBalancerFailed"}
)

// Mark notes how far the manager is, before something changes.
func (o *Observer) Mark(ctx context.Context) (Mark, error) {
	events, err := o.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	m := Mark{}
	for _, e := range events.Items {
		if e.InvolvedObject.Kind != "Service" {
			continue
		}
		key := types.NamespacedName{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}
		version, err := strconv.ParseUint(e.ResourceVersion, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("resource version of event %s/%s: %w", e.Namespace, e.Name, err)
		}
		m[key] = m[key].with(e.Reason, max(int(e.Count), 1), version)
	}
	return m, nil
}

// with adds an event that was seen so often, and was written last at the resource version.
func (o Outcomes) with(reason string, times int, version uint64) Outcomes {
	isFailure := slices.Contains(failed, reason)
	switch {
	case isFailure:
		o.Failed += times
	case slices.Contains(done, reason):
		o.Done += times
	default:
		return o
	}
	if version > o.last {
		o.last, o.LastFailed = version, isFailure
	}
	return o
}

// Settled waits until each of the Services has been worked on to its end since the mark, and the
// manager then neither changes the cloud nor writes a Service for the time of Quiet.
func (o *Observer) Settled(ctx context.Context, since Mark, services []types.NamespacedName) error {
	var last string
	quietSince := time.Now()
	for {
		now, missing, err := o.look(ctx, since, services)
		if err == nil && missing == "" && now == last && time.Since(quietSince) >= o.Quiet {
			return nil
		}
		if now != last || missing != "" {
			last, quietSince = now, time.Now()
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not settled: %s", missing), err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// look returns a text that changes whenever something happens, and what is not done yet.
func (o *Observer) look(ctx context.Context, since Mark, services []types.NamespacedName) (now, missing string, err error) {
	mark, err := o.Mark(ctx)
	if err != nil {
		return "", "", err
	}
	list, err := o.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", "", fmt.Errorf("list Services: %w", err)
	}
	var versions, waits []string
	for _, s := range list.Items {
		versions = append(versions, s.Namespace+"/"+s.Name+"@"+s.ResourceVersion)
	}
	for _, key := range services {
		is, was := mark[key], since[key]
		if is.Done == was.Done && is.Failed < was.Failed+max(o.Failures, 1) {
			waits = append(waits, key.String())
		}
	}
	all, open := o.Calls()
	if open > 0 {
		waits = append(waits, fmt.Sprintf("%d calls of the cloud", open))
	}
	if o.Busy != nil && len(waits) == 0 { // asked last: a real cloud has enough to do
		busy, err := o.Busy(ctx)
		if err != nil {
			return "", "", err
		}
		if busy != "" {
			waits = append(waits, busy)
		}
	}
	seen := ""
	if o.Look != nil {
		if seen, err = o.Look(ctx); err != nil {
			return "", "", err
		}
	}
	return fmt.Sprint(all, " ", strings.Join(versions, " "), " ", seen), strings.Join(waits, ", "), nil
}

// Expects says whether a manager that serves Services without a class is to be waited for.
func Expects(s *corev1.Service) bool { return s.Spec.LoadBalancerClass == nil }
