package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

const (
	kubeletServingRoles    = "components/kubelet-serving-csr-approver/rbac.yaml"
	kubeletServingApprover = "--controllers=kubelet-serving-csr-approver-controller"
)

// kubelets may do what they may where there is a node authorizer.
const kubelets = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kubelets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:node"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}]
`

// pair makes a key and a certificate authority, as files.
func pair(t *testing.T) (certificate, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubelets"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for file, data := range map[string][]byte{certificate: authority, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return certificate, key, pool
}

// asKubelet asks for a serving certificate, as the kubelet of the Node does, with what change makes of it.
func (c *cluster) asKubelet(node, name string, server ossim.Server, change func(*x509.CertificateRequest)) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	x := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}, DNSNames: []string{node}}
	for _, a := range server.Addresses {
		x.IPAddresses = append(x.IPAddresses, a.AsSlice())
	}
	if change != nil {
		change(x)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, x, key)
	if err != nil {
		c.t.Fatal(err)
	}
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = client.CertificatesV1().CertificateSigningRequests().Create(c.t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) csr(name string) *certificatesv1.CertificateSigningRequest {
	c.t.Helper()
	csr, err := c.client.CertificatesV1().CertificateSigningRequests().Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return csr
}

// wantLeft waits for the Event that says why a request stays as it is, and checks that it does.
func (c *cluster) wantLeft(name, why string) {
	c.t.Helper()
	eventually.Met(c.t, func() string {
		if events := c.eventsOf(name); !strings.Contains(events, why) {
			return fmt.Sprintf("%s: events %q, want %q", name, events, why)
		}
		return ""
	})
	if s := c.csr(name).Status; len(s.Conditions) > 0 || len(s.Certificate) > 0 {
		c.t.Errorf("%s is decided: %+v", name, s.Conditions)
	}
}

func (c *cluster) wantApproved(name string) {
	c.t.Helper()
	eventually.Met(c.t, func() string {
		if s := c.csr(name).Status; len(s.Conditions) != 1 || s.Conditions[0].Type != certificatesv1.CertificateApproved {
			return fmt.Sprintf("%s is not approved: %+v, %s", name, s.Conditions, c.eventsOf(name))
		}
		return ""
	})
}

// The real kube-controller-manager signs what is approved with the rights that ship.
func TestKubeletServingCertificates(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})
	c.register(servers, always(nodeState{initialized: true}))
	certificate, key, pool := pair(t)
	c.StartControllerManager(t, "--leader-elect=false", "--controllers=certificatesigningrequest-signing-controller",
		"--cluster-signing-kubelet-serving-cert-file="+certificate, "--cluster-signing-kubelet-serving-key-file="+key)
	name := servers[0].Name
	c.asKubelet(name, "before", servers[0], nil) // the start of the controller
	c.startCCM(sim, kubeletServingApprover)
	var signed []byte
	eventually.Met(t, func() string {
		if signed = c.csr("before").Status.Certificate; len(signed) == 0 {
			return "it is not signed: " + c.eventsOf("before")
		}
		return ""
	})
	block, _ := pem.Decode(signed)
	if block == nil {
		t.Fatalf("no certificate: %s", signed)
	}
	x, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{name, servers[0].Addresses[0].String()} {
		if _, err := x.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if left := c.csr("before").Status.Conditions; len(left) != 1 || left[0].Reason != "InstanceAddresses" {
		t.Errorf("conditions %+v", left)
	}
}

// Each Node asks once, so that none has to wait for another request of its own.
func TestKubeletServingCertificatesThatAreNotSure(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 12, NamePrefix: "node-"})
	c.register(servers[:10], always(nodeState{initialized: true}))
	c.register(servers[10:11], always(nodeState{}))
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, cloud.ExcludeNode)
	if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), servers[0].Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	// A node that has made itself anew with another's provider ID.
	thief := nodeOf(servers[1], nodeState{initialized: true})
	thief.Name = "thief"
	c.create(thief)
	elsewhere := nodeOf(servers[2], nodeState{initialized: true})
	elsewhere.Name, elsewhere.Spec.ProviderID = "elsewhere", "aws:///a/i-1"
	c.create(elsewhere)
	c.startCCM(sim, kubeletServingApprover)
	for _, tt := range []struct {
		node, why string
		server    ossim.Server
		change    func(*x509.CertificateRequest)
	}{
		{servers[0].Name, cloud.ExcludeNode, servers[0], nil},
		{"thief", "another name than the Node", servers[1], nil},
		{"elsewhere", "not this cloud's", servers[2], nil},
		{servers[3].Name, "IP address " + servers[4].Addresses[0].String() + " is none of", servers[4], nil},
		{servers[4].Name, "DNS name \"kubernetes.default.svc\" is none of", servers[4], func(x *x509.CertificateRequest) { x.DNSNames = append(x.DNSNames, "kubernetes.default.svc") }},
		{servers[5].Name, "email address", servers[5], func(x *x509.CertificateRequest) { x.EmailAddresses = []string{"a@example.org"} }},
		{servers[6].Name, "a URI", servers[6], func(x *x509.CertificateRequest) { x.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }},
		{servers[7].Name, "its subject is", servers[7], func(x *x509.CertificateRequest) { x.Subject.CommonName = "system:node:" + servers[8].Name }},
		{servers[8].Name, "its subject is", servers[8], func(x *x509.CertificateRequest) { x.Subject.Organization = []string{"system:masters"} }},
		{servers[9].Name, "subjectAltName", servers[9], func(x *x509.CertificateRequest) { x.DNSNames, x.IPAddresses = nil, nil }},
		{servers[10].Name, "no provider ID yet", servers[10], nil},
		{servers[11].Name, "there is no Node", servers[11], nil},
	} {
		c.asKubelet(tt.node, "of-"+tt.node, tt.server, tt.change)
		c.wantLeft("of-"+tt.node, tt.why)
	}
}

// What the cloud cannot tell now is tried again, and loopback is nobody's.
func TestKubeletServingCertificatesWhileTheCloudIsDown(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-"})
	c.register(servers, always(nodeState{initialized: true}))
	c.startFastCCM(sim, kubeletServingApprover)
	down := sim.AddFault(ossim.Fault{Service: "compute", Status: http.StatusServiceUnavailable})
	c.asKubelet(servers[0].Name, "during", servers[0], nil)
	c.wantLeft("during", "the cloud does not say")
	down()
	c.wantApproved("during")
	c.asKubelet(servers[1].Name, "loopback", servers[1], func(x *x509.CertificateRequest) { x.IPAddresses = append(x.IPAddresses, net.IPv4(127, 0, 0, 1)) })
	c.wantLeft("loopback", "IP address 127.0.0.1 is none of")
}

// A node that floods gets its newest request looked into, while another gets what it asks for.
func TestKubeletServingCertificatesInAFlood(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-"})
	c.register(servers, always(nodeState{initialized: true}))
	const flood = 200
	for n := range flood {
		c.asKubelet(servers[0].Name, fmt.Sprint("flood-", n), servers[0], nil)
	}
	c.startCCM(sim, kubeletServingApprover)
	c.asKubelet(servers[1].Name, "other", servers[1], nil)
	c.wantApproved("other")
	list, err := c.client.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	decided := 0
	for _, csr := range list.Items {
		if len(csr.Status.Conditions) > 0 && csr.Name != "other" {
			decided++
		}
	}
	if len(list.Items) != flood+1 || decided > flood/10 {
		t.Errorf("%d of %d requests of one Node are decided", decided, len(list.Items))
	}
}
