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
	// needs are what it builds on. Without one of them it is not made.
	needs []need
	run   func(context.Context, *patient) ([]output.Finding, error)
}

// need is something that an earlier check has to get.
type need int

const (
	theServer    need = iota // the API server
	theNodes                 // all Nodes
	theServices              // all Services
	theCloud                 // the cloud's provider
	theSession               // the cloud's consent
	theInstances             // what the cloud says of each Node
)

// checks are made in this order. What one finds out about the cluster the later ones use.
func checks() []check {
	return []check{
		{name: checkOfCluster, about: "whether the API server answers, and what the checks need may be read", run: checkCluster},
		{name: "cloud-config", about: "the cloud's configuration file", run: checkCloudConfig},
		{name: "credentials", about: "whether the cloud accepts the credentials", needs: []need{theCloud}, run: checkCredentials},
		{name: "cloud", about: "whether what cloud.conf names is there, its services may be used, and quotas leave room", needs: []need{theCloud, theSession}, run: checkResources},
		{name: "manager", about: "whether a controller manager leads", needs: []need{theServer}, run: checkManager},
		{name: "permissions", about: "what the controller manager may do in the cluster", needs: []need{theServer}, run: checkPermissions},
		{name: "nodes", about: "whether each Node has its instance", needs: []need{theServer, theNodes, theCloud}, run: checkNodes},
		{name: "taints", about: "taints that the cloud's controllers should have taken away", needs: []need{theServer, theNodes, theCloud, theInstances}, run: checkTaints},
		{name: "services", about: "whether each Service of type LoadBalancer has its address", needs: []need{theServer, theServices}, run: checkServices},
		{name: "webhooks", about: "the webhooks' registration, certificates and Service", needs: []need{theServer}, run: checkWebhooks},
		{name: "kubelet", about: "a kubelet's configuration of image credential providers (--image-credential-provider-config)", run: checkKubelet},
		{name: "versions", about: "versions of the API server, of kubelets and of Isthmus", needs: []need{theServer}, run: checkVersions},
	}
}

// cannot notes that a need is not met, and which check says why.
func (p *patient) cannot(n need, message, check string) {
	p.lacks[n] = output.Finding{Severity: output.Unchecked, Message: message, Next: "mend what check " + check + " says first"}
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

	// kubeconfig is why there is no client of the API server, nil where there is one.
	kubeconfig error
	// lacks are the needs that were not met, and what is said of a check that has one.
	lacks map[need]output.Finding

	// What checkCluster has read.
	nodes    []corev1.Node
	services []corev1.Service
	// cloud is nil until checkCloudConfig has made it.
	cloud *decorate.Provider
	// unseen is what the check that is made could not look at, though nothing has failed.
	unseen []string
	// absent says that there is nothing of what the check that is made looks at, which is no fault.
	absent bool
	// instances are what checkNodes has found, by the Node's name.
	instances map[string]*instance
}

type options struct {
	access access.Flags
	output string
	clock  clock.PassiveClock
	// timeout bounds all checks together, and each bounds each of them, by bound.
	timeout, each time.Duration
	bound         func(ctx context.Context, check string, d time.Duration) (context.Context, context.CancelFunc)
	kubelet       string
	skip          []string
	account       string
	version       string
}

const long = `doctor looks for what keeps the cluster and its cloud from working together, and says of each finding
what to do next. It reads the API server and the cloud with the flags' kubeconfig and cloud.conf, and
changes nothing. Where the API server does not answer, the cloud is looked at all the same.

The exit code is 0 where nothing is wrong (warnings may be), 1 where something is, and 2 where something
could not be checked.`

const example = `  # All that can be seen with your kubeconfig and the controller manager's cloud.conf
  isthmus doctor --cloud-provider=openstack --cloud-config=/etc/isthmus/cloud.conf

  # For a program
  isthmus doctor --cloud-provider=aws --cloud-config=cloud.conf -o json | jq '.findings[] | select(.severity=="error")'`

// Command returns the command.
func Command() *cobra.Command {
	return command(&options{clock: clock.RealClock{}, version: version.String(), bound: bound})
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
	cmd.Flags().DurationVar(&o.each, "check-timeout", 2*time.Minute, "bound of each check")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "bound of the whole; what is not done then is reported as unchecked")
	return cmd
}

func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	as, err := access.ParseAccount("service-account", o.account)
	errs := []error{o.access.Validate(), output.Validate(o.output), err}
	if o.each <= 0 || o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("--check-timeout %s, --timeout %s: both must be greater than 0", o.each, o.timeout))
	}
	for _, name := range o.skip {
		if !slices.Contains(skippable(), name) {
			errs = append(errs, fmt.Errorf("--skip %.40q: there are: %s", name, strings.Join(skippable(), ", ")))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p := &patient{flags: &o.access, clock: o.clock, kubeletConfig: o.kubelet, account: as, version: o.version, lacks: map[need]output.Finding{}, instances: map[string]*instance{}}
	if p.client, _, p.kubeconfig = o.access.Client(ctx); p.kubeconfig != nil {
		if p.client, err = access.Unreachable(errNoServer); err != nil {
			return err
		}
	}
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

// bound is options.bound but in tests.
func bound(ctx context.Context, check string, d time.Duration) (context.Context, context.CancelFunc) {
	flag := "--check-timeout"
	if check == "" {
		flag = "--timeout"
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("not done after %s (%s)", d, flag))
}

// examine makes all checks. One that fails, takes too long, or lacks what it needs, ends in a finding.
func (o *options) examine(ctx context.Context, p *patient, stderr io.Writer) *report {
	r := &report{}
	ctx, end := o.bound(ctx, "", o.timeout)
	defer end()
	for _, c := range checks() {
		if slices.Contains(o.skip, c.name) {
			continue
		}
		found, passed := p.passed(ctx, &c)
		if !passed {
			found = o.make(ctx, p, &c, stderr)
		}
		r.add(c, p, found)
		p.unseen, p.absent = nil, false
	}
	return r
}

// passed says why a check cannot be made.
func (p *patient) passed(ctx context.Context, c *check) ([]output.Finding, bool) {
	if ctx.Err() != nil {
		return []output.Finding{{Severity: output.Unchecked, Message: context.Cause(ctx).Error(), Next: nextInTime}}, true
	}
	for _, n := range c.needs {
		if why, lacks := p.lacks[n]; lacks {
			return []output.Finding{why}, true
		}
	}
	return nil, false
}

// nextInTime is what to do where something was not done in time.
const nextInTime = "look why the API server or the cloud is slow, or give more time with --timeout and --check-timeout"

// make makes a check.
func (o *options) make(ctx context.Context, p *patient, c *check, stderr io.Writer) []output.Finding {
	within, cancel := o.bound(ctx, c.name, o.each)
	defer cancel()
	told := tellOfSlow(c, stderr)
	found, err := c.run(within, p)
	told()
	for _, err := range split(err) {
		f := output.Finding{Severity: output.Unchecked, Message: err.Error(), Next: nextOfCloud(err)}
		if problem, ok := errors.AsType[*access.Problem](err); ok {
			f.Message, f.Next = problem.What, problem.Next
		} else if within.Err() != nil {
			f.Message, f.Next = context.Cause(within).Error(), nextInTime
		}
		found = append(found, f)
	}
	return found
}

// split are the errors that were joined.
func split(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error }) // only what a check has joined itself
	switch {
	case ok:
		for _, e := range joined.Unwrap() {
			all = append(all, split(e)...)
		}
	case err != nil:
		all = append(all, err)
	}
	return all
}

// tellOfSlow writes of a check that is still under way after a while. What it returns ends that, and is to be called once.
func tellOfSlow(c *check, stderr io.Writer) (end func()) {
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
