package options

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
)

// ignoredFlag is a flag of the framework's, or of an existing manager's, that has no effect here. It is taken, because manifests
// of other cloud controller managers carry it, which must not keep a cluster without one; unless its
// value asks for what happens anyway, a warning at start says so and what to do instead.
type ignoredFlag struct {
	name string
	// harmless are values that change nothing.
	harmless []string
	// instead tells the user what to do.
	instead string
	// isBool marks flags that may be given without a value.
	isBool bool
}

// ignoredFlags returns all flags of k8s.io/cloud-provider v0.37's options that Options does not have, and some of existing managers.
func ignoredFlags() []ignoredFlag {
	const frontProxy = "clients behind a front proxy are not supported; let them use tokens or, with --client-ca-file, certificates"
	const oneCertificate = "put tls.crt and tls.key with all names into the directory of --webhook-cert-dir"
	const oneListener = "ports are not shared; give each process a --secure-port of its own"
	yes, no := []string{"true"}, []string{"false"}
	return append([]ignoredFlag{
		{name: "allow-untagged-cloud", harmless: no, isBool: true, instead: "how things are marked is set in the cloud's configuration file; remove the flag"},
		{name: "authentication-skip-lookup", harmless: yes, isBool: true, instead: "the cluster's authentication ConfigMap is never read; name the CA with --client-ca-file"},
		{name: "authentication-tolerate-lookup-failure", harmless: yes, isBool: true, instead: "the cluster's authentication ConfigMap is never read; name the CA with --client-ca-file"},
		{name: "controller-start-interval", harmless: []string{"0", "0s"}, instead: "controllers start together; limit the load with --kube-api-qps and --kube-api-burst"},
		{name: "external-cloud-volume-plugin", harmless: []string{""}, instead: "volumes belong to the cloud's CSI driver; remove the flag"},
		{name: "node-sync-period", harmless: []string{"0", "0s"}, instead: "use --node-monitor-period and --route-reconciliation-period"},
		{name: "permit-address-sharing", harmless: no, isBool: true, instead: oneListener},
		{name: "permit-port-sharing", harmless: no, isBool: true, instead: oneListener},
		{name: "requestheader-allowed-names", harmless: []string{""}, instead: frontProxy},
		{name: "requestheader-client-ca-file", harmless: []string{""}, instead: frontProxy},
		{name: "requestheader-extra-headers-prefix", instead: frontProxy},
		{name: "requestheader-group-headers", instead: frontProxy},
		{name: "requestheader-uid-headers", instead: frontProxy},
		{name: "requestheader-username-headers", instead: frontProxy},
		{name: "tls-sni-cert-key", instead: "put all names into the one certificate of --tls-cert-file"},
		{name: "use-service-account-credentials", harmless: no, isBool: true, instead: "all controllers share one least-privileged ServiceAccount; remove the flag"},
		{name: "webhook-tls-cert-file", harmless: []string{""}, instead: oneCertificate},
		{name: "webhook-tls-private-key-file", harmless: []string{""}, instead: oneCertificate},
		{name: "webhook-tls-sni-cert-key", instead: oneCertificate},
	}, ignoredFlagsOfOthers()...)
}

// ignoredFlagsOfOthers are those of existing managers.
func ignoredFlagsOfOthers() []ignoredFlag {
	const together = "instances are tagged many at a time, and requests to the cloud are paced together; remove the flag"
	return []ignoredFlag{
		{name: "node-labels", harmless: []string{""}, instead: "Nodes get labels of yours by their kubelets; give the flag to these"},
		{name: "tagging-controller-burst-limit", harmless: []string{"0"}, instead: together},
		{name: "tagging-controller-concurrent-node-syncs", harmless: []string{"1"}, instead: together},
		{name: "tagging-controller-enable-batching", harmless: []string{"true"}, instead: together, isBool: true},
		{name: "tagging-controller-rate-limit", harmless: []string{"0"}, instead: together},
	}
}

// addIgnoredFlags defines hidden flags that only warn.
func (o *Options) addIgnoredFlags(fs *pflag.FlagSet) {
	for _, i := range ignoredFlags() {
		f := fs.VarPF(&ignoredValue{flag: i, warnings: &o.Warnings}, i.name, "", "No effect: "+i.instead+".")
		f.Hidden = true
		if i.isBool {
			f.NoOptDefVal = "true"
		}
	}
}

// ignoredValue is the pflag.Value of an ignored flag.
type ignoredValue struct {
	flag     ignoredFlag
	value    string
	warnings *[]string
}

// Set implements pflag.Value.
func (v *ignoredValue) Set(s string) error {
	v.value = s
	if !slices.Contains(v.flag.harmless, s) {
		*v.warnings = append(*v.warnings, fmt.Sprintf("--%s=%s has no effect: %s", v.flag.name, s, v.flag.instead))
	}
	return nil
}

// String implements pflag.Value.
func (v *ignoredValue) String() string { return v.value }

// Type implements pflag.Value.
func (v *ignoredValue) Type() string {
	if v.flag.isBool {
		return "bool"
	}
	return "string"
}
