package acr

import (
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/azure"
)

const accountID, accountTenant = "11111111-2222-3333-4444-555555555555", "22222222-2222-3333-4444-555555555555"

func podAccount(annotations map[string]string) *credentialprovider.ServiceAccount {
	return &credentialprovider.ServiceAccount{Token: cloudauth.NewSecret("s3cret"), Subject: "system:serviceaccount:team:app", Annotations: annotations}
}

// A service account is whom its annotations name, or else the configuration; one that nobody names is nobody.
func TestWhoAServiceAccountIs(t *testing.T) {
	t.Setenv(tenantVariable, "")
	for name, tt := range map[string]struct {
		cfg            auth.Config
		annotations    map[string]string
		client, tenant string
		err            string
	}{
		"its own":    {annotations: map[string]string{ClientAnnotation: accountID, PeerTenantAnnotation: accountTenant}, client: accountID, tenant: accountTenant},
		"over ours":  {cfg: auth.Config{ClientID: accountTenant, TenantID: accountTenant}, annotations: map[string]string{PeerClientAnnotation: accountID}, client: accountID, tenant: accountTenant},
		"configured": {cfg: auth.Config{ClientID: accountID, TenantID: accountTenant}, client: accountID, tenant: accountTenant},
		"nobody":     {cfg: auth.Config{TenantID: accountTenant}, err: "service account team/app names no application or managed identity for pulling"},
		"no tenant":  {annotations: map[string]string{ClientAnnotation: accountID}, err: "names no tenant for pulling"},
		"no id":      {annotations: map[string]string{ClientAnnotation: "admin"}, err: "the annotation " + ClientAnnotation},
		"two":        {annotations: map[string]string{ClientAnnotation: accountID, PeerClientAnnotation: accountTenant}, err: "with different values"},
	} {
		t.Run(name, func(t *testing.T) {
			p, cfg := &Provider{cfg: Config{Config: tt.cfg}}, tt.cfg
			err := p.federate(&cfg, podAccount(tt.annotations))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !cfg.FederatedToken.IsEmpty() {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || cfg.ClientID != tt.client || cfg.TenantID != tt.tenant || cfg.FederatedToken.Reveal() != "s3cret" {
				t.Errorf("got %+v, %v", cfg, err)
			}
		})
	}
}

// An identity of one cloud is unknown in another, and its token is not sent there.
func TestIdentityOfAnotherCloud(t *testing.T) {
	t.Setenv("AZURE_AUTHORITY_HOST", "")
	for host, clouds := range map[string]map[string]bool{
		"contoso.azurecr.io": {"": true, "AzureCloud": true, "AzureChinaCloud": false},
		"contoso.azurecr.cn": {"": true, "AzureCloud": false, "AzureChinaCloud": true},
		"r.example":          {"": true, "AzureChinaCloud": true},
	} {
		for cloud, want := range clouds {
			p, err := New(Config{Identity: credentialprovider.ServiceAccountIdentity, Config: auth.Config{Cloud: cloud}, Registries: []string{"r.example"}}, credentialprovider.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r, _ := p.registryOf(credentialprovider.Image{Registry: host})
			_, err = p.session(r, podAccount(map[string]string{ClientAnnotation: accountID, TenantAnnotation: accountTenant}))
			if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "the clouds do not know each other's identities") {
				t.Errorf("%s with an identity in %q: %v", host, cloud, err)
			}
		}
	}
}
