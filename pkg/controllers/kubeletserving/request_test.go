package kubeletserving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// wanted is what a kubelet asks for.
func wanted(name string) x509.CertificateRequest {
	return x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: userPrefix + name, Organization: []string{nodesGroup}},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("fd00::1")},
	}
}

func encode(t testing.TB, x x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// csrOf is the request of a Node's kubelet.
func csrOf(name string, request []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeletServingSignerName, Username: userPrefix + name,
			Groups: []string{nodesGroup, "system:authenticated"}, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature},
		},
	}
}

func TestParseTakesWhatKubeletsAskFor(t *testing.T) {
	csr := csrOf("n", encode(t, wanted("n")))
	r, err := parse(csr)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.names) != 1 || len(r.ips) != 2 || r.ips[0] != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("%+v", r)
	}
	csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.UsageKeyEncipherment) // of RSA keys
	if _, err := parse(csr); err != nil {
		t.Error(err)
	}
}

func TestParseRefusesAllElse(t *testing.T) {
	type (
		csr = certificatesv1.CertificateSigningRequest
		x   = x509.CertificateRequest
	)
	raw := func(tags ...int) []byte {
		var all []asn1.RawValue
		for _, tag := range tags {
			all = append(all, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, IsCompound: tag == 4, Bytes: []byte{10, 0, 0, 1}})
		}
		value, err := asn1.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	bare := func(x *x, extensions ...pkix.Extension) {
		x.DNSNames, x.IPAddresses, x.ExtraExtensions = nil, nil, extensions
	}
	for _, tt := range []struct {
		name, want string
		ask        func(*x)
		spec       func(*csr)
	}{
		{name: "group", want: "not in group", spec: func(c *csr) { c.Spec.Groups = []string{"system:authenticated"} }},
		{name: "client auth", want: "usages", spec: func(c *csr) { c.Spec.Usages[0] = certificatesv1.UsageClientAuth }},
		{name: "client auth too", want: "usages", spec: func(c *csr) { c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageClientAuth) }},
		{name: "usage twice", want: "usages", spec: func(c *csr) { c.Spec.Usages[0] = c.Spec.Usages[1] }},
		{name: "no usages", want: "usages", spec: func(c *csr) { c.Spec.Usages = nil }},
		{name: "large", want: "more than 16384", spec: func(c *csr) { c.Spec.Request = append(c.Spec.Request, make([]byte, requestMost)...) }},
		{name: "two blocks", want: "one PEM block", spec: func(c *csr) { c.Spec.Request = append(c.Spec.Request, c.Spec.Request...) }},
		{name: "no PEM", want: "one PEM block", spec: func(c *csr) { c.Spec.Request = []byte("nothing") }},
		{name: "other PEM", want: "one PEM block", spec: func(c *csr) {
			c.Spec.Request = []byte(strings.ReplaceAll(string(c.Spec.Request), "CERTIFICATE REQUEST", "CERTIFICATE"))
		}},
		{name: "garbage", want: "cannot be parsed", spec: func(c *csr) {
			c.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("garbage")})
		}},
		{name: "signature", want: "own key", spec: func(c *csr) {
			b, _ := pem.Decode(c.Spec.Request)
			b.Bytes[len(b.Bytes)-1] ^= 1
			c.Spec.Request = pem.EncodeToMemory(b)
		}},
		{name: "other node", want: "subject", ask: func(x *x) { x.Subject.CommonName = userPrefix + "other" }},
		{name: "no organization", want: "subject", ask: func(x *x) { x.Subject.Organization = nil }},
		{name: "masters", want: "subject", ask: func(x *x) { x.Subject.Organization = []string{"system:masters"} }},
		{name: "masters too", want: "subject", ask: func(x *x) { x.Subject.Organization = append(x.Subject.Organization, "system:masters") }},
		{name: "more of a subject", want: "subject", ask: func(x *x) { x.Subject.OrganizationalUnit = []string{"a"} }},
		{name: "wildcard", want: "wildcard", ask: func(x *x) { x.DNSNames = append(x.DNSNames, "*.internal") }},
		{name: "email", want: "email", ask: func(x *x) { x.EmailAddresses = []string{"a@example.org"} }},
		{name: "URI", want: "URI", ask: func(x *x) { x.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }},
		{name: "directory name", want: "neither", ask: func(x *x) { bare(x, pkix.Extension{Id: subjectAltName, Value: raw(tagIP, 4)}) }},
		{name: "registered ID", want: "neither", ask: func(x *x) { bare(x, pkix.Extension{Id: subjectAltName, Value: raw(tagIP, 8)}) }},
		{name: "empty names", want: "nothing", ask: func(x *x) { bare(x, pkix.Extension{Id: subjectAltName, Value: raw()}) }},
		{name: "no names", want: "subjectAltName", ask: func(x *x) { bare(x) }},
		{name: "certificate authority", want: "and no other", ask: func(x *x) {
			x.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := wanted("n")
			if tt.ask != nil {
				tt.ask(&x)
			}
			c := csrOf("n", encode(t, x))
			if tt.spec != nil {
				tt.spec(c)
			}
			if r, err := parse(c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v; want %q", r, err, tt.want)
			}
		})
	}
}

func TestNamesMustBeTheInstances(t *testing.T) {
	instance := &cloud.Instance{
		ProviderID: "fake:///1", Name: "Node-1", OtherIPs: []netip.Addr{netip.MustParseAddr("10.0.1.1")},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: "fd00::1"},
			{Type: corev1.NodeInternalDNS, Address: "ip-1.internal"}, {Type: corev1.NodeHostName, Address: "10.0.0.9"}},
	}
	for _, tt := range []struct {
		node, want string
		ips, names []string
	}{
		{node: "node-1", ips: []string{"10.0.0.1", "fd00::1", "10.0.1.1"}, names: []string{"node-1", "IP-1.internal"}},
		{node: "ip-1.internal", names: []string{"ip-1.internal"}},
		{node: "ip-1.internal", names: []string{"node-1"}, want: `DNS name "node-1"`},
		{node: "node-2", names: []string{"node-2"}, want: "another name"},
		{node: "node-1", ips: []string{"10.0.0.1", "10.0.0.2"}, want: "IP address 10.0.0.2"},
		{node: "node-1", ips: []string{"10.0.0.9"}, want: "IP address 10.0.0.9"},
		{node: "node-1", ips: []string{"127.0.0.1"}, want: "IP address 127.0.0.1"},
		{node: "node-1", names: []string{"*.internal"}, want: "DNS name"},
		{node: "node-1", names: []string{""}, want: "DNS name"},
		{node: "node-1", names: []string{"kubernetes.default.svc"}, want: "DNS name"},
		{node: "node-1", names: []string{"10.0.0.1"}, want: "DNS name"},
		{node: "node-1", names: []string{"node-1."}, want: "DNS name"},
	} {
		r := &request{names: tt.names}
		for _, ip := range tt.ips {
			r.ips = append(r.ips, netip.MustParseAddr(ip))
		}
		if err := r.isFor(tt.node, instance); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// Nothing that a node may write makes it panic, or wait.
func FuzzParse(f *testing.F) {
	f.Add(encode(f, wanted("n")))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		if r, err := parse(csrOf("n", request)); err == nil && len(r.ips)+len(r.names) == 0 {
			t.Error("a certificate for nothing")
		}
	})
}
