package options

import (
	"fmt"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ccmconfig "k8s.io/cloud-provider/config"
	"k8s.io/cloud-provider/config/install"
	ccmconfigv1alpha1 "k8s.io/cloud-provider/config/v1alpha1"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

// Options are all settings of the cloud controller manager. Create them with New,
// bind them to flags with Flags, check them with Validate.
type Options struct {
	// Component holds the settings that the framework's component configuration has too;
	// /configz shows it in the framework's form.
	Component ccmconfig.CloudControllerManagerConfiguration
	// UserAgent are names that requests to the cloud carry beside the program's.
	UserAgent []string
	// FlagValues are the values of all flags of the program by their names, for /flagz. No flag holds a secret.
	FlagValues map[string]string
	// CloudSettings are those of the cloud's configuration file, for /configz: cloud.Provider's Settings.
	CloudSettings map[string]map[string]string
	// Warnings are about flags that were given and have no effect.
	Warnings []string
	// Master overrides the API server's address of the kubeconfig.
	Master string
	// FeatureGates are set on the framework's gates, e.g. {"Name": "true"}.
	FeatureGates map[string]string
	// DryRun makes a manager that changes nothing, neither in the cloud (cloud.Options.DryRun)
	// nor in the cluster, and needs no lease.
	DryRun bool
	// LeaderMigrationFile is --leader-migration-config; empty for the framework's default.
	LeaderMigrationFile string
	// LabelPersistentVolumes makes '*' in --controllers include PersistentVolumeLabelController:
	// its webhook is turned on.
	LabelPersistentVolumes bool
	// CSITopology says whether node affinity has the CSI driver's own topology key: auto, always or never.
	CSITopology string
	// NodeIPAM are the settings of the node IPAM controller beside --cluster-cidr.
	NodeIPAM NodeIPAM
	// Tagging are the settings of the tagging controller.
	Tagging Tagging
	// Serving is the secure port.
	Serving Serving
	// Auth says who may read the secure port.
	Auth Auth
	// LoadBalancers are the settings of the service controller that the framework's has not.
	LoadBalancers LoadBalancers
	// Logging are the options of component-base.
	Logging *logsapi.LoggingConfiguration
	// TracingConfigFile is where traces are sent; empty for nowhere.
	TracingConfigFile string
	// StartTimeout bounds the checks at start: that the cloud accepts our credentials and
	// that the API server answers.
	StartTimeout time.Duration
	// NodeDeletion are the limits of the deletion guard.
	NodeDeletion deletionguard.Limits
	// ShutdownTimeout bounds the wait for what is in flight when the process ends.
	ShutdownTimeout time.Duration
}

// The values of --persistentvolume-csi-topology.
const (
	CSITopologyAuto   = "auto"
	CSITopologyAlways = "always"
	CSITopologyNever  = "never"
)

// Serving are the settings of the secure port.
type Serving struct {
	BindAddress net.IP
	// Port is the TCP port; 0 turns the secure port off.
	Port int
	// CertDir holds cloud-controller-manager.crt and .key; a self-signed pair is written there when there is none.
	CertDir string
	// CertFile and KeyFile take precedence over CertDir.
	CertFile, KeyFile string
	// MinTLSVersion, CipherSuites and CurvePreferences are Go's names and numbers; empty means Go's defaults.
	MinTLSVersion    string
	CipherSuites     []string
	CurvePreferences []int32
	DisableHTTP2     bool
	// MaxStreams is the number of HTTP/2 streams a connection; 0 means Go's default.
	MaxStreams int
	// Listener replaces BindAddress and Port when set (tests).
	Listener net.Listener
}

// Auth says how clients of the secure port are authenticated and authorized: by
// TokenReview and SubjectAccessReview at the API server.
type Auth struct {
	// AuthenticationKubeconfig and AuthorizationKubeconfig name the API server that is asked; empty means --kubeconfig.
	AuthenticationKubeconfig, AuthorizationKubeconfig string
	// ClientCAFile verifies client certificates; empty means that certificates are not looked at.
	ClientCAFile string
	// TokenTTL, AllowTTL and DenyTTL are how long answers are remembered.
	TokenTTL, AllowTTL, DenyTTL time.Duration
	// RequestTimeout bounds one question.
	RequestTimeout time.Duration
	// AlwaysAllowPaths are served to everyone.
	AlwaysAllowPaths []string
}

// serviceSyncs is the default of --concurrent-service-syncs. The framework's is 1, with which each
// Service waits for the cloud's answers to the one before. No worker waits for what the cloud does
// after it has answered, and how much a cloud is asked at a time its provider bounds by what it can
// do; so a worker is a goroutine of some kilobytes.
const serviceSyncs = 100

// nodeSyncs is the default of --concurrent-node-syncs. The framework's is 1, with which each write of
// each Node waits for that of the one before; the cloud is asked about all of them at once in any case.
const nodeSyncs = 10

// Unlimited is the default of --kube-api-qps. The framework's is 20, with which 500 new Nodes wait
// 75 s for this process itself. The API server protects itself: API Priority and Fairness gives each
// flow its share, leases a level of their own, and client-go waits as long as a 429 says.
const Unlimited = -1

// New returns the defaults, which are the framework's but for serviceSyncs, nodeSyncs and Unlimited.
func New() (*Options, error) {
	versioned := &ccmconfigv1alpha1.CloudControllerManagerConfiguration{}
	install.Scheme.Default(versioned)
	o := &Options{
		Logging:         logsapi.NewLoggingConfiguration(),
		CSITopology:     CSITopologyAuto,
		StartTimeout:    30 * time.Second,
		ShutdownTimeout: 30 * time.Second,
		LoadBalancers:   defaultLoadBalancers(),
		NodeDeletion:    deletionguard.Limits{Count: 3, Percent: 45, Settle: 10 * time.Minute},
		Serving:         Serving{BindAddress: net.IPv4zero, Port: 10258},
		Auth: Auth{
			TokenTTL:         10 * time.Second,
			AllowTTL:         10 * time.Second,
			DenyTTL:          10 * time.Second,
			RequestTimeout:   10 * time.Second,
			AlwaysAllowPaths: []string{"/healthz", "/readyz", "/livez"},
		},
	}
	if err := install.Scheme.Convert(versioned, &o.Component, nil); err != nil {
		return nil, fmt.Errorf("defaults of the component configuration: %w", err)
	}
	o.Component.Generic.LeaderElection.ResourceName = "cloud-controller-manager"
	o.Component.Generic.LeaderElection.ResourceNamespace = metav1.NamespaceSystem
	o.Component.Generic.Debugging.EnableProfiling = true
	o.Component.KubeCloudShared.CIDRAllocatorType = AllocatorRange
	o.Component.Generic.ClientConnection.QPS = Unlimited
	o.Component.NodeController.ConcurrentNodeSyncs = nodeSyncs
	o.Component.ServiceController.ConcurrentServiceSyncs = serviceSyncs
	return o, nil
}

// Names of the objects that /configz shows.
const (
	configzComponent = "cloudcontrollermanager.config.k8s.io"
	configzOurs      = "isthmus-cloud.github.io"
)

// settings are all that the program is told, the framework's settings as well.
type settings struct {
	metav1.TypeMeta `json:",inline"`
	// Flags are the values of all flags by their names, those that were not given with their defaults.
	Flags map[string]string `json:"flags"`
	// CloudConfig has the values of cloud.conf by section and key; a secret is told to be one.
	CloudConfig map[string]map[string]string `json:"cloudConfig,omitempty"`
}

// Configz is what /configz shows, by name: the framework's versioned form of Component, and all settings of ours.
func (o *Options) Configz() (map[string]any, error) {
	component := &ccmconfigv1alpha1.CloudControllerManagerConfiguration{}
	if err := install.Scheme.Convert(&o.Component, component, nil); err != nil {
		return nil, fmt.Errorf("convert the component configuration for /configz: %w", err)
	}
	component.SetGroupVersionKind(ccmconfigv1alpha1.SchemeGroupVersion.WithKind("CloudControllerManagerConfiguration"))
	return map[string]any{configzComponent: component, configzOurs: &settings{
		TypeMeta: metav1.TypeMeta{Kind: "CloudControllerManagerSettings", APIVersion: configzOurs + "/v1"}, Flags: o.FlagValues, CloudConfig: o.CloudSettings,
	}}, nil
}
