package openstack_test

import (
	"net/http"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func payload(t *testing.T, c *gophercloud.ServiceClient, id, accept string) (string, error) {
	t.Helper()
	got, err := secrets.GetPayload(t.Context(), c, id, secrets.GetPayloadOpts{PayloadContentType: accept}).Extract()
	return string(got), err
}

func TestSecrets(t *testing.T) {
	sim := ossim.ForTest(t)
	c := serviceClient(t, sim, openstack.NewKeyManagerV1)
	tests := []struct {
		name    string
		opts    secrets.CreateOpts
		payload string
		kind    string
	}{
		{"text", secrets.CreateOpts{Name: "a", Payload: "hello", PayloadContentType: "text/plain"}, "hello", "text/plain"},
		{"text with charset", secrets.CreateOpts{Name: "b", Payload: "hello", PayloadContentType: "text/plain; charset=utf-8"}, "hello", "text/plain"},
		{"binary", secrets.CreateOpts{Name: "c", Payload: "AAEC/w==", PayloadContentType: "application/octet-stream", PayloadContentEncoding: "base64"}, "\x00\x01\x02\xff", "application/octet-stream"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			made, err := secrets.Create(t.Context(), c, tt.opts).Extract()
			if err != nil {
				t.Fatal(err)
			}
			id := path.Base(made.SecretRef)
			got, err := secrets.Get(t.Context(), c, id).Extract()
			if err != nil || got.Name != tt.opts.Name || got.Status != "ACTIVE" || got.ContentTypes["default"] != tt.kind || got.SecretType != "opaque" {
				t.Errorf("metadata: %+v, %v", got, err)
			}
			for _, accept := range []string{"text/plain", "application/octet-stream", "*/*"} {
				if got, err := payload(t, c, id, accept); err != nil || got != tt.payload {
					t.Errorf("payload as %s: %q, %v", accept, got, err)
				}
			}
			if _, err := payload(t, c, id, "application/json"); !gophercloud.ResponseCodeIs(err, http.StatusNotAcceptable) {
				t.Errorf("payload as JSON: got %v, want 406", err)
			}
			if err := secrets.Delete(t.Context(), c, id).ExtractErr(); err != nil {
				t.Fatal(err)
			}
			if _, err := secrets.Get(t.Context(), c, id).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
				t.Errorf("get after delete: got %v, want 404", err)
			}
		})
	}
}

func TestSecretRefusals(t *testing.T) {
	sim := ossim.ForTest(t)
	c := serviceClient(t, sim, openstack.NewKeyManagerV1)
	for name, opts := range map[string]secrets.CreateOpts{
		"payload without type":    {Payload: "x"},
		"unknown type":            {Payload: "x", PayloadContentType: "foo/bar"},
		"binary without encoding": {Payload: "x", PayloadContentType: "application/octet-stream"},
		"text with encoding":      {Payload: "eA==", PayloadContentType: "text/plain", PayloadContentEncoding: "base64"},
		"broken base64":           {Payload: "eA", PayloadContentType: "application/octet-stream", PayloadContentEncoding: "base64"},
		"unknown secret type":     {Payload: "x", PayloadContentType: "text/plain", SecretType: "foo"},
	} {
		if _, err := secrets.Create(t.Context(), c, opts).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
			t.Errorf("%s: got %v, want 400", name, err)
		}
	}
	made, err := secrets.Create(t.Context(), c, secrets.CreateOpts{Name: "later"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	id := path.Base(made.SecretRef)
	if _, err := payload(t, c, id, "text/plain"); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("payload of a secret without: got %v, want 404", err)
	}
	put := func() error {
		return secrets.Update(t.Context(), c, id, secrets.UpdateOpts{ContentType: "text/plain", Payload: "now"}).ExtractErr()
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	if got, err := payload(t, c, id, "text/plain"); err != nil || got != "now" {
		t.Errorf("payload: %q, %v", got, err)
	}
	if err := put(); !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		t.Errorf("payload again: got %v, want 409", err)
	}
}

func TestSecretListPages(t *testing.T) {
	sim := ossim.ForTest(t)
	for range 13 {
		sim.AddSecret("registry", "text/plain", []byte("x"))
	}
	last := sim.AddSecret("other", "application/octet-stream", []byte{0, 1})
	c := serviceClient(t, sim, openstack.NewKeyManagerV1)
	list := func(opts secrets.ListOpts) []secrets.Secret {
		pages, err := secrets.List(c, opts).AllPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out, err := secrets.ExtractSecrets(pages)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := list(secrets.ListOpts{}); len(got) != 14 {
		t.Errorf("%d secrets over pages of 10, want 14", len(got))
	}
	if got := list(secrets.ListOpts{Name: "other"}); len(got) != 1 || path.Base(got[0].SecretRef) != last {
		t.Errorf("by name: %+v", got)
	}
	if got, err := payload(t, c, last, "application/octet-stream"); err != nil || got != "\x00\x01" {
		t.Errorf("payload: %q, %v", got, err)
	}
}

func TestContainers(t *testing.T) {
	sim := ossim.ForTest(t)
	id := sim.AddSecret("key", "text/plain", []byte("x"))
	c := serviceClient(t, sim, openstack.NewKeyManagerV1)
	secret, err := secrets.Get(t.Context(), c, id).Extract()
	if err != nil {
		t.Fatal(err)
	}
	refs := []containers.SecretRef{{Name: "private_key", SecretRef: secret.SecretRef}}
	made, err := containers.Create(t.Context(), c, containers.CreateOpts{Name: "tls", Type: containers.CertificateContainer, SecretRefs: refs}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	cid := path.Base(made.ContainerRef)
	got, err := containers.Get(t.Context(), c, cid).Extract()
	if err != nil || got.Name != "tls" {
		t.Fatalf("get: %+v, %v", got, err)
	}
	if diff := cmp.Diff(refs, got.SecretRefs); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	bad := []containers.SecretRef{{Name: "x", SecretRef: secret.SecretRef}}
	_, err = containers.Create(t.Context(), c, containers.CreateOpts{Type: containers.CertificateContainer, SecretRefs: bad}).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		t.Errorf("wrong name: got %v, want 400", err)
	}
	bad[0].SecretRef += "0"
	_, err = containers.Create(t.Context(), c, containers.CreateOpts{Type: containers.GenericContainer, SecretRefs: bad}).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("unknown secret: got %v, want 404", err)
	}
	if err := secrets.Delete(t.Context(), c, id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if got, err := containers.Get(t.Context(), c, cid).Extract(); err != nil || len(got.SecretRefs) != 0 {
		t.Errorf("after the secret's end: %+v, %v", got, err)
	}
	if err := containers.Delete(t.Context(), c, cid).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if n := len(sim.Snapshot().Containers); n != 0 {
		t.Errorf("%d containers left", n)
	}
}

func TestSecretsOfAnotherProject(t *testing.T) {
	sim := ossim.ForTest(t)
	id := sim.AddSecret("s", "text/plain", []byte("x"))
	opts := password(sim)
	opts.Username, opts.Password, opts.TenantName = ossim.AdminName, ossim.AdminPassword, ossim.AdminName
	c, err := openstack.NewKeyManagerV1(login(t, sim, opts), gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := payload(t, c, id, "text/plain"); !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("payload: got %v, want 403", err)
	}
	if err := secrets.Delete(t.Context(), c, id).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("delete: got %v, want 403", err)
	}
	if n := len(sim.Snapshot().Secrets); n != 1 {
		t.Errorf("%d secrets left", n)
	}
}
