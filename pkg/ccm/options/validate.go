package options

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/isthmus-cloud/isthmus/pkg/tracing"
)

// Validate checks everything that can be checked without the network and returns all
// problems at once, each on a line of its own that names the flag. clouds are the names
// that --cloud-provider may have.
func (o *Options) Validate(clouds []string) error {
	var errs []error
	errs = append(errs, o.checkCloud(clouds)...)
	errs = append(errs, checkControllers(o.Component.Generic.Controllers)...)
	errs = append(errs, o.checkNodeIPAM()...)
	errs = append(errs, o.checkTagging()...)
	errs = append(errs, o.checkNumbers()...)
	errs = append(errs, o.checkLeaderElection()...)
	errs = append(errs, o.checkServing()...)
	errs = append(errs, o.checkFeatureGates()...)
	errs = append(errs, o.checkLogging()...)
	if file := o.TracingConfigFile; file != "" {
		if _, err := tracing.Load(file); err != nil {
			errs = append(errs, fmt.Errorf("--tracing-config-file: %w", err))
		}
	}
	if modes := []string{CSITopologyAuto, CSITopologyAlways, CSITopologyNever}; !slices.Contains(modes, o.CSITopology) {
		errs = append(errs, fmt.Errorf("--persistentvolume-csi-topology: %q is not one of %s", o.CSITopology, strings.Join(modes, ", ")))
	}
	return errors.Join(errs...)
}

func (o *Options) checkCloud(clouds []string) []error {
	var errs []error
	shared := &o.Component.KubeCloudShared
	known := cmp.Or(strings.Join(clouds, ", "), "none, as it was built without any")
	switch name := shared.CloudProvider.Name; {
	case name == "":
		errs = append(errs, fmt.Errorf("--cloud-provider is required: one of %s", known))
	case !slices.Contains(clouds, name):
		errs = append(errs, fmt.Errorf("--cloud-provider: %q is not a cloud of this binary: use one of %s", name, known))
	}
	if file := shared.CloudProvider.CloudConfigFile; file != "" {
		errs = append(errs, checkFile("cloud-config", file)...)
	}
	if shared.ClusterName == "" {
		errs = append(errs, errors.New("--cluster-name must not be empty: what is made in the cloud is named after it"))
	}
	if _, err := o.PodCIDRs(); err != nil {
		errs = append(errs, err)
	}
	if shared.AllocateNodeCIDRs && shared.ClusterCIDR == "" && (!o.FromCloud() || !o.NodeIPAMEnabled()) {
		errs = append(errs, errors.New("--allocate-node-cidrs requires --cluster-cidr"))
	}
	return errs
}

func (o *Options) checkNumbers() []error {
	var errs []error
	c := &o.Component
	for flag, n := range map[string]int32{
		"concurrent-node-syncs":           c.NodeController.ConcurrentNodeSyncs,
		"concurrent-node-lifecycle-syncs": c.NodeLifecycleController.ConcurrentNodeLifecycleSyncs,
		"concurrent-service-syncs":        c.ServiceController.ConcurrentServiceSyncs,
	} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("--%s must be at least 1, not %d: turn a controller off with --controllers=*,-<name>", flag, n))
		}
	}
	if n := c.NodeController.ConcurrentNodeStatusUpdates; n < 0 {
		errs = append(errs, fmt.Errorf("--concurrent-node-status-updates must not be negative, but is %d", n))
	}
	for flag, d := range map[string]time.Duration{
		"node-monitor-period":          c.NodeLifecycleController.NodeMonitorPeriod.Duration,
		"node-status-update-frequency": c.NodeStatusUpdateFrequency.Duration,
		"route-reconciliation-period":  c.KubeCloudShared.RouteReconciliationPeriod.Duration,
		"min-resync-period":            c.Generic.MinResyncPeriod.Duration,
		"shutdown-timeout":             o.ShutdownTimeout,
		"start-timeout":                o.StartTimeout,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s must be positive, not %s", flag, d))
		}
	}
	errs = append(errs, o.LoadBalancers.check()...)
	d := &o.NodeDeletion
	if d.Percent < 0 || d.Percent > 100 {
		errs = append(errs, fmt.Errorf("--node-deletion-limit-percentage must be between 0 and 100, not %d", d.Percent))
	}
	if d.Count < 0 {
		errs = append(errs, fmt.Errorf("--node-deletion-limit-count must not be negative, but is %d", d.Count))
	}
	if d.Settle < 0 {
		errs = append(errs, fmt.Errorf("--node-deletion-settle-time must not be negative, but is %s", d.Settle))
	}
	if k := c.Generic.ClientConnection; k.QPS > 0 && k.Burst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-burst must be at least 1 with --kube-api-qps=%v, not %d", k.QPS, k.Burst))
	}
	errs = append(errs, checkContentType(c.Generic.ClientConnection.ContentType)...)
	sortErrors(errs)
	return errs
}

func (o *Options) checkLeaderElection() []error {
	var errs []error
	g := &o.Component.Generic
	if file := g.ClientConnection.Kubeconfig; file != "" {
		errs = append(errs, checkFile("kubeconfig", file)...)
	}
	if g.LeaderMigrationEnabled && !g.LeaderElection.LeaderElect {
		errs = append(errs, errors.New("--enable-leader-migration requires --leader-elect"))
	}
	if o.LeaderMigrationFile != "" && !g.LeaderMigrationEnabled {
		errs = append(errs, errors.New("--leader-migration-config requires --enable-leader-migration"))
	}
	if !g.LeaderElection.LeaderElect {
		return errs
	}
	l := &g.LeaderElection
	if l.ResourceLock != "leases" {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-lock must be leases, not %q", l.ResourceLock))
	}
	if l.ResourceName == "" || l.ResourceNamespace == "" {
		errs = append(errs, errors.New("--leader-elect-resource-name and --leader-elect-resource-namespace must not be empty"))
	}
	if l.RetryPeriod.Duration <= 0 || l.RenewDeadline.Duration <= l.RetryPeriod.Duration*6/5 || l.LeaseDuration.Duration <= l.RenewDeadline.Duration {
		errs = append(errs, fmt.Errorf(
			"--leader-elect-lease-duration (%s) must be longer than --leader-elect-renew-deadline (%s), and that longer than 1.2 times --leader-elect-retry-period (%s)",
			l.LeaseDuration.Duration, l.RenewDeadline.Duration, l.RetryPeriod.Duration))
	}
	return errs
}

func (o *Options) checkServing() []error {
	var errs []error
	s := &o.Serving
	if s.Port < 0 || s.Port > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port must be between 0 and 65535, not %d", s.Port))
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file must be given together"))
	}
	for flag, file := range map[string]string{
		"tls-cert-file": s.CertFile, "tls-private-key-file": s.KeyFile, "client-ca-file": o.Auth.ClientCAFile,
		"authentication-kubeconfig": o.Auth.AuthenticationKubeconfig, "authorization-kubeconfig": o.Auth.AuthorizationKubeconfig,
	} {
		if file != "" {
			errs = append(errs, checkFile(flag, file)...)
		}
	}
	sortErrors(errs)
	if _, err := cliflag.TLSVersion(s.MinTLSVersion); err != nil {
		errs = append(errs, fmt.Errorf("--tls-min-version: %w: use one of %s", err, strings.Join(cliflag.TLSPossibleVersions(), ", ")))
	}
	if _, err := cliflag.TLSCipherSuites(s.CipherSuites); err != nil {
		errs = append(errs, fmt.Errorf("--tls-cipher-suites: %w: see --help for the names", err))
	}
	if _, err := cliflag.TLSCurvePreferences(s.CurvePreferences); err != nil {
		errs = append(errs, fmt.Errorf("--tls-curve-preferences: %w", err))
	}
	errs = append(errs, checkPaths(o.Auth.AlwaysAllowPaths)...)
	if s.MaxStreams < 0 {
		errs = append(errs, fmt.Errorf("--http2-max-streams-per-connection must not be negative, but is %d", s.MaxStreams))
	}
	return errs
}

// checkPaths returns an error for each of --authorization-always-allow-paths that open
// would never match, or not as it is meant.
func checkPaths(paths []string) []error {
	var errs []error
	for _, p := range paths {
		if i := strings.Index(p, "*"); !strings.HasPrefix(p, "/") || i >= 0 && i < len(p)-1 {
			errs = append(errs, fmt.Errorf("--authorization-always-allow-paths: %q is no path such as /healthz or, for all that begin so, /healthz/*", p))
		}
	}
	return errs
}

// checkContentType refuses what the client of the API server cannot write.
func checkContentType(t string) []error {
	known := []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}
	if t == "" || slices.Contains(known, t) {
		return nil
	}
	return []error{fmt.Errorf("--kube-api-content-type: %q is not one of %s", t, strings.Join(known, ", "))}
}

// checkFile returns an error when the flag's file cannot be read.
func checkFile(flag, file string) []error {
	f, err := os.Open(file)
	if err != nil {
		return []error{fmt.Errorf("--%s: %w: check the path and its permissions", flag, err)}
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory, not a file", file)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return []error{fmt.Errorf("--%s: %w", flag, err)}
	}
	return nil
}

// sortErrors orders errors that were collected from a map.
func sortErrors(errs []error) {
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}
