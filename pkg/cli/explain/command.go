package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
)

type options struct {
	access    access.Flags
	output    string
	timeout   time.Duration
	namespace string
	// defaultClass is --load-balancer-default-class of the controller manager.
	defaultClass bool
}

const long = `explain says what the controller manager would do for one object now, as a plan in words and in calls,
and why, and what belongs to the object in the cloud. The plan is made by the controllers' own code, which
reads the API server and the cloud with the flags' kubeconfig and cloud.conf, and changes nothing.

The exit code is 0, 1 where something does not work (a Service that is refused, a Node without an
instance), and 2 where the question could not be answered.`

const example = `  # What would be done for the Service web in the namespace shop
  isthmus explain service -n shop web --cloud-provider=openstack --cloud-config=/etc/isthmus/cloud.conf

  # Only the calls that a Service would lead to
  isthmus explain service web --cloud-provider=aws --cloud-config=cloud.conf -o json | jq '.plan.steps[].call'`

// Command returns the command, with one below it for each kind of object.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "explain",
		Short:   "Say what would be done for a Service, Node or PersistentVolume now, and why",
		Long:    long,
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		command("service", "a Service of type LoadBalancer", []string{"services", "svc"}, explainService),
		command("node", "a Node", []string{"nodes", "no"}, explainNode),
		command("pv", "a PersistentVolume", []string{"pvs", "persistentvolume", "persistentvolumes"}, explainPV),
	)
	return cmd
}

func command(kind, about string, aliases []string, explain func(context.Context, *question) error) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:     kind + " NAME",
		Aliases: aliases,
		Short:   "Say what would be done for " + about + " now, and why",
		Long:    long,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("there are %d names where one belongs: %s", len(args), cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), args[0], explain)
		},
	}
	fs := cmd.Flags()
	o.access.AddTo(fs)
	output.AddFlag(fs, &o.output)
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "bound of the whole")
	if kind == "service" {
		o.access.AddClusterNameTo(fs)
		fs.StringVarP(&o.namespace, "namespace", "n", "", "the Service's namespace; that of the kubeconfig's context where it is not given")
		fs.BoolVar(&o.defaultClass, "load-balancer-default-class", true, "whether Services without a class are served, as the controller manager has it by its flag of this name")
	}
	return cmd
}

// question is about one object.
type question struct {
	*options
	name   string
	client kubernetes.Interface
	cloud  *decorate.Provider
	// calls are those that would have changed the cloud.
	calls  *recorder
	report *report
}

func (o *options) run(ctx context.Context, stdout io.Writer, name string, explain func(context.Context, *question) error) error {
	errs := []error{o.access.Validate(), output.Validate(o.output)}
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("--timeout %s: it must be greater than 0", o.timeout))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done after %s (--timeout)", o.timeout))
	defer cancel()
	client, _, err := o.access.Client(ctx)
	if err != nil {
		return err
	}
	q := &question{options: o, name: name, client: client, calls: &recorder{}, report: &report{}}
	if q.cloud, _, err = o.access.Cloud(klog.NewContext(ctx, logr.New(q.calls)), client); err != nil {
		return err
	}
	defer q.cloud.Close()
	if err := explain(ctx, q); err != nil {
		return err
	}
	if ctx.Err() != nil {
		q.report.Findings = append(q.report.Findings, output.Finding{Severity: output.Unchecked, Message: context.Cause(ctx).Error(), Next: "ask again with a greater --timeout, or look why the cloud does not answer"})
	}
	if err := q.report.write(stdout, o.output); err != nil {
		return fmt.Errorf("write the explanation: %w", err)
	}
	return output.Verdict(q.report.Findings)
}

// allNodes lists all Nodes.
func (q *question) allNodes(ctx context.Context) ([]*corev1.Node, error) {
	var out []*corev1.Node
	err := access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := q.client.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
		return list, nil
	})
	if err != nil {
		return nil, access.Failed(ctx, q.client, "list Nodes", err)
	}
	return out, nil
}

// failed notes that err keeps the controller manager from doing what is. It reports what the cloud has said as a problem, and what it could not
// be asked as a question without an answer.
func (q *question) failed(what string, err error, next string) {
	f := output.Finding{Severity: output.Error, Message: what + ": " + err.Error(), Next: next}
	if p, ok := errors.AsType[*access.Problem](err); ok {
		f.Message, f.Next = what+": "+p.What, p.Next
	}
	switch cloud.KindOf(err) {
	case cloud.KindInvalid, cloud.KindUnsupported, cloud.KindConflict, cloud.KindDenied, cloud.KindQuota, cloud.KindFailed, cloud.KindNotFound:
	default:
		f.Severity = output.Unchecked
	}
	q.report.Findings = append(q.report.Findings, f)
}
