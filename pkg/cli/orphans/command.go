package orphans

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/metadata"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

type options struct {
	access           access.Flags
	output           string
	delete           bool
	yes, notRestored bool
	sameCluster      bool
	timeout          time.Duration
	// isTerminal says whether somebody can answer.
	isTerminal func(io.Reader) bool
	// gap and skew are those of history.
	gap, skew time.Duration
}

const long = `orphans lists what carries this cluster's own mark in the cloud, and whose Service the API server does not
know: what was left when a Service went while no controller manager ran, or lost its finalizer. Another
cluster's objects are never among them, nor what only has a name like ours.

With --delete it asks about each one, reads its mark and looks for its Service once more, and deletes it
with all that is on it. It refuses what was made at a time that the API server does not remember, as
after it was restored from a backup: those load balancers may serve. It refuses what carries no UID of the
API server's cluster, too. Without --delete it changes nothing.

The exit code is 0, 1 where something stays that was to be deleted, and 2 where the question could not be
answered.`

const example = `  # What is left over
  isthmus orphans --cloud-provider=openstack --cloud-config=/etc/isthmus/cloud.conf

  # Be asked about each one
  isthmus orphans --delete --cloud-provider=openstack --cloud-config=/etc/isthmus/cloud.conf`

// Command returns the command.
func Command() *cobra.Command {
	return command(&options{isTerminal: isTerminal, gap: shortestGap, skew: skew})
}

func command(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "orphans",
		Short:   "List, or delete, what the cluster has left in its cloud",
		Long:    long,
		Example: example,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	o.access.AddTo(fs)
	o.access.AddClusterNameTo(fs)
	output.AddFlag(fs, &o.output)
	fs.BoolVar(&o.delete, "delete", false, "delete them, after a question about each one")
	fs.BoolVar(&o.yes, "yes", false, "answer all questions of --delete with yes")
	fs.BoolVar(&o.notRestored, "not-restored", false, "you know that the API server was not restored from a backup: with --delete, do not look whether it remembers the time at which an orphan was made")
	fs.BoolVar(&o.sameCluster, "same-cluster", false, "you know that the API server is that of the cluster whose ID the cloud's configuration says: with --delete, what carries that ID needs no UID of the cluster")
	fs.DurationVar(&o.timeout, "delete-timeout", 5*time.Minute, "with --delete, how long to wait until one is gone")
	return cmd
}

// isTerminal reports whether somebody may sit there.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && discardTyped(f) == nil
}

func (o *options) validate(stdin io.Reader) error {
	errs := []error{o.access.Validate(), output.Validate(o.output)}
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("--delete-timeout %s: it must be greater than 0", o.timeout))
	}
	switch {
	case !o.delete && (o.yes || o.notRestored || o.sameCluster):
		errs = append(errs, errors.New("--yes, --not-restored and --same-cluster are of use with --delete only"))
	case o.delete && !o.yes && !o.isTerminal(stdin):
		errs = append(errs, errors.New("--delete asks about each orphan, and there is no terminal: call it in one, or with --yes"))
	}
	return errors.Join(errs...)
}

func (o *options) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := o.validate(stdin); err != nil {
		return err
	}
	client, config, err := o.access.Client(ctx)
	if err != nil {
		return err
	}
	o.access.ChangeCloud = o.delete
	p, _, err := o.access.Cloud(ctx, client)
	if err != nil {
		return err
	}
	defer p.Close()
	if p.Inventory == nil {
		return fmt.Errorf("cloud %s: what is a cluster's own there is not known with this configuration: load balancers may be off in cloud.conf", p.Name)
	}
	cluster, err := o.access.Cluster(ctx, client, p)
	if err != nil {
		return err
	}
	all, err := find(ctx, client, p.Inventory, cluster)
	if err != nil {
		return err
	}
	stays := false
	if o.delete && len(all) > 0 {
		r := &remover{client: client, inventory: p.Inventory, cluster: cluster, sameCluster: o.sameCluster, told: stderr, timeout: o.timeout}
		if !o.yes {
			r.ask(stdin)
		}
		if !o.notRestored {
			written, err := metadata.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("kubeconfig: %w", err)
			}
			if r.history, err = (&history{gap: o.gap, skew: o.skew}).read(ctx, client, written); err != nil {
				return err
			}
		}
		stays = r.run(ctx, all)
	}
	if _, nothing := p.Inventory.(cloud.MakesNothing); nothing && o.output != output.JSON {
		_, err = fmt.Fprintf(stdout, "nothing is made for a cluster in cloud %s: there are no orphans\n", p.Name)
	} else {
		err = write(stdout, o.output, cluster, all)
	}
	if err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	if stays {
		return output.Exit(1)
	}
	return nil
}

func write(w io.Writer, format string, cluster cloud.Cluster, all []*orphan) error {
	if format == output.JSON {
		if all == nil {
			all = []*orphan{} // not null
		}
		return output.Encode(w, struct {
			Cluster string    `json:"clusterUID"`
			Orphans []*orphan `json:"orphans"`
		}{cluster.UID, all})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(w, "nothing in the cloud that is marked as cluster %s's lacks its owner\n", cluster.UID)
		return err
	}
	t := output.NewTable(w)
	t.Row("KIND", "ID", "NAME", "SERVICE", "CREATED", "STATE", "ADDRESSES", "OUTCOME")
	for _, o := range all {
		created := "unknown"
		if o.Created != nil {
			created = o.Created.UTC().Format(time.RFC3339)
		}
		t.Row(o.Kind, o.ID, o.Name, o.Service, created, o.State, strings.Join(o.Addresses, ","), string(o.Outcome))
	}
	return t.Flush()
}
