package openstack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

const cidr6 = "fd00:96::/64"

// furnish makes what every check needs.
func (w *World) furnish(ctx context.Context) error {
	if err := w.findImages(ctx); err != nil {
		return err
	}
	return errors.Join(w.makeNetwork(ctx), w.makeCertificate(ctx))
}

func (w *World) findImages(ctx context.Context) error {
	pages, err := flavors.ListDetail(w.compute, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := flavors.ExtractFlavors(pages)
	if err != nil || len(all) == 0 {
		return fmt.Errorf("the cloud has no flavor: %w", err)
	}
	w.flavor = all[0].ID
	for _, f := range all {
		if f.Disk == 0 || f.Name == "k8s.small" {
			w.flavor = f.ID
		}
	}
	return w.findImage(ctx)
}

func (w *World) makeNetwork(ctx context.Context) error {
	yes := true
	pages, err := networks.List(w.neutron, external.ListOptsExt{ListOptsBuilder: networks.ListOpts{}, External: &yes}).AllPages(ctx)
	if err != nil {
		return err
	}
	outside, err := networks.ExtractNetworks(pages)
	if err != nil || len(outside) == 0 {
		return fmt.Errorf("the cloud has no external network: %w", err)
	}
	w.external = outside[0].ID
	n, err := networks.Create(ctx, w.neutron, networks.CreateOpts{Name: w.named("net")}).Extract()
	if err != nil {
		return err
	}
	w.network = n.ID
	s4, err := subnets.Create(ctx, w.neutron, subnets.CreateOpts{NetworkID: n.ID, Name: w.named("v4"), IPVersion: gophercloud.IPv4, CIDR: w.cidr4.String()}).Extract()
	if err != nil {
		return err
	}
	w.subnet4 = s4.ID
	s6, err := subnets.Create(ctx, w.neutron, subnets.CreateOpts{NetworkID: n.ID, Name: w.named("v6"), IPVersion: gophercloud.IPv6, CIDR: cidr6,
		IPv6AddressMode: "dhcpv6-stateful", IPv6RAMode: "dhcpv6-stateful"}).Extract()
	if err != nil {
		return err
	}
	w.subnet6 = s6.ID
	r, err := routers.Create(ctx, w.neutron, routers.CreateOpts{Name: w.named("router"), GatewayInfo: &routers.GatewayInfo{NetworkID: w.external}}).Extract()
	if err != nil {
		return err
	}
	w.router = r.ID
	for _, id := range []string{w.subnet4, w.subnet6} {
		if _, err := routers.AddInterface(ctx, w.neutron, r.ID, routers.AddInterfaceOpts{SubnetID: id}).Extract(); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) named(what string) string { return "conformance-" + what + "-" + w.suffix }

// makeCertificate puts a self-signed certificate into a container of Barbican.
func (w *World) makeCertificate(ctx context.Context) error {
	cert, key, err := selfSigned()
	if err != nil {
		return err
	}
	secret := func(kind secrets.SecretType, payload []byte) (string, error) {
		s, err := secrets.Create(ctx, w.barbican, secrets.CreateOpts{Name: w.named(string(kind)), SecretType: kind, Payload: string(payload),
			PayloadContentType: "text/plain"}).Extract()
		if err != nil {
			return "", fmt.Errorf("make secret %s: %w", kind, err)
		}
		return s.SecretRef, nil
	}
	if w.certPart, err = secret(secrets.CertificateSecret, cert); err != nil {
		return err
	}
	if w.certKey, err = secret(secrets.PrivateSecret, key); err != nil {
		return err
	}
	c, err := containers.Create(ctx, w.barbican, containers.CreateOpts{Type: containers.CertificateContainer, Name: w.named("tls"), SecretRefs: []containers.SecretRef{
		{Name: "certificate", SecretRef: w.certPart}, {Name: "private_key", SecretRef: w.certKey},
	}}).Extract()
	if err != nil {
		return fmt.Errorf("make container: %w", err)
	}
	w.certificate = c.ContainerRef
	return nil
}

func selfSigned() (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "web.example.org"},
		DNSNames: []string{"web.example.org"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// Close takes the World down, with all servers and load balancers that are still there.
func (w *World) Close(ctx context.Context) error {
	errs := []error{w.removeLoadBalancers(ctx), w.removeServers(ctx), w.removeAddresses(ctx)}
	if w.router != "" {
		_, err := routers.Update(ctx, w.neutron, w.router, routers.UpdateOpts{Routes: &[]routers.Route{}}).Extract()
		errs = append(errs, err)
		for _, id := range []string{w.subnet4, w.subnet6} {
			_, err := routers.RemoveInterface(ctx, w.neutron, w.router, routers.RemoveInterfaceOpts{SubnetID: id}).Extract()
			errs = append(errs, gone(err))
		}
		errs = append(errs, gone(routers.Delete(ctx, w.neutron, w.router).ExtractErr()))
	}
	errs = append(errs, w.removePorts(ctx))
	if w.network != "" {
		errs = append(errs, gone(networks.Delete(ctx, w.neutron, w.network).ExtractErr()))
	}
	if w.certificate != "" {
		errs = append(errs, gone(containers.Delete(ctx, w.barbican, lastPart(w.certificate)).ExtractErr()))
	}
	for _, ref := range []string{w.certPart, w.certKey} {
		if ref != "" {
			errs = append(errs, gone(secrets.Delete(ctx, w.barbican, lastPart(ref)).ExtractErr()))
		}
	}
	return errors.Join(errs...)
}

// removePorts deletes the ports of nobody on the network.
func (w *World) removePorts(ctx context.Context) error {
	if w.network == "" {
		return nil
	}
	all, err := w.ports(ctx, ports.ListOpts{NetworkID: w.network})
	errs := []error{err}
	for _, p := range all {
		if p.DeviceOwner == "" {
			errs = append(errs, gone(ports.Delete(ctx, w.neutron, p.ID).ExtractErr()))
		}
	}
	return errors.Join(errs...)
}
