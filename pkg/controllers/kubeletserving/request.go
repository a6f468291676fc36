package kubeletserving

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	// userPrefix is what the API server's node authorizer has before a Node's name.
	userPrefix = "system:node:"
	nodesGroup = "system:nodes"
	// requestMost bounds a request: a kubelet's has less than 1 KiB.
	requestMost = 16 << 10
	// shown is how much of a name that somebody else has chosen goes into a message.
	shown = 80
)

// nodeOf returns the name of the Node whose kubelet asks, "" where it is none.
func nodeOf(csr *certificatesv1.CertificateSigningRequest) string {
	name, ok := strings.CutPrefix(csr.Spec.Username, userPrefix)
	if !ok || csr.Spec.SignerName != certificatesv1.KubeletServingSignerName {
		return ""
	}
	return name
}

// isPending reports whether nobody has decided, and nothing was signed.
func isPending(csr *certificatesv1.CertificateSigningRequest) bool {
	return csr.DeletionTimestamp == nil && len(csr.Status.Conditions) == 0 && len(csr.Status.Certificate) == 0
}

// request is what the certificate is to be valid for.
type request struct {
	ips   []netip.Addr
	names []string
}

// parse returns what is asked for, or why it is not what a kubelet asks for: the rules of the signer
// (https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers), and nothing
// that the signer would leave out.
func parse(csr *certificatesv1.CertificateSigningRequest) (*request, error) {
	if !slices.Contains(csr.Spec.Groups, nodesGroup) {
		return nil, fmt.Errorf("whoever asks is not in group %s", nodesGroup)
	}
	if !usagesFit(csr.Spec.Usages) {
		return nil, errors.New("its usages must be digital signature, server auth and, if need be, key encipherment")
	}
	if len(csr.Spec.Request) > requestMost {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(csr.Spec.Request), requestMost)
	}
	block, rest := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(block.Headers) > 0 || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("it is not one PEM block CERTIFICATE REQUEST")
	}
	x, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it cannot be parsed: %s", text.Line(err.Error(), shown))
	}
	if err := x.CheckSignature(); err != nil {
		return nil, errors.New("it is not signed with its own key")
	}
	if x.Subject.CommonName != csr.Spec.Username || len(x.Subject.Names) != 2 || !slices.Equal(x.Subject.Organization, []string{nodesGroup}) {
		return nil, fmt.Errorf("its subject is %q, not O=%s,CN=%s", text.Clip(x.Subject.String(), shown), nodesGroup, text.Line(csr.Spec.Username, shown))
	}
	return parseNames(x)
}

// usagesFit reports whether usages are one of the two sets that the signer takes.
func usagesFit(usages []certificatesv1.KeyUsage) bool {
	sorted := slices.Sorted(slices.Values(usages))
	least := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	return slices.Equal(sorted, least) || slices.Equal(sorted, slices.Insert(least, 1, certificatesv1.UsageKeyEncipherment))
}

var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// Tags of the names in the extension subjectAltName (RFC 5280, 4.2.1.6).
const tagDNS, tagIP = 2, 7

// parseNames returns the names, which must be DNS names and IP addresses, in the only extension.
func parseNames(x *x509.CertificateRequest) (*request, error) {
	if len(x.Extensions) != 1 || !x.Extensions[0].Id.Equal(subjectAltName) {
		return nil, errors.New("it must have the extension subjectAltName, and no other")
	}
	var all []asn1.RawValue
	if rest, err := asn1.Unmarshal(x.Extensions[0].Value, &all); err != nil || len(rest) > 0 || len(all) == 0 {
		return nil, errors.New("its subjectAltName names nothing")
	}
	for _, n := range all { // package x509 passes over what it does not know
		if n.Class != asn1.ClassContextSpecific || n.Tag != tagDNS && n.Tag != tagIP {
			return nil, errors.New("its subjectAltName has an email address, a URI or something else that is neither a DNS name nor an IP address")
		}
	}
	r := &request{names: x.DNSNames}
	for _, b := range x.IPAddresses {
		ip, ok := netip.AddrFromSlice(b)
		if !ok {
			return nil, errors.New("its subjectAltName has an IP address of a wrong length")
		}
		r.ips = append(r.ips, ip.Unmap())
	}
	if len(r.names)+len(r.ips) != len(all) {
		return nil, errors.New("its subjectAltName cannot be parsed")
	}
	if slices.ContainsFunc(r.names, func(name string) bool { return strings.Contains(name, "*") }) {
		return nil, errors.New("it asks for a wildcard, which no kubelet does, whatever the cloud says that its instance is called")
	}
	return r, nil
}

// isFor returns why r is not for the instance that is the Node of this name, nil where it is.
func (r *request) isFor(node string, instance *cloud.Instance) error {
	ips, names := slices.Clone(instance.OtherIPs), []string{node}
	isNamed := strings.EqualFold(instance.Name, node)
	for _, a := range instance.Addresses {
		switch a.Type {
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			isNamed = isNamed || strings.EqualFold(a.Address, node)
			names = append(names, a.Address)
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				ips = append(ips, ip.Unmap())
			}
		}
	}
	if !isNamed {
		return fmt.Errorf("instance %s has another name than the Node: the Node's provider ID, which a kubelet can set, may be another machine's", instance.ProviderID)
	}
	for _, ip := range r.ips {
		if !slices.Contains(ips, ip) {
			return fmt.Errorf("IP address %s is none of instance %s", ip, instance.ProviderID)
		}
	}
	for _, name := range r.names {
		if !slices.ContainsFunc(names, func(own string) bool { return strings.EqualFold(own, name) }) {
			return fmt.Errorf("DNS name %q is none of instance %s", text.Clip(name, shown), instance.ProviderID)
		}
	}
	return nil
}
