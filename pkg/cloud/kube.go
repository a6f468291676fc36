package cloud

import "context"

// Kube is all that a provider gets of the cluster: the objects that its configuration names, which
// it lists in Provider.KubeObjects.
type Kube interface {
	// WatchSecret calls on with the Secret's data now and after each change until ctx ends, one
	// call at a time; nil is a Secret that does not exist. It fails where the Secret may not be read.
	WatchSecret(ctx context.Context, namespace, name string, on func(data map[string][]byte)) error
	// ConfigMap returns the data, made from initial where there is none.
	ConfigMap(ctx context.Context, namespace, name string, initial map[string]string) (map[string]string, error)
}

// The kinds of a KubeObject.
const (
	KubeSecret    = "Secret"    // for WatchSecret
	KubeConfigMap = "ConfigMap" // for ConfigMap
)

// KubeObject is an object of the cluster that a provider uses by Kube.
type KubeObject struct{ Kind, Namespace, Name string }
