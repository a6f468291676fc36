package orphans

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// remover deletes orphans, one after the other.
type remover struct {
	client    kubernetes.Interface
	inventory cloud.Inventory
	cluster   cloud.Cluster
	// history is nil where the user vouches for the API server.
	history *history
	// sameCluster says that the user vouches for that the API server is that of the cluster whose ID the cloud's configuration says.
	sameCluster bool
	// answers are the user's; nil where all questions are answered with yes.
	answers *bufio.Reader
	// discard forgets what was typed so far; nil where the answers are no terminal's.
	discard func() error
	told    io.Writer
	timeout time.Duration
}

// ask has the user answer.
func (r *remover) ask(stdin io.Reader) {
	r.answers = bufio.NewReader(stdin)
	if f, ok := stdin.(*os.File); ok {
		r.discard = func() error {
			_, _ = r.answers.Discard(r.answers.Buffered())
			return discardTyped(f)
		}
	}
}

// run asks about each orphan and deletes those that may go. It reports whether one stays that was to go.
func (r *remover) run(ctx context.Context, all []*orphan) (stays bool) {
	for _, o := range all {
		r.doubt(o)
		switch {
		case o.Kept != "":
			o.Outcome = refused
		case ctx.Err() != nil || !r.agreed(ctx, o):
			o.Outcome = kept
		default:
			r.delete(ctx, o)
		}
		if o.Outcome != kept {
			_, _ = fmt.Fprintf(r.told, "%s: %s\n", o, strings.TrimSuffix(string(o.Outcome)+": "+output.Line(o.Kept), ": "))
		}
		stays = stays || o.Outcome == refused || o.Outcome == failed
	}
	return stays || ctx.Err() != nil
}

// doubt sets why an orphan may have an owner that the API server does not know.
func (r *remover) doubt(o *orphan) {
	if o.Kept == "" && r.history != nil {
		o.Kept = r.history.doubt(o.owned.Created)
	}
	if o.Kept == "" && o.owned.Mark.ClusterUID == "" && !r.sameCluster {
		o.Kept = "it does not carry the UID of this API server's cluster, only the ID that the cloud's configuration says: see --same-cluster"
	}
}

// String names the orphan for the user.
func (o *orphan) String() string { return output.Line(fmt.Sprintf("%s %s (%s)", o.Kind, o.Name, o.ID)) }

// agreed asks the user. No answer is a no, and so is the end of ctx. What was typed before the question answers none: it was about
// something else.
func (r *remover) agreed(ctx context.Context, o *orphan) bool {
	if r.answers == nil {
		return true
	}
	if r.discard != nil {
		if err := r.discard(); err != nil {
			_, _ = fmt.Fprintf(r.told, "%s is not asked about: forget what was typed before: %v\n", o, err)
			return false
		}
	}
	_, _ = fmt.Fprintf(r.told, "Delete %s of Service %s, with all that is on it? [y/N] ", o, output.Line(o.Service))
	answers := make(chan string, 1)
	go func() { // nothing ends a read of a terminal but the process
		answer, err := r.answers.ReadString('\n')
		if err != nil {
			answer = ""
		}
		answers <- answer
	}()
	answer := ""
	select {
	case answer = <-answers:
	case <-ctx.Done():
	}
	if answer == "" || ctx.Err() != nil {
		_, _ = fmt.Fprintln(r.told)
		return false
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// delete deletes one, unless its Service has come meanwhile.
func (r *remover) delete(ctx context.Context, o *orphan) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("it is not gone after %s (--delete-timeout): call again to go on", r.timeout))
	defer cancel()
	if err := r.attempt(ctx, o); err != nil {
		o.Outcome = failed
		if errors.Is(err, errOwned) || cloud.KindOf(err) == cloud.KindConflict {
			o.Outcome = refused
		}
		o.Kept = err.Error()
		return
	}
	o.Outcome = deleted
}

var errOwned = errors.New("a Service of that name has come meanwhile")

// attempt repeats what is to be called again until the orphan is gone.
func (r *remover) attempt(ctx context.Context, o *orphan) error {
	for {
		if err := r.unowned(ctx, o); err != nil {
			return err
		}
		err := r.inventory.Remove(ctx, r.cluster, o.owned)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		var e *cloud.Error
		if !errors.As(err, &e) || e.Kind != cloud.KindRetryAfter && e.Kind != cloud.KindThrottled {
			return err
		}
		timer := time.NewTimer(max(e.RetryAfter, 100*time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		case <-timer.C:
		}
	}
}

// unowned asks the API server itself, not one of its caches, for the Services that the orphan names.
func (r *remover) unowned(ctx context.Context, o *orphan) error {
	for _, service := range append([]string{o.owned.Mark.Service}, o.owned.Users...) {
		namespace, name, ok := strings.Cut(service, "/")
		if !ok {
			continue
		}
		switch _, err := r.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}); {
		case err == nil:
			return fmt.Errorf("%w: %s", errOwned, service)
		case !isGone(err, name):
			return fmt.Errorf("look for Service %s once more: %w", service, err)
		}
	}
	return nil
}

// isGone reports whether an error is the API server's own word that there is no Service of that name: a proxy says 404, too.
func isGone(err error, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Kind == "services" && d.Name == name
}
