package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	azuresim "github.com/isthmus-cloud/isthmus/test/cloudsim/azure"
)

// The registries of the simulated Azure: the cluster's in its forms, and one that is not its own.
const (
	acrPublic   = "contoso.azurecr.io"
	acrLabeled  = "contoso-dnl1a2b3c4.azurecr.io"
	acrRegional = "contoso.westeurope.geo.azurecr.io"
	acrChina    = "contoso.azurecr.cn"
	acrGov      = "contoso.azurecr.us"
	acrNamed    = "registry.contoso.example"
	acrForeign  = "fabrikam.azurecr.io"
)

const azureTenant = "aaaaaaaa-0000-4000-8000-000000000001"

// azureWorld is a simulated Azure as a node of a cluster in one of its clouds sees it.
type azureWorld struct {
	*azuresim.Sim
	cloud, dir             string
	system, user, app, pod azuresim.Identity
	bad                    azuresim.Identity // may not pull
}

// appSecret is the client secret of the application.
const appSecret = "s3cret~Value+of/the=App"

// nodeSubject is whose token the node has in a file.
const nodeSubject = "system:serviceaccount:kube-system:node"

func startAzure(t *testing.T, cloud string) *azureWorld {
	t.Helper()
	return startAzureWith(t, azuresim.Options{}, cloud)
}

func startAzureWith(t *testing.T, o azuresim.Options, cloud string) *azureWorld {
	t.Helper()
	sim, err := azuresim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &azureWorld{Sim: sim, cloud: cloud, dir: t.TempDir()}
	keys, err := appKeys()
	if err != nil {
		t.Fatal(err)
	}
	podSubject := "system:serviceaccount:team:app"
	w.app = sim.AddApplication(azuresim.Application{
		Cloud: cloud, Tenant: azureTenant, Certificates: []*x509.Certificate{keys.cert}, Subjects: []string{nodeSubject},
		Secrets: map[string]time.Time{appSecret: {}, "s3cret-expired": time.Now().Add(-time.Hour)},
	})
	w.pod = sim.AddApplication(azuresim.Application{Cloud: cloud, Tenant: azureTenant, Subjects: []string{podSubject}})
	w.bad = sim.AddApplication(azuresim.Application{Cloud: cloud, Tenant: azureTenant, Subjects: []string{podSubject}, Secrets: map[string]time.Time{appSecret: {}}})
	return w
}

// addRegistries lets everybody who may pull do so from the cluster's registries.
func (w *azureWorld) addRegistries() {
	pull := []string{w.system.ClientID, w.user.ClientID, w.app.ClientID, w.pod.ClientID}
	for _, host := range []string{acrPublic, acrLabeled, acrChina, acrGov, "mirrored.azurecr.io"} {
		w.AddRegistry(azuresim.Registry{Host: host, Pull: pull, OnlyOwnAudience: true})
	}
	w.AddRegistry(azuresim.Registry{Host: acrRegional, Login: acrPublic, Pull: pull})
	w.AddRegistry(azuresim.Registry{Host: acrNamed, Cloud: w.cloud, Pull: pull})
	w.AddRegistry(azuresim.Registry{Host: acrForeign})
}

func (w *azureWorld) systemAssigned() {
	w.system = w.SetSystemIdentity(azuresim.Application{Cloud: w.cloud, Tenant: azureTenant})
}

func (w *azureWorld) userAssigned() {
	w.user = w.AddManagedIdentity(azuresim.Application{Cloud: w.cloud, Tenant: azureTenant, Name: "nodes"})
}

func (w *azureWorld) file(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// audience is what tokens of the cluster have to be for in the world's cloud.
func (w *azureWorld) audience() string {
	return map[string]string{"china": "api://AzureADTokenExchangeChina", "usgov": "api://AzureADTokenExchangeUSGov"}[w.cloud]
}

func (w *azureWorld) token(t *testing.T, namespace, name string, lifetime time.Duration) string {
	t.Helper()
	audience := w.audience()
	if audience == "" {
		audience = "api://AzureADTokenExchange"
	}
	token, err := w.ServiceAccountToken(azuresim.TokenClaims{Namespace: namespace, Name: name, Audience: []string{audience}, Lifetime: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// keyPair is the application's key with its certificate, in all forms.
type keyPair struct {
	cert             *x509.Certificate
	pem, pfx, oldPFX string
	otherPEM         string // of a certificate that nobody registered
	expiredPEM       string
}

const pfxPassword = "s3cret-pfx"

// appKeys makes keys once for all tests.
var appKeys = sync.OnceValues(func() (*keyPair, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	keyPEM := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	make1 := func(serial int64, end time.Time) (*x509.Certificate, string, error) {
		template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "node"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: end}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return nil, "", err
		}
		cert, err := x509.ParseCertificate(der)
		return cert, keyPEM + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), err
	}
	p := &keyPair{}
	if p.cert, p.pem, err = make1(1, time.Now().Add(time.Hour)); err != nil {
		return nil, err
	}
	if _, p.otherPEM, err = make1(2, time.Now().Add(time.Hour)); err != nil {
		return nil, err
	}
	if _, p.expiredPEM, err = make1(3, time.Now().Add(-time.Hour)); err != nil {
		return nil, err
	}
	modern, err := pkcs12.Modern.Encode(key, p.cert, nil, pfxPassword)
	if err != nil {
		return nil, err
	}
	old, err := pkcs12.LegacyDES.Encode(key, p.cert, nil, pfxPassword)
	p.pfx, p.oldPFX = string(modern), string(old)
	return p, err
})

func (w *azureWorld) keys(t *testing.T) *keyPair {
	t.Helper()
	keys, err := appKeys()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// setup makes an identity ready for use; it returns the section acr, without its first line, and more
// variables.
type setup func(*testing.T, *azureWorld) (section string, env []string)

func (w *azureWorld) application() string {
	return "  tenantID: " + azureTenant + "\n  clientID: " + w.app.ClientID + "\n"
}

// azureIdentities are all ways in which a node can have an identity.
func azureIdentities() map[string]setup {
	azureJSON := func(content func(w *azureWorld) map[string]any) setup {
		return func(t *testing.T, w *azureWorld) (string, []string) {
			all := content(w)
			all["cloud"] = map[string]string{"public": "AZUREPUBLICCLOUD", "china": "AzureChinaCloud", "usgov": "AzureUSGovernmentCloud"}[w.cloud]
			all["location"], all["vmType"] = "westeurope", "vmss"
			data, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			return "  cloudConfig: " + w.file(t, "azure.json", string(data)) + "\n", nil
		}
	}
	return map[string]setup{
		"system": func(_ *testing.T, w *azureWorld) (string, []string) { w.systemAssigned(); return "", nil },
		"user": func(_ *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			w.userAssigned()
			return "  clientID: " + w.user.ClientID + "\n", nil
		},
		"userbyobject": func(_ *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			w.userAssigned()
			return "  objectID: " + w.user.ObjectID + "\n", nil
		},
		"userbyresource": func(_ *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			w.userAssigned()
			return "  resourceID: " + w.user.ResourceID + "\n", nil
		},
		"userbyenv": func(_ *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			w.userAssigned()
			return "", []string{"AZURE_CLIENT_ID=" + w.user.ClientID}
		},
		"secret": func(t *testing.T, w *azureWorld) (string, []string) {
			return w.application() + "  clientSecretFile: " + w.file(t, "secret", appSecret+"\n") + "\n", nil
		},
		"secretenv": func(_ *testing.T, w *azureWorld) (string, []string) {
			return "", []string{"AZURE_TENANT_ID=" + azureTenant, "AZURE_CLIENT_ID=" + w.app.ClientID, "AZURE_CLIENT_SECRET=" + appSecret}
		},
		"certificate": func(t *testing.T, w *azureWorld) (string, []string) {
			return w.application() + "  clientCertificateFile: " + w.file(t, "app.pem", w.keys(t).pem) + "\n  sendCertificateChain: true\n", nil
		},
		"pfx": func(t *testing.T, w *azureWorld) (string, []string) {
			return w.application() + "  clientCertificateFile: " + w.file(t, "app.pfx", w.keys(t).pfx) + "\n  clientCertificatePasswordFile: " + w.file(t, "password", pfxPassword) + "\n", nil
		},
		"pfxenv": func(t *testing.T, w *azureWorld) (string, []string) {
			return "", []string{"AZURE_TENANT_ID=" + azureTenant, "AZURE_CLIENT_ID=" + w.app.ClientID, "AZURE_CLIENT_CERTIFICATE_PATH=" + w.file(t, "app.pfx", w.keys(t).oldPFX), "AZURE_CLIENT_CERTIFICATE_PASSWORD=" + pfxPassword}
		},
		"token": func(t *testing.T, w *azureWorld) (string, []string) {
			return w.application() + "  federatedTokenFile: " + w.file(t, "token", w.token(t, "kube-system", "node", time.Hour)) + "\n", nil
		},
		"tokenenv": func(t *testing.T, w *azureWorld) (string, []string) {
			return "", []string{"AZURE_TENANT_ID=" + azureTenant, "AZURE_CLIENT_ID=" + w.app.ClientID, "AZURE_FEDERATED_TOKEN_FILE=" + w.file(t, "token", w.token(t, "kube-system", "node", time.Hour)), "AZURE_AUTHORITY_HOST=" + authorityOf[w.cloud]}
		},
		"jsonsystem": func(t *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			return azureJSON(func(*azureWorld) map[string]any {
				return map[string]any{"useManagedIdentityExtension": true, "aadClientId": "msi", "aadClientSecret": "msi", "tenantId": azureTenant}
			})(t, w)
		},
		"jsonuser": func(t *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			w.userAssigned()
			return azureJSON(func(w *azureWorld) map[string]any {
				return map[string]any{"useManagedIdentityExtension": true, "userAssignedIdentityID": w.user.ClientID}
			})(t, w)
		},
		"jsonresource": func(t *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			w.userAssigned()
			return azureJSON(func(w *azureWorld) map[string]any {
				return map[string]any{"useManagedIdentityExtension": true, "userAssignedIdentityID": w.user.ResourceID}
			})(t, w)
		},
		"jsonsecret": azureJSON(func(w *azureWorld) map[string]any {
			return map[string]any{"tenantId": azureTenant, "aadClientId": w.app.ClientID, "aadClientSecret": appSecret}
		}),
		"jsoncertificate": func(t *testing.T, w *azureWorld) (string, []string) {
			file := w.file(t, "app.pfx", w.keys(t).oldPFX)
			return azureJSON(func(w *azureWorld) map[string]any {
				return map[string]any{"tenantId": azureTenant, "aadClientId": w.app.ClientID, "aadClientCertPath": file, "aadClientCertPassword": pfxPassword}
			})(t, w)
		},
		"jsontoken": func(t *testing.T, w *azureWorld) (string, []string) {
			file := w.file(t, "token", w.token(t, "kube-system", "node", time.Hour))
			return azureJSON(func(w *azureWorld) map[string]any {
				return map[string]any{"tenantId": azureTenant, "aadClientId": w.app.ClientID, "useFederatedWorkloadIdentityExtension": true, "aadFederatedTokenFile": file}
			})(t, w)
		},
		"pod": func(_ *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned() // must not be used
			return "  identity: serviceAccount\n", nil
		},
	}
}

var authorityOf = map[string]string{
	"public": "https://login.microsoftonline.com/", "china": "https://login.partner.microsoftonline.cn", "usgov": "login.microsoftonline.us",
}

// runACR runs the binary and returns what it shows and what it spoke to.
func (w *azureWorld) runACR(t *testing.T, section string, env []string, stdin string) (outcome, []string) {
	t.Helper()
	args := []string{"--registries=acr"}
	if section != "" {
		if !strings.Contains(section, "acr:") {
			section = "acr:\n" + section
		}
		args = []string{"--config", w.file(t, "options.yaml", configHead+section)}
	}
	got := executeEnv(t, append(w.Env(), env...), stdin, args...)
	checkOutcome(t, got)
	var spoken []string
	for _, r := range w.Requests() {
		where := r.Service
		if r.Host != "" {
			where = r.Host
		}
		if line := fmt.Sprintf("%s %s %d", where, r.Action, r.Status); !slices.Contains(spoken, line) {
			spoken = append(spoken, line)
		}
		if !strings.Contains(r.UserAgent, "isthmus-credential-provider/"+versionSet) {
			t.Errorf("user agent %q", r.UserAgent)
		}
	}
	if hosts := w.Refused(); len(hosts) != 0 {
		t.Errorf("it speaks to %v, which Azure does not have", hosts)
	}
	return got, spoken
}

// opens checks that the answer is for the image's registry alone, that it opens the registry that it should and no
// other, and that it is whose it should be. It returns the password.
func (w *azureWorld) opens(t *testing.T, got outcome, image, registry, client string) string {
	t.Helper()
	var response struct {
		Auth         map[string]struct{ Username, Password string }
		CacheKeyType string
	}
	if err := json.Unmarshal([]byte(got.stdout), &response); err != nil {
		t.Errorf("no answer: %v, %s", err, got.stderr)
		return ""
	}
	host, _, _ := strings.Cut(image, "/")
	login := response.Auth[host]
	if len(response.Auth) != 1 || login.Username == "" || response.CacheKeyType != "Registry" {
		t.Errorf("the answer is not for %s alone: %d entries, %s", host, len(response.Auth), response.CacheKeyType)
	}
	if err := w.Login(login.Username, login.Password, registry); err != nil {
		t.Errorf("the registry refuses: %v", err)
	}
	if w.Login(login.Username, login.Password, acrForeign) == nil {
		t.Error("the credentials open a registry that nobody asked for")
	}
	if of := w.ClientOf(login.Password); of != client {
		t.Errorf("the credentials are those of %s, want %s", of, client)
	}
	return login.Password
}

// acrTranscript is a golden file's content.
func (w *azureWorld) acrTranscript(image, section string, spoken []string, got outcome, password string) string {
	text := fmt.Sprintf("image: %s\noptions: %s\nspoken to:\n  %s\nexit: %d\nstdout: %s\nstderr: %s\n", image, strings.ReplaceAll(strings.TrimRight(section, "\n"), "\n", "\n  "),
		strings.Join(spoken, "\n  "), got.code, strings.TrimSpace(got.stdout), strings.TrimSpace(got.stderr))
	names := []string{w.dir, "DIR", w.URL(), "METADATA", azureTenant, "TENANT"}
	if password != "" {
		names = append(names, password, "PASSWORD")
	}
	for name, id := range map[string]azuresim.Identity{"SYSTEM": w.system, "USER": w.user, "APP": w.app, "POD": w.pod, "BAD": w.bad} {
		for suffix, value := range map[string]string{"": id.ClientID, "-OBJECT": id.ObjectID, "-RESOURCE": id.ResourceID} {
			if value != "" {
				names = append(names, value, name+suffix)
			}
		}
	}
	text = strings.NewReplacer(names...).Replace(text)
	for pattern, with := range map[string]string{`(2h[0-9]+m|53m|44m)[0-9]+s`: "${1}…s", `20[0-9-]{8}T[0-9:]+Z`: "TIME", `client: '[^']*'`: "client: 'THUMBPRINT'"} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}
