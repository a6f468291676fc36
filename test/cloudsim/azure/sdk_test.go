package azure_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/containers/azcontainerregistry"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/azure"
)

const (
	tenant  = "aaaaaaaa-0000-4000-8000-000000000001"
	secret  = "of-the-application"
	subject = "system:serviceaccount:team:app"
)

// clouds are the SDK's configurations of the clouds.
var clouds = map[string]cloud.Configuration{"public": cloud.AzurePublic, "china": cloud.AzureChina, "usgov": cloud.AzureGovernment}

// world is a simulator with an identity of each kind.
type world struct {
	*azure.Sim
	app, user azure.Identity
	key       *rsa.PrivateKey
	cert      *x509.Certificate
	options   azcore.ClientOptions
}

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	sim, err := azure.Start(azure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &world{Sim: sim}
	if w.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, w.key.Public(), w.key)
	if err != nil {
		t.Fatal(err)
	}
	if w.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	w.app = sim.AddApplication(azure.Application{Cloud: name, Tenant: tenant, Secrets: map[string]time.Time{secret: {}}, Certificates: []*x509.Certificate{w.cert}, Subjects: []string{subject}})
	w.SetSystemIdentity(azure.Application{Cloud: name, Tenant: tenant})
	w.user = w.AddManagedIdentity(azure.Application{Cloud: name, Tenant: tenant, Name: "nodes"})
	transport := &http.Transport{}
	if err := sim.Intercept(transport); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	w.options = azcore.ClientOptions{Cloud: clouds[name], Transport: &http.Client{Transport: transport}, Retry: policy.RetryOptions{MaxRetries: -1}}
	return w
}

// metadata are the options for the metadata service. The SDK for Go knows its address alone, so that its requests are
// turned to the simulator.
func (w *world) metadata() azcore.ClientOptions {
	o := w.options
	o.Transport = toMetadata{strings.TrimPrefix(w.URL(), "http://")}
	return o
}

// toMetadata sends what is for the metadata service to another host, and nothing else to anywhere.
type toMetadata struct{ host string }

// Do implements policy.Transporter.
func (m toMetadata) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "169.254.169.254" {
		return nil, fmt.Errorf("%s is not the metadata service", r.URL.Host)
	}
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = m.host, ""
	transport := &http.Transport{DisableKeepAlives: true}
	return transport.RoundTrip(r)
}

// Azure's own SDK takes the simulator for Azure, in every cloud and with every identity.
func TestAzuresSDK(t *testing.T) {
	credentials := map[string]func(*testing.T, *world) (azcore.TokenCredential, error){
		"secret": func(_ *testing.T, w *world) (azcore.TokenCredential, error) {
			return azidentity.NewClientSecretCredential(tenant, w.app.ClientID, secret, &azidentity.ClientSecretCredentialOptions{ClientOptions: w.options})
		},
		"certificate": func(_ *testing.T, w *world) (azcore.TokenCredential, error) {
			return azidentity.NewClientCertificateCredential(tenant, w.app.ClientID, []*x509.Certificate{w.cert}, crypto.PrivateKey(w.key), &azidentity.ClientCertificateCredentialOptions{ClientOptions: w.options})
		},
		"assertion": func(_ *testing.T, w *world) (azcore.TokenCredential, error) {
			return azidentity.NewClientAssertionCredential(tenant, w.app.ClientID, func(context.Context) (string, error) {
				return w.ServiceAccountToken(cloudsim.TokenClaims{Namespace: "team", Name: "app", Audience: []string{"api://AzureADTokenExchange", "api://AzureADTokenExchangeChina", "api://AzureADTokenExchangeUSGov"}, Lifetime: time.Hour})
			}, &azidentity.ClientAssertionCredentialOptions{ClientOptions: w.options})
		},
		"system": func(_ *testing.T, w *world) (azcore.TokenCredential, error) {
			return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ClientOptions: w.metadata()})
		},
		"user": func(_ *testing.T, w *world) (azcore.TokenCredential, error) {
			return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ClientOptions: w.metadata(), ID: azidentity.ClientID(w.user.ClientID)})
		},
		"user by object": func(_ *testing.T, w *world) (azcore.TokenCredential, error) {
			return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ClientOptions: w.metadata(), ID: azidentity.ObjectID(w.user.ObjectID)})
		},
		"user by resource": func(_ *testing.T, w *world) (azcore.TokenCredential, error) {
			return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ClientOptions: w.metadata(), ID: azidentity.ResourceID(w.user.ResourceID)})
		},
	}
	for name := range clouds {
		w := newWorld(t, name)
		for kind, open := range credentials {
			t.Run(name+" "+kind, func(t *testing.T) {
				credential, err := open(t, w)
				if err != nil {
					t.Fatal(err)
				}
				token, err := credential.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://containerregistry.azure.net/.default"}})
				if err != nil {
					t.Fatal(err)
				}
				if left := time.Until(token.ExpiresOn); token.Token == "" || left < 59*time.Minute || left > time.Hour {
					t.Errorf("a token of %d bytes for %s", len(token.Token), left)
				}
			})
		}
		if all := w.Audiences(); !slices.Equal(all, []string{"https://containerregistry.azure.net"}) {
			t.Errorf("%s: tokens for %v", name, all)
		}
		if hosts := w.Refused(); len(hosts) != 0 {
			t.Errorf("%s: it speaks to %v", name, hosts)
		}
	}
}

// What the simulator refuses, the SDK reads as a refusal of Azure.
func TestAzuresSDKRefused(t *testing.T) {
	w := newWorld(t, "public")
	credential, err := azidentity.NewClientSecretCredential(tenant, w.app.ClientID, "wrong", &azidentity.ClientSecretCredentialOptions{ClientOptions: w.options})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = credential.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://containerregistry.azure.net/.default"}}); err == nil || !strings.Contains(err.Error(), "AADSTS7000215") {
		t.Errorf("a wrong secret: %v", err)
	}
	managed, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ClientOptions: w.metadata(), ID: azidentity.ClientID(w.app.ClientID)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = managed.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://containerregistry.azure.net/.default"}}); err == nil || !strings.Contains(err.Error(), "Identity not found") {
		t.Errorf("an identity that is not assigned: %v", err)
	}
}

// The SDK exchanges tokens at the simulated registries, and has the audience of registries in every cloud that we ask for.
func TestAzuresRegistrySDK(t *testing.T) {
	for name, host := range map[string]string{"public": "contoso.azurecr.io", "china": "contoso.azurecr.cn", "usgov": "contoso.azurecr.us"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, name)
			w.AddRegistry(azure.Registry{Host: host, Pull: []string{w.app.ClientID}, OnlyOwnAudience: true})
			audience := clouds[name].Services[azcontainerregistry.ServiceName].Audience
			credential, err := azidentity.NewClientSecretCredential(tenant, w.app.ClientID, secret, &azidentity.ClientSecretCredentialOptions{ClientOptions: w.options})
			if err != nil {
				t.Fatal(err)
			}
			token, err := credential.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{audience + "/.default"}})
			if err != nil {
				t.Fatal(err)
			}
			client, err := azcontainerregistry.NewAuthenticationClient("https://"+host, &azcontainerregistry.AuthenticationClientOptions{ClientOptions: w.options})
			if err != nil {
				t.Fatal(err)
			}
			exchange := func(token string) (azcontainerregistry.AuthenticationClientExchangeAADAccessTokenForACRRefreshTokenResponse, error) {
				return client.ExchangeAADAccessTokenForACRRefreshToken(t.Context(), azcontainerregistry.PostContentSchemaGrantTypeAccessToken, host, &azcontainerregistry.AuthenticationClientExchangeAADAccessTokenForACRRefreshTokenOptions{AccessToken: &token})
			}
			refresh, err := exchange(token.Token)
			if err != nil {
				t.Fatal(err)
			}
			access, err := client.ExchangeACRRefreshTokenForACRAccessToken(t.Context(), host, "repository:app:pull", *refresh.RefreshToken, nil)
			if err != nil || *access.AccessToken == "" {
				t.Error(err)
			}
			if _, err := exchange("another"); err == nil || !strings.Contains(err.Error(), "UNAUTHORIZED") {
				t.Errorf("a token that is none: %v", err)
			}
			if all := w.Audiences(); !slices.Equal(all, []string{"https://containerregistry.azure.net"}) {
				t.Errorf("tokens for %v", all)
			}
		})
	}
}
