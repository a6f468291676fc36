package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// check is one thing that is looked at.
type check struct {
	name, about string
	// cloud says that it asks the cloud: without one it is passed over.
	cloud bool
	run   func(context.Context, *patient) ([]output.Finding, error)
}

// checks are made in this order. What one finds out about the cluster the later ones use.
func checks() []check {
	return []check{
		{name: "cluster", about: "the API server answers, and what the checks need may be read", run: checkCluster},
		{name: "cloud-config", about: "the cloud's configuration file", run: checkCloudConfig},
		{name: "credentials", about: "the cloud accepts the credentials", cloud: true, run: checkCredentials},
		{name: "cloud", about: "what cloud.conf names is there, its services may be used, and quotas leave room", cloud: true, run: checkResources},
		{name: "manager", about: "a controller manager leads, and no second one", run: checkManager},
		{name: "permissions", about: "what the controller manager may do in the cluster", run: checkPermissions},
		{name: "nodes", about: "each Node has its instance", cloud: true, run: checkNodes},
		{name: "taints", about: "no taint stays that the cloud's controllers take away", cloud: true, run: checkTaints},
		{name: "services", about: "each Service of type LoadBalancer has its address", run: checkServices},
		{name: "webhooks", about: "the webhooks' registration, certificates and Service", run: checkWebhooks},
		{name: "kubelet", about: "a kubelet's configuration of image credential providers (--image-credential-provider-config)", run: checkKubelet},
		{name: "versions", about: "versions of the API server, of kubelets and of Isthmus", run: checkVersions},
	}
}

// skippable are the names of the checks on which no others build.
func skippable() (names []string) {
	for _, c := range checks() {
		if !slices.Contains([]string{checkOfCluster, "cloud-config", "credentials", "nodes"}, c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// patient is what is looked at. It is used by one check at a time.
type patient struct {
	flags  *access.Flags
	client kubernetes.Interface
	clock  clock.PassiveClock

	// kubeletConfig is --image-credential-provider-config, empty for none.
	kubeletConfig string
	// account is the controller manager's, and version this program's.
	account access.Account
	version string

	// What checkCluster has read.
	nodes    []corev1.Node
	services []corev1.Service
	// cloud is nil until checkCloudConfig has made it.
	cloud *decorate.Provider
	// accepted is true once the cloud has taken the credentials.
	accepted bool
	// unseen is what the check that is made could not look at, though nothing has failed.
	unseen []string
	// instances are what checkNodes has found, by the Node's name.
	instances map[string]*instance
}

type options struct {
	access  access.Flags
	output  string
	clock   clock.PassiveClock
	timeout time.Duration
	kubelet string
	skip    []string
	account string
	version string
}

const long = `doctor looks for what keeps the cluster and its cloud from working together, and says of each finding
what to do next. It reads the API server and the cloud with the flags' kubeconfig and cloud.conf, and
changes nothing.

The exit code is 0 where nothing is wrong (warnings may be), 1 where something is, and 2 where something
could not be checked.`

const example = `  # All that can be seen with your kubeconfig and the controller manager's cloud.conf
  isthmus doctor --cloud-provider=openstack --cloud-config=/etc/isthmus/cloud.conf

  # For a program
  isthmus doctor --cloud-provider=aws --cloud-config=cloud.conf -o json | jq '.findings[] | select(.severity=="error")'`

// Command returns the command.
func Command() *cobra.Command {
	return command(&options{clock: clock.RealClock{}, version: version.String()})
}

func command(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Look for what keeps the cluster and its cloud from working together",
		Long:    long,
		Example: example,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.access.AddTo(cmd.Flags())
	output.AddFlag(cmd.Flags(), &o.output)
	cmd.Flags().StringVar(&o.kubelet, "image-credential-provider-config", "",
		"a copy of what a kubelet has by its flag of this name, to be looked at as well; isthmus-credential-provider check on the node sees more")
	cmd.Flags().StringVar(&o.account, "service-account", defaultAccount(), "the controller manager's ServiceAccount, NAMESPACE/NAME, whose rights are looked at")
	cmd.Flags().StringSliceVar(&o.skip, "skip", nil, "checks that are not made, of: "+strings.Join(skippable(), ", "))
	cmd.Flags().DurationVar(&o.timeout, "check-timeout", 2*time.Minute, "bound of each check")
	return cmd
}

func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	as, err := access.ParseAccount("service-account", o.account)
	errs := []error{o.access.Validate(), output.Validate(o.output), err}
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("--check-timeout %s: it must be greater than 0", o.timeout))
	}
	for _, name := range o.skip {
		if !slices.Contains(skippable(), name) {
			errs = append(errs, fmt.Errorf("--skip %.40q: there are: %s", name, strings.Join(skippable(), ", ")))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	client, _, err := o.access.Client(ctx)
	if err != nil {
		return err
	}
	p := &patient{flags: &o.access, client: client, clock: o.clock, kubeletConfig: o.kubelet, account: as, version: o.version, instances: map[string]*instance{}}
	r := o.examine(ctx, p, stderr)
	if p.cloud != nil {
		p.cloud.Close()
	}
	if err := r.write(stdout, o.output); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	return output.Verdict(r.Findings)
}

// slow is when a check that is under way is told.
const slow = 2 * time.Second

// examine makes all checks. One that fails, or takes too long, ends in a finding.
func (o *options) examine(ctx context.Context, p *patient, stderr io.Writer) *report {
	r := &report{}
	for _, c := range checks() {
		if slices.Contains(o.skip, c.name) {
			continue
		}
		if c.cloud && p.cloud == nil {
			r.add(c, nil, []output.Finding{{Severity: output.Unchecked, Message: "the cloud cannot be asked", Next: "mend what cloud-config says first"}})
			continue
		}
		within, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done after %s (--check-timeout)", o.timeout))
		told := tellOfSlow(c, stderr)
		found, err := c.run(within, p)
		told()
		if err != nil {
			if within.Err() != nil {
				err = context.Cause(within)
			}
			found = append(found, output.Finding{Severity: output.Unchecked, Message: err.Error(), Next: "mend the cause and call doctor again"})
		}
		cancel()
		r.add(c, p.unseen, found)
		p.unseen = nil
		if c.name == checkOfCluster && len(found) > 0 || ctx.Err() != nil {
			break // nothing else can be said
		}
	}
	return r
}

// tellOfSlow writes of a check that is still under way after a while. What it returns ends that, and is to be called once.
func tellOfSlow(c check, stderr io.Writer) (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-done:
		case <-time.After(slow):
			_, _ = fmt.Fprintf(stderr, "… %s: %s\n", c.name, c.about)
		}
	}()
	return func() { close(done); <-ended }
}
