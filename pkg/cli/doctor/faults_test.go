package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/manifests"
)

// fault is a misconfiguration, and how it is to be found.
type fault struct {
	name                   string
	check, object, message string
	// code is the exit code: 0 for a warning.
	code int
	// conf changes the configuration, cluster the cluster or the cloud; either may be nil.
	conf    func(s *set, conf string) string
	cluster func(s *set)
	// only is the one cloud that can have it, "" for each but one; args are further flags, nil for none.
	only, not string
	args      func(s *set) []string
}

// on reports whether a cloud can have it.
func (f *fault) on(cloud string) bool { return f.not != cloud && (f.only == "" || f.only == cloud) }

// faults are the misconfigurations.
var faults = []fault{
	{name: "no cloud.conf", check: "cloud-config", message: "no such file", code: 1, conf: func(*set, string) string { return "" }},
	{name: "a key of cloud.conf is misspelled", not: onSupervisor, check: "cloud-config", message: "zz", code: 0, conf: func(s *set, conf string) string {
		return strings.Replace(conf, s.key, "zz"+s.key, 1)
	}},
	{name: "cloud.conf is none", check: "cloud-config", message: "", code: 1, conf: func(*set, string) string { return "[Global\n{" }},
	{name: "credentials are refused", check: "credentials", message: "", code: 1, conf: func(s *set, conf string) string { return s.deny(s.t, conf) }},
	{name: "nobody answers at the endpoint", check: "credentials", message: "", code: 1, conf: func(s *set, conf string) string { return s.away(s.t, conf) }},

	{name: "nobody has led", check: "manager", object: "lease kube-system/cloud-controller-manager", message: "no cloud controller manager has led", code: 1, cluster: func(s *set) {
		s.must(s.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(s.t.Context(), managerLease, metav1.DeleteOptions{}))
		s.t.Cleanup(func() { s.lease(later) })
	}},
	{name: "nobody leads any more", check: "manager", object: managerLease, message: "has not renewed it for 1h", code: 1, cluster: func(s *set) {
		s.lease(0)
		s.t.Cleanup(func() { s.lease(later) })
	}},
	{name: "a right of the controller manager is missing", check: "permissions", object: manifests.ServiceAccount, message: "delete nodes", code: 1, cluster: func(s *set) {
		s.editRole(func(r *rbacv1.ClusterRole) { r.Rules = r.Rules[1:] })
	}},

	{name: "no instance has the Node's name", check: "nodes", object: "node/stranger", message: "no instance matches it", code: 1, cluster: func(s *set) {
		s.node(s.waiting("stranger", ""))
	}},
	{name: "the instance of a Node is gone", check: "nodes", object: "node/gone", message: "is not there", code: 1, cluster: func(s *set) {
		s.node(s.waiting("gone", s.UnknownID()))
	}},
	{name: "a Node of another cloud", check: "nodes", object: "node/other", message: "nothing is done for it", code: 0, cluster: func(s *set) {
		s.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: corev1.NodeSpec{ProviderID: "other://1"}})
	}},
	{name: "two Nodes of one instance", check: "nodes", object: "node/", message: "the same instance as node/", code: 1, cluster: func(s *set) {
		n := nodeOf(s.instances[0])
		n.Name = "twin"
		s.node(n)
	}},
	{name: "addresses of another machine", check: "nodes", object: "node/", message: "none of its addresses", code: 1, cluster: func(s *set) {
		i, err := s.MakeInstance(s.t.Context(), "elsewhere")
		s.must(err)
		n := nodeOf(i)
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.51.100.7"}}
		s.node(n)
	}},
	{name: "a kubelet runs without --cloud-provider=external", check: "nodes", object: "node/", message: "nobody initializes it", code: 1, cluster: func(s *set) {
		i, err := s.MakeInstance(s.t.Context(), "unmanaged")
		s.must(err)
		n := nodeOf(i)
		n.Spec.ProviderID = ""
		s.node(n)
	}},
	{name: "an instance has moved to another zone", check: "nodes", object: "node/", message: "for the wrong place", code: 0, cluster: func(s *set) {
		s.otherLabel("moved", corev1.LabelTopologyZone)
	}},
	{name: "a Node has the label of another region", not: onSupervisor, check: "nodes", object: "node/", message: corev1.LabelTopologyRegion, code: 0, cluster: func(s *set) {
		s.otherLabel("abroad", corev1.LabelTopologyRegion)
	}},
	{name: "a Node has no pod CIDR, and others have", check: "nodes", object: "node/", message: "has no pod CIDR", code: 0, cluster: func(s *set) {
		s.routed("with-cidr", "")
	}},
	{name: "a Node has no pod CIDR, and others have routes", not: onVSphere, check: "nodes", object: "node/", message: "has no pod CIDR", code: 1, cluster: func(s *set) {
		s.routed("with-route", "RouteCreated")
	}},
	{name: "the pod routes of a Node are not made", not: onVSphere, check: "nodes", object: "node/", message: "routes to its Pods", code: 1, cluster: func(s *set) {
		s.routed("without-route", "NoRouteCreated")
	}},
	{name: "a Node is never initialized", check: "taints", object: "node/", message: cloudproviderapi.TaintExternalCloudProvider, code: 1, cluster: func(s *set) {
		i, err := s.MakeInstance(s.t.Context(), "uninitialized")
		s.must(err)
		s.node(s.waiting(i.Ref.NodeName, ""))
	}},
	{name: "a Node of another cloud waits for this one", check: "taints", object: "node/other", message: "nothing to do with it", code: 1, cluster: func(s *set) {
		s.node(s.waiting("other", "other://1"))
	}},
	{name: "the taint of a machine that was off stays", check: "taints", object: "node/", message: cloudproviderapi.TaintNodeShutdown, code: 1, cluster: func(s *set) {
		i, err := s.MakeInstance(s.t.Context(), "runs-again")
		s.must(err)
		n := nodeOf(i)
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintNodeShutdown, Effect: corev1.TaintEffectNoSchedule}}
		s.node(n)
	}},

	{name: "a Service gets no address", check: "services", object: "service/default/stuck", message: "SyncLoadBalancerFailed: quota is used up", code: 1, cluster: func(s *set) {
		v := s.service("stuck", "")
		s.event(v, serviceController, "SyncLoadBalancerFailed", "quota is used up")
		s.event(v, "ipallocator-repair-controller", "ClusterIPNotAllocated", "Cluster IP 10.0.0.110 is not allocated; repairing")
		former := v.DeepCopy()
		former.UID = "former"
		s.event(former, serviceController, "SyncLoadBalancerFailed", "the former one's")
	}},
	{name: "nobody serves a Service", check: "services", object: "service/default/unserved", message: "no event", code: 1, cluster: func(s *set) {
		s.event(s.service("unserved", ""), "ipallocator-repair-controller", "ClusterIPNotAllocated", "Cluster IP 10.0.0.110 is not allocated; repairing")
	}},
	{name: "nobody serves a Service of a class of the cloud", not: onVSphere, check: "services", object: "service/default/classed", message: "no event", code: 1, cluster: func(s *set) {
		s.service("classed", "", ofClass("isthmus-cloud.github.io/"+s.Provider))
	}},
	{name: "the class of a Service is misspelled", not: onVSphere, check: "services", object: "service/default/misspelled", message: "nobody serves the class", code: 1, cluster: func(s *set) {
		s.service("misspelled", "", ofClass("isthmus-cloud.github.io/"+s.Provider+"-zz"))
	}},
	{name: "the load balancer of a deleted Service stays", check: "services", object: "service/default/leaving", message: "is being deleted", code: 1, cluster: func(s *set) {
		s.leaving("leaving")
	}},

	{name: "a webhook without authorities", check: "webhooks", object: "mutatingwebhookconfiguration/faulty", message: "no caBundle", code: 1, cluster: func(s *set) { s.webhook(nil, true, admissionregistrationv1.Fail) }},
	{name: "a webhook whose authority has ended", check: "webhooks", object: "mutatingwebhookconfiguration/faulty", message: "caBundle ended at", code: 1, cluster: func(s *set) {
		s.webhook(s.authority(time.Minute), true, admissionregistrationv1.Fail)
	}},
	{name: "a webhook whose authority ends soon", check: "webhooks", object: "mutatingwebhookconfiguration/faulty", message: "caBundle ends at", code: 0, cluster: func(s *set) {
		s.webhook(s.authority(later+24*time.Hour), true, admissionregistrationv1.Ignore)
	}},
	{name: "a webhook without Service", check: "webhooks", object: "mutatingwebhookconfiguration/faulty", message: "does not exist", code: 1, cluster: func(s *set) {
		s.webhook(s.authority(later+365*24*time.Hour), false, admissionregistrationv1.Fail)
	}},
	{name: "no pod behind a webhook is ready", check: "webhooks", object: "mutatingwebhookconfiguration/faulty", message: "no pod behind its Service", code: 0, cluster: func(s *set) {
		s.webhook(s.authority(later+365*24*time.Hour), true, admissionregistrationv1.Ignore)
		s.slice(false)
	}},

	{name: "a kubelet newer than the API server", check: "versions", object: "node/", message: "may not be newer", code: 0, cluster: func(s *set) { s.kubelet("newer", "v1.99.0") }},
	{name: "a kubelet much older than the API server", check: "versions", object: "node/", message: "v1.20.0", code: 0, cluster: func(s *set) { s.kubelet("older", "v1.20.0") }},
}

// allFaults are the misconfigurations of every cloud.
func allFaults() []fault {
	return slices.Concat(faults, faultsOfInstallation, faultsOfMachines, faultsOfOpenStack, faultsOfAWS, faultsOfVSphere)
}

// ofClass gives a Service a class.
func ofClass(class string) func(*corev1.Service) {
	return func(v *corev1.Service) { v.Spec.LoadBalancerClass = &class }
}

// more adds lines to a configuration.
func more(lines string) func(*set, string) string {
	return func(_ *set, conf string) string { return conf + "\n" + lines + "\n" }
}

// faultsOfMachines are of what a machine has.
var faultsOfMachines = []fault{
	{name: "a kubelet's configuration has no provider", check: "kubelet", object: "credential-provider.yaml", message: "the kubelet does not start", code: 1,
		args: func(s *set) []string {
			file := filepath.Join(s.t.TempDir(), "credential-provider.yaml")
			s.must(os.WriteFile(file, []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"), 0o600))
			return []string{"--image-credential-provider-config", file}
		}},
}

// lease makes who leads renew its lease so long from now.
func (s *set) lease(in time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	leases := s.Client.CoordinationV1().Leases(metav1.NamespaceSystem)
	_ = leases.Delete(ctx, managerLease, metav1.DeleteOptions{}) // there may be none
	who, seconds, at := "manager-0", int32(15), metav1.NewMicroTime(time.Now().Add(in))
	_, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: managerLease},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds, RenewTime: &at}}, metav1.CreateOptions{})
	s.must(err)
}

// clean removes what newSet has made and no Cleanup removes.
func (s *set) clean() {
	_ = s.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(context.Background(), managerLease, metav1.DeleteOptions{})
}

// editRole changes the controller manager's role until the test ends.
func (s *set) editRole(edit func(*rbacv1.ClusterRole)) {
	roles := s.Client.RbacV1().ClusterRoles()
	role, err := roles.Get(s.t.Context(), manifests.ServiceAccount, metav1.GetOptions{})
	s.must(err)
	rules := role.Rules
	edit(role)
	role, err = roles.Update(s.t.Context(), role, metav1.UpdateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error {
		role.Rules = rules
		_, err := roles.Update(ctx, role, metav1.UpdateOptions{})
		return err
	})
}

// waiting is a Node that is not initialized.
func (s *set) waiting(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID,
		Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}}}
}

// otherLabel makes a Node with a label that its instance does not have.
func (s *set) otherLabel(name, key string) {
	i, err := s.MakeInstance(s.t.Context(), name)
	s.must(err)
	n := nodeOf(i)
	n.Labels = map[string]string{key: "elsewhere"}
	s.node(n)
}

// routed makes a Node with a pod CIDR, and what the route controller says of it, if anything.
func (s *set) routed(name, reason string) {
	i, err := s.MakeInstance(s.t.Context(), name)
	s.must(err)
	n := nodeOf(i)
	n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.98.0.0/24", []string{"10.98.0.0/24"}
	if reason != "" {
		status := corev1.ConditionTrue
		if reason == "RouteCreated" {
			status = corev1.ConditionFalse
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: status, Reason: reason}}
	}
	s.node(n)
}

func (s *set) kubelet(name, version string) {
	i, err := s.MakeInstance(s.t.Context(), name)
	s.must(err)
	n := nodeOf(i)
	n.Status.NodeInfo.KubeletVersion = version
	s.node(n)
}

func (s *set) event(v *corev1.Service, component, reason, message string) {
	events := s.Client.CoreV1().Events(v.Namespace)
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: v.Name + "."}, Type: corev1.EventTypeWarning, Reason: reason, Message: message, Source: corev1.EventSource{Component: component},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: v.Namespace, Name: v.Name, UID: v.UID}, LastTimestamp: metav1.Now()}
	e, err := events.Create(s.t.Context(), e, metav1.CreateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error { return events.Delete(ctx, e.Name, metav1.DeleteOptions{}) })
}

// leaving makes a Service that is being deleted, an hour before doctor looks.
func (s *set) leaving(name string) {
	services := s.Client.CoreV1().Services("default")
	v, err := services.Create(s.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"service.kubernetes.io/load-balancer-cleanup"}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error {
		_, err := services.Patch(ctx, v.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
	s.must(services.Delete(s.t.Context(), name, metav1.DeleteOptions{}))
}

// authority is a certificate that ends so long from now.
func (s *set) authority(in time.Duration) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(in)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	s.must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// webhook registers one that the API server never has to ask, with or without its Service.
func (s *set) webhook(bundle []byte, hasService bool, policy admissionregistrationv1.FailurePolicyType) {
	none, name := admissionregistrationv1.SideEffectClassNone, "webhook"
	m := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "faulty"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
		Name: "persistentvolume-label.isthmus-cloud.github.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &policy,
		ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: bundle, Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: name}},
	}}}
	all := s.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := all.Create(s.t.Context(), m, metav1.CreateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error { return all.Delete(ctx, m.Name, metav1.DeleteOptions{}) })
	if !hasService {
		return
	}
	services := s.Client.CoreV1().Services("default")
	_, err = services.Create(s.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}, metav1.CreateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error { return services.Delete(ctx, name, metav1.DeleteOptions{}) })
}

// slice gives the webhook's Service a pod.
func (s *set) slice(ready bool) {
	slices := s.Client.DiscoveryV1().EndpointSlices("default")
	e, err := slices.Create(s.t.Context(), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "webhook-1", Labels: map[string]string{discoveryv1.LabelServiceName: "webhook"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.9"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}}, metav1.CreateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error { return slices.Delete(ctx, e.Name, metav1.DeleteOptions{}) })
}
