package options

import (
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/cloud-provider/names"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// Flags returns flags bound to o, by section, in the order in which --help shows them.
// Their names, defaults and meanings are the framework's; those of the framework that make
// no sense here are hidden and only warned about (see ignoredFlags).
func (o *Options) Flags() *cliflag.NamedFlagSets {
	fss := &cliflag.NamedFlagSets{}
	o.addCloudFlags(fss.FlagSet("cloud"))
	o.addControllerFlags(fss)
	o.addLeaderFlags(fss.FlagSet("leader election"))
	o.addKubernetesFlags(fss.FlagSet("kubernetes API"))
	o.addServingFlags(fss.FlagSet("secure serving"))
	o.addAuthFlags(fss.FlagSet("authentication and authorization"))
	o.addGlobalFlags(fss.FlagSet("logging and debugging"))
	o.addIgnoredFlags(fss.FlagSet("ignored"))
	return fss
}

func (o *Options) addCloudFlags(fs *pflag.FlagSet) {
	shared := &o.Component.KubeCloudShared
	fs.StringVar(&shared.CloudProvider.Name, "cloud-provider", shared.CloudProvider.Name,
		"Name of the cloud. Required.")
	fs.StringVar(&shared.CloudProvider.CloudConfigFile, "cloud-config", shared.CloudProvider.CloudConfigFile,
		"Path of the cloud's configuration file.")
	fs.StringArrayVar(&o.UserAgent, "user-agent", o.UserAgent,
		"Said to the cloud before the program's own name, in the User-Agent of each request; may be repeated.")
	fs.StringVar(&shared.ClusterName, "cluster-name", shared.ClusterName,
		"Name of this cluster, by which what is made in the cloud is named.")
	fs.StringVar(&shared.ClusterCIDR, "cluster-cidr", shared.ClusterCIDR,
		"Pod CIDRs of the cluster, comma-separated. Routes outside of them are never touched.")
	fs.BoolVar(&shared.AllocateNodeCIDRs, "allocate-node-cidrs", shared.AllocateNodeCIDRs,
		"Whether pod CIDRs are given to nodes, by kube-controller-manager or, where --controllers names it, by "+NodeIPAMController+" here. Requires --cluster-cidr.")
	fs.BoolVar(&shared.ConfigureCloudRoutes, "configure-cloud-routes", shared.ConfigureCloudRoutes,
		"Whether the cloud gets a route for each node's pod CIDRs, where the cloud's configuration has routes turned on.")
	fs.BoolVar(&o.DryRun, "dry-run", o.DryRun,
		"Change nothing: log each call that would change the cloud, and each write to the API server, which only checks it. "+
			"No lease is taken, so it can run beside the controller manager that leads.")
}

func (o *Options) addControllerFlags(fss *cliflag.NamedFlagSets) {
	c := &o.Component
	fs := fss.FlagSet("controllers")
	fs.StringSliceVar(&c.Generic.Controllers, "controllers", c.Generic.Controllers,
		"Controllers to run: '*' means all that are on by default, 'foo' runs foo, '-foo' does not run foo, '-*' runs only what is named; "+
			"of two items that name the same controller, the first wins.\nControllers: "+strings.Join(controllerNames(), ", ")+"\nOff by default: "+KubeletServingController+", "+NodeIPAMController+", "+TaggingController+", and without its webhook "+PersistentVolumeLabelController)
	fs.DurationVar(&c.Generic.MinResyncPeriod.Duration, "min-resync-period", c.Generic.MinResyncPeriod.Duration,
		"Informers replay all objects after a random time between this and twice this.")

	fs = fss.FlagSet(PersistentVolumeLabelController)
	fs.StringVar(&o.CSITopology, "persistentvolume-csi-topology", o.CSITopology,
		"Whether node affinity of PersistentVolumes, the webhook's as well, requires the CSI driver's own topology key beside the general one of zones: "+
			"auto where all CSINodes of the driver have it, always or never.")

	fs = fss.FlagSet(names.CloudNodeController)
	fs.Int32Var(&c.NodeController.ConcurrentNodeSyncs, "concurrent-node-syncs", c.NodeController.ConcurrentNodeSyncs,
		"How many nodes are initialized at a time, each with two writes to the API server; the cloud is asked about all of them at once. 1 is other cloud controller managers' default.")
	fs.Int32Var(&c.NodeController.ConcurrentNodeStatusUpdates, "concurrent-node-status-updates", 0,
		"How many nodes' addresses are refreshed at a time; 0 means the value of --concurrent-node-syncs.")
	fs.DurationVar(&c.NodeStatusUpdateFrequency.Duration, "node-status-update-frequency", c.NodeStatusUpdateFrequency.Duration,
		"How often the addresses of all nodes are refreshed.")

	fs = fss.FlagSet(names.CloudNodeLifecycleController)
	fs.Int32Var(&c.NodeLifecycleController.ConcurrentNodeLifecycleSyncs, "concurrent-node-lifecycle-syncs",
		c.NodeLifecycleController.ConcurrentNodeLifecycleSyncs, "How many nodes are checked at a time.")
	fs.DurationVar(&c.NodeLifecycleController.NodeMonitorPeriod.Duration, "node-monitor-period",
		c.NodeLifecycleController.NodeMonitorPeriod.Duration,
		"How often nodes that are not ready are looked up in the cloud.")
	d := &o.NodeDeletion
	fs.IntVar(&d.Percent, "node-deletion-limit-percentage", d.Percent,
		"When more than this share of the nodes, or all of them, have no instance in the cloud, they are kept for the time being. 100 turns this limit off.")
	fs.IntVar(&d.Count, "node-deletion-limit-count", d.Count,
		"So many nodes may lack their instances whatever their share, if any other has one.")
	fs.DurationVar(&d.Settle, "node-deletion-settle-time", d.Settle,
		"A loss beyond the limit is believed after this time, if other instances of the cluster are seen all the while. 0 means never: "+
			"an operator must annotate the namespace kube-system with "+DeleteNodesUntil+"=<time>.")

	o.Tagging.addFlags(fss.FlagSet(TaggingController))
	o.NodeIPAM.addFlags(fss.FlagSet(NodeIPAMController), &o.Component.KubeCloudShared.CIDRAllocatorType)

	fs = fss.FlagSet(names.ServiceLBController)
	fs.Int32Var(&c.ServiceController.ConcurrentServiceSyncs, "concurrent-service-syncs", c.ServiceController.ConcurrentServiceSyncs,
		"How many Services are worked on at a time, each for a few seconds until the cloud is done or the next one has its turn. "+
			"More make changes of many Services or nodes take effect sooner, and the cloud's API busier; 1 is other cloud controller managers' default.")
	o.LoadBalancers.addFlags(fs)

	fs = fss.FlagSet(names.NodeRouteController)
	fs.DurationVar(&c.KubeCloudShared.RouteReconciliationPeriod.Duration, "route-reconciliation-period",
		c.KubeCloudShared.RouteReconciliationPeriod.Duration, "How often the cloud's routes are compared with the nodes.")
}

func (o *Options) addLeaderFlags(fs *pflag.FlagSet) {
	l := &o.Component.Generic.LeaderElection
	fs.BoolVar(&l.LeaderElect, "leader-elect", l.LeaderElect,
		"Run controllers only while holding the lease; needed with more than one replica.")
	fs.DurationVar(&l.LeaseDuration.Duration, "leader-elect-lease-duration", l.LeaseDuration.Duration,
		"After so long without renewal another replica may take the lease.")
	fs.DurationVar(&l.RenewDeadline.Duration, "leader-elect-renew-deadline", l.RenewDeadline.Duration,
		"The leader ends itself when it could not renew for so long. Less than the lease duration.")
	fs.DurationVar(&l.RetryPeriod.Duration, "leader-elect-retry-period", l.RetryPeriod.Duration,
		"Time between attempts to take or renew the lease.")
	fs.StringVar(&l.ResourceLock, "leader-elect-resource-lock", l.ResourceLock, "Kind of the lock: only 'leases'.")
	fs.StringVar(&l.ResourceName, "leader-elect-resource-name", l.ResourceName,
		"Name of the lease. The default is the one of other cloud controller managers, so that two never act at once.")
	fs.StringVar(&l.ResourceNamespace, "leader-elect-resource-namespace", l.ResourceNamespace, "Namespace of the lease.")
	fs.BoolVar(&o.Component.Generic.LeaderMigrationEnabled, "enable-leader-migration", o.Component.Generic.LeaderMigrationEnabled,
		"Take over controllers from kube-controller-manager under a second lease.")
	fs.StringVar(&o.LeaderMigrationFile, "leader-migration-config", o.LeaderMigrationFile,
		"Path of a LeaderMigrationConfiguration. Without it, the framework's default applies.")
}

func (o *Options) addKubernetesFlags(fs *pflag.FlagSet) {
	c := &o.Component.Generic.ClientConnection
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"Path of a kubeconfig. Without it and without --master, the pod's ServiceAccount is used.")
	fs.StringVar(&o.Master, "master", o.Master, "Address of the API server; overrides the kubeconfig's.")
	fs.StringVar(&c.ContentType, "kube-api-content-type", c.ContentType, "Content type of requests to the API server.")
	fs.Float32Var(&c.QPS, "kube-api-qps", c.QPS, "Requests a second to the API server, of each controller. 0 or less, the default, sets no limit here: "+
		"the API server shares itself out by API Priority and Fairness, and is waited for when it says so.")
	fs.Int32Var(&c.Burst, "kube-api-burst", c.Burst, "Requests to the API server beyond --kube-api-qps for short times, where that sets a limit.")
	fs.DurationVar(&o.StartTimeout, "start-timeout", o.StartTimeout,
		"How long to wait at the start for the API server and the cloud to accept us before giving up.")
	fs.Var(cliflag.NewMapStringString(&o.FeatureGates), "feature-gates",
		"Feature gates as Name=true|false, comma-separated. LoggingAlphaOptions, LoggingBetaOptions and ContextualLogging do what the flags of logging say;\n"+
			"those of k8s.io/cloud-provider are accepted, and none has an effect here.")
}

func (o *Options) addServingFlags(fs *pflag.FlagSet) {
	s := &o.Serving
	fs.IPVar(&s.BindAddress, "bind-address", s.BindAddress, "Address of the secure port; 0.0.0.0 and :: mean all.")
	fs.IntVar(&s.Port, "secure-port", s.Port, "Port for health, metrics and /configz over TLS; 0 turns it off.")
	fs.StringVar(&s.CertDir, "cert-dir", s.CertDir,
		"Directory with cloud-controller-manager.crt and .key; a self-signed pair is written there when there is none.")
	fs.StringVar(&s.CertFile, "tls-cert-file", s.CertFile,
		"Certificate (with its chain) of the secure port, read again when it changes. Without it, a self-signed one is made.")
	fs.StringVar(&s.KeyFile, "tls-private-key-file", s.KeyFile, "Private key of --tls-cert-file.")
	fs.StringVar(&s.MinTLSVersion, "tls-min-version", s.MinTLSVersion,
		"Lowest TLS version: "+strings.Join(cliflag.TLSPossibleVersions(), ", ")+". Default: VersionTLS12.")
	fs.StringSliceVar(&s.CipherSuites, "tls-cipher-suites", s.CipherSuites,
		"Cipher suites for TLS 1.2 and lower, comma-separated; Go's choice by default.\nPreferred: "+
			strings.Join(cliflag.PreferredTLSCipherNames(), ", ")+"\nInsecure: "+strings.Join(cliflag.InsecureTLSCipherNames(), ", "))
	fs.Int32SliceVar(&s.CurvePreferences, "tls-curve-preferences", s.CurvePreferences,
		"Key exchange mechanisms as numbers of Go's tls.CurveID, comma-separated; Go's choice by default.")
	fs.BoolVar(&s.DisableHTTP2, "disable-http2-serving", s.DisableHTTP2, "Serve HTTP/1.1 only.")
	fs.IntVar(&s.MaxStreams, "http2-max-streams-per-connection", s.MaxStreams,
		"HTTP/2 streams a connection; 0 means Go's default.")
}

func (o *Options) addAuthFlags(fs *pflag.FlagSet) {
	a := &o.Auth
	fs.StringVar(&a.AuthenticationKubeconfig, "authentication-kubeconfig", a.AuthenticationKubeconfig,
		"Kubeconfig of the API server that checks the tokens of clients of the secure port; by default the one of --kubeconfig.")
	fs.StringVar(&a.AuthorizationKubeconfig, "authorization-kubeconfig", a.AuthorizationKubeconfig,
		"Kubeconfig of the API server that says what clients of the secure port may read; by default the one of --kubeconfig.")
	fs.StringVar(&a.ClientCAFile, "client-ca-file", a.ClientCAFile,
		"Client certificates of these authorities are accepted on the secure port, with the common name as user and the organizations as groups.")
	fs.DurationVar(&a.TokenTTL, "authentication-token-webhook-cache-ttl", a.TokenTTL, "How long the answer about a token is remembered.")
	fs.DurationVar(&a.AllowTTL, "authorization-webhook-cache-authorized-ttl", a.AllowTTL, "How long a permission is remembered.")
	fs.DurationVar(&a.DenyTTL, "authorization-webhook-cache-unauthorized-ttl", a.DenyTTL, "How long a refusal is remembered.")
	fs.StringSliceVar(&a.AlwaysAllowPaths, "authorization-always-allow-paths", a.AlwaysAllowPaths,
		"Paths that everyone may read without authentication; one that ends in * means all that begin so.")
}

func (o *Options) addGlobalFlags(fs *pflag.FlagSet) {
	logsapi.AddFlags(o.Logging, fs)
	d := &o.Component.Generic.Debugging
	fs.BoolVar(&d.EnableProfiling, "profiling", d.EnableProfiling, "Serve /debug/pprof/ on the secure port to clients who may read it.")
	fs.BoolVar(&d.EnableContentionProfiling, "contention-profiling", d.EnableContentionProfiling, "With --profiling, record lock contention too.")
	fs.StringVar(&o.TracingConfigFile, "tracing-config-file", o.TracingConfigFile,
		"File with a TracingConfiguration, as kube-apiserver has it: the collector to which OpenTelemetry traces are sent, by OTLP over gRPC without TLS, and the share of what is traced. Empty turns tracing off.")
	fs.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", o.ShutdownTimeout,
		"How long to wait at the end for what is in flight before the lease is given up.")
	fs.Bool("version", false, "Print the version and exit.")
	fs.BoolP("help", "h", false, "Print this help and exit.")
}
