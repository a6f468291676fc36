// Command cloud-controller-manager runs the cloud's controllers of a Kubernetes cluster and
// hosts its admission webhooks: flags → providers → decorate → run.
package main

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
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/ccm"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/pkg/providers"
	"github.com/isthmus-cloud/isthmus/pkg/version"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
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
	switch help, showVersion, err := ccm.Parse(sections, args); {
	case err != nil:
		return fail(stderr, 2, err)
	case help:
		cols, _, _ := term.TerminalSize(stdout)
		_, _ = fmt.Fprintf(stdout, "%s runs the cloud's controllers of a Kubernetes cluster and hosts its admission webhooks.\n\nUsage:\n  %s --cloud-provider=NAME [flags]\n", program, program)
		ccm.PrintHelp(stdout, sections, cols)
		return 0
	case showVersion:
		_, _ = fmt.Fprintln(stdout, "isthmus", program, version.String())
		return 0
	}
	if err := o.validate(); err != nil {
		return fail(stderr, 2, err)
	}
	if err := logsapi.ValidateAndApply(o.ccm.Logging, nil); err != nil {
		return fail(stderr, 2, err)
	}
	defer logs.FlushLogs()
	ctrl.SetLogger(klog.Background())
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
	ccm      *ccm.Options
	webhooks []string
	server   *server.Options
}

func newOptions() (*options, error) {
	o, err := ccm.NewOptions()
	if err != nil {
		return nil, err
	}
	return &options{ccm: o, server: server.NewOptions()}, nil
}

func (o *options) flags() *cliflag.NamedFlagSets {
	sections := o.ccm.Flags()
	fs := sections.FlagSet("webhooks")
	fs.StringSliceVar(&o.webhooks, "webhooks", o.webhooks,
		"Admission webhooks to serve: '*' means all, 'foo' serves foo, '-foo' does not; none by default.\nWebhooks: "+strings.Join(webhooks.Names(hosted.All()), ", "))
	o.server.AddFlags(fs)
	return sections
}

// validate returns all that is wrong with the flags.
func (o *options) validate() error {
	errs := []error{o.ccm.Validate(slices.Sorted(maps.Keys(providers.All())))}
	selected, err := webhooks.Select(hosted.All(), o.webhooks)
	errs = append(errs, err)
	if len(selected) > 0 && o.ccm.DryRun {
		errs = append(errs, errors.New("--dry-run: webhooks change the objects that they are asked about: leave --webhooks out"))
	}
	if len(selected) > 0 {
		errs = append(errs, o.server.Validate())
		if p := o.server.Port; p != 0 && p == o.ccm.Serving.Port {
			errs = append(errs, fmt.Errorf("--webhook-secure-port and --secure-port must differ, both are %d", p))
		}
		if delay, end := o.server.ShutdownDelay, o.ccm.ShutdownTimeout; delay > 0 && delay >= end {
			errs = append(errs, fmt.Errorf("--webhook-shutdown-delay: %s leaves no time to finish within --shutdown-timeout=%s; lower it or raise that", delay, end))
		}
	}
	return errors.Join(errs...)
}

func (o *options) run(ctx context.Context) error {
	m, err := ccm.New(ctx, o.ccm)
	if err != nil {
		return err
	}
	p, err := o.cloud(ctx)
	if err != nil {
		return err
	}
	if err := o.addWebhooks(m, p); err != nil {
		return err
	}
	return m.Run(ctx, p)
}

// cloud makes the cloud that the flags name, and decorates it.
func (o *options) cloud(ctx context.Context) (*decorate.Provider, error) {
	flags := o.ccm.Component.KubeCloudShared.CloudProvider
	factory, err := providers.Named(flags.Name)
	if err != nil {
		return nil, err
	}
	counted, err := decorate.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, err
	}
	p, warnings, err := factory(ctx, flags.CloudConfigFile, cloud.Options{
		UserAgent: "isthmus-" + program + "/" + version.String(),
		Observe:   counted.Observer(flags.Name),
		Reloaded:  counted.Reloaded(flags.Name),
		DryRun:    o.ccm.DryRun,
	})
	for _, w := range warnings {
		klog.FromContext(ctx).Info("Cloud configuration", "warning", w)
	}
	if err != nil {
		return nil, err
	}
	return decorate.New(p, decorate.Options{Metrics: counted})
}

// addWebhooks adds the webhook server, if --webhooks turns one on.
func (o *options) addWebhooks(m *ccm.Manager, p *decorate.Provider) error {
	selected, err := webhooks.Select(hosted.All(), o.webhooks)
	if err != nil || len(selected) == 0 {
		return err
	}
	o.server.Ready = p.Ready
	s, err := server.New(*o.server)
	if err != nil {
		return err
	}
	env := webhooks.Environment{
		Provider: &p.Provider,
		Classes:  lb.Classes{Provider: p.Name, Names: p.LoadBalancerClasses, Default: o.ccm.LoadBalancers.DefaultClass},
	}
	for _, w := range selected {
		handler := w.New(env)
		if handler == nil {
			return fmt.Errorf("--webhooks: %s needs something that cloud %s does not have", w.Name, p.Name)
		}
		s.Register(w.Path, handler)
	}
	m.Add(s)
	return m.AddReadyCheck("webhooks", s.Ready)
}
