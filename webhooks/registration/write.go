package registration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// errKept: the API server keeps something else than it was given.
var errKept = errors.New("the API server keeps it otherwise than it was written: is its version older than 1.30, or does something in it rewrite webhook configurations")

// apply makes the configuration live, nil for none, what is wanted, with the stamp, and
// returns it. Field values of other writers are overridden; what others have added is taken
// away. When somebody has changed it since it was read, nothing is written and the error is a
// conflict: wanted may be of what it was before.
func apply(ctx context.Context, a api, wanted, live *configuration, s stamp) (*configuration, error) {
	wanted = wanted.DeepCopy()
	kept := func(now *configuration) bool {
		if stampOf(now) != s || injected(wanted) {
			return stampOf(now) == s
		}
		_, ok := standingCAs(now)
		return ok && now.Annotations[caAnnotation] == wanted.Annotations[caAnnotation]
	}
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, stampAnnotation, s.String())
	force := true
	write := func() (*configuration, error) {
		if live != nil {
			wanted.ResourceVersion = live.ResourceVersion
		}
		data, err := json.Marshal(a.own(wanted))
		if err != nil {
			return nil, fmt.Errorf("encode: %w", err)
		}
		return a.patch(ctx, Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: FieldManager, Force: &force})
	}
	now, err := write()
	if apierrors.IsInvalid(err) && live != nil {
		// What others own beside our fields does not go with them: a Service beside our URL.
		if live, err = replace(ctx, a, wanted, live); err == nil {
			now, err = write()
		}
	}
	if err == nil && !kept(now) {
		// What others own is more than we want: webhooks, conditions, cert-manager's annotation.
		now, err = replace(ctx, a, wanted, now)
	}
	if err != nil {
		return nil, explain("apply", wanted.Kind, err)
	}
	if !kept(now) {
		return now, fmt.Errorf("%s %s: %w", wanted.Kind, Name, errKept)
	}
	return now, nil
}

// replace writes live with wanted's webhooks, whoever owns what.
func replace(ctx context.Context, a api, wanted, live *configuration) (*configuration, error) {
	out := live.DeepCopy()
	if !injected(wanted) {
		delete(out.Annotations, injectAnnotation)
	}
	out.Webhooks = wanted.Webhooks
	return a.update(ctx, out, metav1.UpdateOptions{FieldManager: FieldManager})
}

// remove removes the configuration live, which must be ours. It first puts an empty one in
// its place, from which replicas that still keep it learn that they are no longer to.
func remove(ctx context.Context, a api, empty, live *configuration) error {
	if s := parseStamp(live.Annotations[stampAnnotation]); s != (stamp{}) && len(live.Webhooks) > 0 {
		s.number++
		s.fingerprint = fingerprint(empty)
		var err error
		if live, err = apply(ctx, a, trusting(empty, nil, nil), live, s); err != nil && !errors.Is(err, errKept) {
			return err
		}
	}
	uid := live.UID
	err := a.delete(ctx, Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return explain("delete", empty.Kind, err)
}

// rule is what RBAC must allow.
const rule = `{apiGroups: [admissionregistration.k8s.io], resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations], ` +
	`resourceNames: [` + Name + `], verbs: [create, get, list, watch, patch, update, delete]}`

// explain names the operation and, where the API server forbids it, what to do.
func explain(operation, kind string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s %s %s: %w; apply manifests/components/webhook-auto, or give the ServiceAccount a ClusterRole with the rule %s", operation, kind, Name, err, rule)
	}
	return fmt.Errorf("%s %s %s: %w", operation, kind, Name, err)
}
