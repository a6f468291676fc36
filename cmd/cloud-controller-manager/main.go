// Command cloud-controller-manager runs the cloud's controllers of a Kubernetes cluster and
// hosts its admission webhooks: flags → providers → decorate → run.
package main

//go:generate go run ../../hack/gen-flags . cloud-controller-manager ../../docs/reference/flags-cloud-controller-manager.md

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/ccm"
	ccmoptions "github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/providers"
	"github.com/isthmus-cloud/isthmus/pkg/version"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

const program = "cloud-controller-manager"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process. It returns the exit code: 0 after a requested end, 2 for
// flags that are wrong, 1 for everything else. Each error is one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := newOptions()
	if err != nil {
		return fail(stderr, 1, err)
	}
	sections := o.flags()
	switch help, showVersion, err := ccmoptions.Parse(sections, args); {
	case err != nil:
		return fail(stderr, 2, err)
	case help:
		cols, _, _ := term.TerminalSize(stdout)
		_, _ = fmt.Fprintf(stdout, "%s runs the cloud's controllers of a Kubernetes cluster and hosts its admission webhooks.\n\nUsage:\n  %s --cloud-provider=NAME [flags]\n", program, program)
		ccmoptions.PrintHelp(stdout, sections, cols)
		return 0
	case showVersion:
		_, _ = fmt.Fprintln(stdout, "isthmus", program, version.String())
		return 0
	}
	o.ccm.FlagValues = ccmoptions.Values(sections)
	o.ccm.LabelPersistentVolumes = o.webhooks.on(pvlabel.Name)
	if err := o.validate(); err != nil {
		return fail(stderr, 2, err)
	}
	if err := o.ccm.ApplyLogging(); err != nil {
		return fail(stderr, 2, err)
	}
	defer logs.FlushLogs()
	ctrl.SetLogger(klog.Background())
	for _, w := range o.ccm.Warnings {
		klog.Background().Info("Flags", "warning", w)
	}
	if err := o.run(ctx); err != nil {
		logs.FlushLogs()
		return fail(stderr, 1, err)
	}
	return 0
}

// fail writes err's problems, one a line.
func fail(stderr io.Writer, code int, err error) int {
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", program, line)
	}
	return code
}

// options are the flags of all parts.
type options struct {
	ccm      *ccmoptions.Options
	webhooks *webhookOptions
}

func newOptions() (*options, error) {
	o, err := ccmoptions.New()
	if err != nil {
		return nil, err
	}
	return &options{ccm: o, webhooks: newWebhookOptions()}, nil
}

func (o *options) flags() *cliflag.NamedFlagSets {
	sections := o.ccm.Flags()
	o.webhooks.addFlags(sections.FlagSet("webhooks"))
	return sections
}

// validate returns all that is wrong with the flags.
func (o *options) validate() error {
	return errors.Join(o.ccm.Validate(slices.Sorted(maps.Keys(providers.All()))), o.webhooks.validate(o.ccm))
}

func (o *options) run(ctx context.Context) error {
	m, err := ccm.New(ctx, o.ccm)
	if err != nil {
		return err
	}
	if o.webhooks.onlyRemoves(o.ccm) {
		return o.removeRegistration(ctx, m)
	}
	p, err := o.cloud(ctx, m)
	if err != nil {
		return err
	}
	if err := m.FollowCSITopology(p); err != nil {
		return err
	}
	if err := o.webhooks.addTo(ctx, m, p, o.ccm); err != nil {
		return err
	}
	return m.Run(ctx, p)
}

// cloud makes the cloud that the flags name, and decorates it.
func (o *options) cloud(ctx context.Context, m *ccm.Manager) (*decorate.Provider, error) {
	flags := o.ccm.Component.KubeCloudShared.CloudProvider
	factory, err := providers.Named(flags.Name)
	if err != nil {
		return nil, err
	}
	counted, err := caller.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, err
	}
	decoration := caller.Options{Metrics: counted}
	traffic, err := caller.NewTraffic(flags.Name, decoration)
	if err != nil {
		return nil, err
	}
	m.Traffic = traffic.Families
	p, warnings, err := factory(ctx, flags.CloudConfigFile, cloud.Options{
		UserAgent:    strings.Join(append(slices.Clone(o.ccm.UserAgent), "isthmus-"+program+"/"+version.String()), " "),
		Traffic:      traffic,
		Kube:         m.Kube(),
		Reloaded:     counted.Reloaded(flags.Name),
		Expires:      counted.Expires(flags.Name),
		LoginExpires: counted.LoginExpires(flags.Name),
		Kept:         counted.Kept(flags.Name),
		DryRun:       o.ccm.DryRun,
	})
	for _, w := range warnings {
		klog.FromContext(ctx).Info("Cloud configuration", "warning", w)
	}
	if err != nil {
		return nil, err
	}
	return decorate.New(p, decoration)
}
