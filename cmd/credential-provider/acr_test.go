package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/golden"
)

const (
	acrOwnClient, acrOwnTenant   = "isthmus-cloud.github.io/acr-client-id", "isthmus-cloud.github.io/acr-tenant-id"
	acrPeerClient, acrPeerTenant = "kubernetes.azure.com/acr-client-id", "kubernetes.azure.com/acr-tenant-id"
)

// Every identity × every registry: what comes out opens the registry that the image names, as the
// identity that was configured, and is for no other registry.
func TestExecACR(t *testing.T) {
	for kind, tt := range map[string]struct{ cloud, image, opens, section string }{
		"global":   {"public", acrPublic + "/app", acrPublic, ""},
		"labeled":  {"public", acrLabeled + "/team/app", acrLabeled, ""},
		"regional": {"public", acrRegional + "/app", acrPublic, ""},
		"china":    {"china", acrChina + "/app", acrChina, ""},
		"usgov":    {"usgov", acrGov + "/app", acrGov, ""},
		"named":    {"public", acrNamed + "/app", acrNamed, "  registries: [" + acrNamed + "]\n"},
		"mirror":   {"public", "mirror.example:5000/library/nginx", "mirrored.azurecr.io", "  mirrors:\n  - {upstream: 'mirror.example:5000', registry: mirrored.azurecr.io}\n"},
	} {
		for name, set := range azureIdentities() {
			if kind != "global" && !slices.Contains([]string{"system", "user", "secret", "certificate", "token", "jsonuser", "pod"}, name) {
				continue // the others differ in where the same is written
			}
			t.Run(name+"-"+kind, func(t *testing.T) {
				t.Parallel()
				w := startAzure(t, tt.cloud)
				section, env := set(t, w)
				w.addRegistries()
				client := w.app.ClientID
				stdin := request("v1", tt.image)
				switch {
				case name == "pod":
					client = w.pod.ClientID
					stdin = podRequest(t, tt.image, w.token(t, "team", "app", time.Hour), map[string]string{acrOwnClient: client, acrOwnTenant: azureTenant})
				case w.user.ClientID != "":
					client = w.user.ClientID
				case w.system.ClientID != "":
					client = w.system.ClientID
				}
				got, spoken := w.runACR(t, section+tt.section, env, stdin)
				password := w.opens(t, got, tt.image, tt.opens, client)
				for _, s := range spoken {
					if (name == "pod") && strings.HasPrefix(s, "imds") {
						t.Errorf("the node's identity is asked for: %s", s)
					}
				}
				if len(spoken) != 3 {
					t.Errorf("it made %d requests, want 3: challenge, token, exchange: %v", len(spoken), spoken)
				}
				if kind == "global" {
					golden.Compare(t, filepath.Join("testdata", "acr", name+".golden"), w.acrTranscript(tt.image, section+tt.section, spoken, got, password))
				}
			})
		}
	}
}

// acrCase is one request that is refused, or answered in a way worth showing.
type acrCase struct {
	image   string // contoso.azurecr.io/app by default
	prepare func(*testing.T, *azureWorld) (section string, env []string)
	request func(*testing.T, *azureWorld, string) string
	// opens is the registry that the answer opens, as whom; "" where there has to be none.
	opens string
	as    func(*azureWorld) string
	// speaks are the services that it may have spoken to, in this order; nil is anything.
	speaks []string
}

func plain(section string) func(*testing.T, *azureWorld) (string, []string) {
	return func(_ *testing.T, w *azureWorld) (string, []string) { w.systemAssigned(); return section, nil }
}

func acrPod(name string, annotations func(*azureWorld) map[string]string) func(*testing.T, *azureWorld, string) string {
	return func(t *testing.T, w *azureWorld, image string) string {
		var a map[string]string
		if annotations != nil {
			a = annotations(w)
		}
		return podRequest(t, image, w.token(t, "team", name, time.Hour), a)
	}
}

const acrPodIdentity = "  identity: serviceAccount\n"

func acrNodeCases() map[string]acrCase {
	secretOf := func(secret string) func(*testing.T, *azureWorld) (string, []string) {
		return func(t *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned() // must not be fallen back to
			return w.application() + "  clientSecretFile: " + w.file(t, "secret", secret) + "\n", nil
		}
	}
	env := func(lines func(w *azureWorld) []string) func(*testing.T, *azureWorld) (string, []string) {
		return func(_ *testing.T, w *azureWorld) (string, []string) { w.systemAssigned(); return "", lines(w) }
	}
	cert := func(pem func(*keyPair) string) func(*testing.T, *azureWorld) (string, []string) {
		return func(t *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			return w.application() + "  clientCertificateFile: " + w.file(t, "app.pem", pem(w.keys(t))) + "\n", nil
		}
	}
	json := func(content string) func(*testing.T, *azureWorld) (string, []string) {
		return func(t *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			return "  cloudConfig: " + w.file(t, "azure.json", content) + "\n", nil
		}
	}
	return map[string]acrCase{
		"refused-noidentity":  {prepare: func(*testing.T, *azureWorld) (string, []string) { return "", nil }},
		"refused-notassigned": {prepare: plain("  clientID: 11111111-2222-3333-4444-555555555555\n")},
		"refused-many": {prepare: func(_ *testing.T, w *azureWorld) (string, []string) {
			w.userAssigned()
			w.userAssigned()
			return "", nil
		}},
		"refused-nomachine": {prepare: env(func(*azureWorld) []string { return []string{"AZURE_POD_IDENTITY_AUTHORITY_HOST=http://127.0.0.1:1"} })},
		"refused-metadatahost": {prepare: env(func(*azureWorld) []string {
			return []string{"AZURE_POD_IDENTITY_AUTHORITY_HOST=http://metadata.example"}
		}), speaks: []string{}},
		"refused-norole": {prepare: func(t *testing.T, w *azureWorld) (string, []string) {
			section, env := secretOf(appSecret)(t, w)
			return strings.Replace(section, w.app.ClientID, w.bad.ClientID, 1), env
		}},
		"refused-secret":  {prepare: secretOf("s3cret-wrong")},
		"refused-oldone":  {prepare: secretOf("s3cret-expired")},
		"refused-nofile":  {prepare: plain("  clientID: 11111111-2222-3333-4444-555555555555\n  tenantID: contoso.example\n  clientSecretFile: /nowhere/secret\n")},
		"refused-twoline": {prepare: secretOf("s3cret\ns3cret2")},
		"refused-tenant": {prepare: func(t *testing.T, w *azureWorld) (string, []string) {
			section, _ := secretOf(appSecret)(t, w)
			return strings.Replace(section, azureTenant, "99999999-0000-4000-8000-000000000009", 1), nil
		}},
		"refused-application": {prepare: func(t *testing.T, w *azureWorld) (string, []string) {
			section, _ := secretOf(appSecret)(t, w)
			return strings.Replace(section, w.app.ClientID, "11111111-2222-3333-4444-555555555555", 1), nil
		}},
		"refused-certificate": {prepare: cert(func(k *keyPair) string { return k.otherPEM })},
		"refused-certexpired": {prepare: cert(func(k *keyPair) string { return k.expiredPEM })},
		"refused-certnokey":   {prepare: cert(func(k *keyPair) string { return k.pem[strings.Index(k.pem, "-----BEGIN CERT"):] })},
		"refused-tokenexpired": {prepare: func(t *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			return w.application() + "  federatedTokenFile: " + w.file(t, "token", w.token(t, "kube-system", "node", -time.Hour)) + "\n", nil
		}},
		"refused-unknownca": {prepare: env(func(w *azureWorld) []string { return []string{"SSL_CERT_FILE=" + w.dir + "/none"} }), speaks: []string{}},
		"refused-twoinenv": {prepare: env(func(w *azureWorld) []string {
			return []string{"AZURE_TENANT_ID=" + azureTenant, "AZURE_CLIENT_ID=" + w.app.ClientID, "AZURE_CLIENT_SECRET=" + appSecret, "AZURE_FEDERATED_TOKEN_FILE=/x"}
		}), speaks: []string{}},
		"refused-halfenv":      {prepare: env(func(*azureWorld) []string { return []string{"AZURE_CLIENT_SECRET=" + appSecret} }), speaks: []string{}},
		"refused-authority":    {prepare: env(func(*azureWorld) []string { return []string{"AZURE_AUTHORITY_HOST=http://login.evil.example"} }), speaks: []string{}},
		"refused-jsonnobody":   {prepare: json(`{"cloud":"AzurePublicCloud","tenantId":"` + azureTenant + `"}`), speaks: []string{}},
		"refused-jsonhalf":     {prepare: json(`{"tenantId":"` + azureTenant + `","aadClientSecret":"s3cret"}`), speaks: []string{}},
		"refused-jsonbroken":   {prepare: json(`{"tenantId":"s3cret`), speaks: []string{}},
		"refused-jsontype":     {prepare: json(`{"useManagedIdentityExtension":"s3cret"}`), speaks: []string{}},
		"refused-jsoncloud":    {prepare: json(`{"cloud":"AzureStackCloud","useManagedIdentityExtension":true}`), speaks: []string{}},
		"refused-badconfig":    {prepare: plain("  clientID: admin\n  tenantID: common\n  objectID: x\n  cloud: AzureChina1Cloud\n  registries: [contoso.azurecr.io]\n  audience: x\n  mirrors: [{upstream: fabrikam.azurecr.io, registry: quay.io}]\n"), speaks: []string{}},
		"refused-lookalike":    {image: acrPublic + ".evil.example/app", prepare: plain(""), speaks: []string{}},
		"refused-inpath":       {image: "evil.example/azurecr.io/app", prepare: plain(""), speaks: []string{}},
		"refused-data":         {image: "contoso.westeurope.data.azurecr.io/app", prepare: plain(""), speaks: []string{}},
		"refused-mirrorport":   {image: "mirror.example:5001/app", prepare: plain("  mirrors:\n  - {upstream: 'mirror.example:5000', registry: mirrored.azurecr.io}\n"), speaks: []string{}},
		"refused-mirrorprefix": {image: "mirror.example.evil.example/app", prepare: plain("  mirrors:\n  - {upstream: mirror.example, registry: mirrored.azurecr.io}\n"), speaks: []string{}},
		"refused-token":        {prepare: plain(""), request: acrPod("app", nil), speaks: []string{}},
		"refused-othercloud": {image: acrChina + "/app", prepare: env(func(w *azureWorld) []string {
			return []string{"AZURE_TENANT_ID=" + azureTenant, "AZURE_CLIENT_ID=" + w.app.ClientID, "AZURE_CLIENT_SECRET=" + appSecret, "AZURE_AUTHORITY_HOST=https://login.microsoftonline.com"}
		}), speaks: []string{}},
		"refused-cloudofjson": {prepare: json(`{"cloud":"AzureChinaCloud","useManagedIdentityExtension":true}`), speaks: []string{}},
		"anonymous":           {prepare: plain("anonymousRegistries: [contoso.azurecr.io]\nacr: {}\n"), speaks: []string{}},
		"audience":            {image: acrRegional + "/app", prepare: plain("  audience: https://management.azure.com\n"), opens: acrPublic, as: func(w *azureWorld) string { return w.system.ClientID }},
		"port443":             {image: acrPublic + ":443/app", prepare: plain(""), opens: acrPublic, as: func(w *azureWorld) string { return w.system.ClientID }},
		"configbeforeenv": {prepare: func(t *testing.T, w *azureWorld) (string, []string) {
			section, _ := secretOf(appSecret)(t, w)
			return section, []string{"AZURE_TENANT_ID=" + azureTenant, "AZURE_CLIENT_ID=" + w.bad.ClientID, "AZURE_CLIENT_SECRET=" + appSecret}
		}, opens: acrPublic, as: func(w *azureWorld) string { return w.app.ClientID }},
		"stack": {image: acrNamed + "/app", prepare: func(t *testing.T, w *azureWorld) (string, []string) {
			*w = *startAzure(t, "stack")
			section, _ := secretOf(appSecret)(t, w)
			return section + "  authorityHost: https://login.stack.example\n  registries: [" + acrNamed + "]\n", nil
		}, opens: acrNamed, as: func(w *azureWorld) string { return w.app.ClientID }},
	}
}

// acrPodCases are those with the identity of service accounts. The machine has an identity that could do
// everything: it must not be used.
func acrPodCases() map[string]acrCase {
	pod := func(w *azureWorld) string { return w.pod.ClientID }
	both := func(client, tenant string) func(*azureWorld) map[string]string {
		return func(w *azureWorld) map[string]string {
			return map[string]string{client: w.pod.ClientID, tenant: azureTenant}
		}
	}
	envOfNode := func(section string) func(*testing.T, *azureWorld) (string, []string) {
		return func(_ *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			return section, []string{"AZURE_TENANT_ID=" + azureTenant, "AZURE_CLIENT_ID=" + w.app.ClientID, "AZURE_CLIENT_SECRET=" + appSecret}
		}
	}
	return map[string]acrCase{
		"pod-peerskeys": {prepare: plain(acrPodIdentity), request: acrPod("app", both(acrPeerClient, acrPeerTenant)), opens: acrPublic, as: pod},
		"pod-fromconfig": {prepare: func(_ *testing.T, w *azureWorld) (string, []string) {
			w.systemAssigned()
			return acrPodIdentity + "  clientID: " + w.pod.ClientID + "\n  tenantID: " + azureTenant + "\n", nil
		}, request: acrPod("app", nil), opens: acrPublic, as: pod},
		"pod-tenantfromenv": {prepare: envOfNode(acrPodIdentity), request: acrPod("app", func(w *azureWorld) map[string]string { return map[string]string{acrOwnClient: w.pod.ClientID} }), opens: acrPublic, as: pod},
		"pod-refusednone":   {prepare: envOfNode(acrPodIdentity), request: acrPod("app", nil), speaks: []string{}},
		"pod-refusedtenant": {prepare: plain(acrPodIdentity), request: acrPod("app", func(w *azureWorld) map[string]string { return map[string]string{acrOwnClient: w.pod.ClientID} }), speaks: []string{}},
		"pod-refusedtwo": {prepare: plain(acrPodIdentity), request: acrPod("app", func(w *azureWorld) map[string]string {
			return map[string]string{acrOwnClient: w.pod.ClientID, acrPeerClient: w.bad.ClientID, acrOwnTenant: azureTenant}
		}), speaks: []string{}},
		"pod-refusedid": {prepare: plain(acrPodIdentity), request: acrPod("app", func(*azureWorld) map[string]string {
			return map[string]string{acrOwnClient: "pod", acrOwnTenant: "common"}
		}), speaks: []string{}},
		"pod-refusedsubject": {prepare: plain(acrPodIdentity), request: acrPod("evil", both(acrOwnClient, acrOwnTenant)), speaks: []string{"acr", "entra"}},
		"pod-refusedrole": {prepare: plain(acrPodIdentity), request: acrPod("app", func(w *azureWorld) map[string]string {
			return map[string]string{acrOwnClient: w.bad.ClientID, acrOwnTenant: azureTenant}
		}), speaks: []string{"acr", "entra", "acr"}},
		"pod-refusedaudience": {prepare: plain(acrPodIdentity), request: func(t *testing.T, w *azureWorld, image string) string {
			other := *w
			other.cloud = "usgov"
			return podRequest(t, image, other.token(t, "team", "app", time.Hour), both(acrOwnClient, acrOwnTenant)(w))
		}, speaks: []string{"acr", "entra"}},
		"pod-refusedexpired": {prepare: plain(acrPodIdentity), request: func(t *testing.T, w *azureWorld, image string) string {
			return podRequest(t, image, w.token(t, "team", "app", -time.Hour), both(acrOwnClient, acrOwnTenant)(w))
		}, speaks: []string{}},
		"pod-refusednotoken": {prepare: plain(acrPodIdentity), speaks: []string{}},
		"pod-refusednodes": {prepare: func(t *testing.T, w *azureWorld) (string, []string) {
			return acrPodIdentity + w.application() + "  clientSecretFile: " + w.file(t, "secret", appSecret) + "\n", nil
		}, request: acrPod("app", both(acrOwnClient, acrOwnTenant)), speaks: []string{}},
	}
}

// What is refused says why and what to do, and nothing else is tried in its place.
func TestExecACRRefusals(t *testing.T) {
	runACRCases(t, acrNodeCases())
}

// The peer ignores a service account's token where the node has no managed identity, and answers with the
// node's.
func TestDefectACRPodsNeverUseTheNode(t *testing.T) {
	runACRCases(t, acrPodCases())
}

func runACRCases(t *testing.T, cases map[string]acrCase) {
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startAzure(t, "public")
			section, env := tt.prepare(t, w)
			w.addRegistries()
			image := tt.image
			if image == "" {
				image = acrPublic + "/app"
			}
			stdin := request("v1", image)
			if tt.request != nil {
				stdin = tt.request(t, w, image)
			}
			got, spoken := w.runACR(t, section, env, stdin)
			password := ""
			if tt.opens != "" {
				password = w.opens(t, got, image, tt.opens, tt.as(w))
			} else if strings.Contains(got.stdout, "password") {
				t.Error("it gives credentials")
			}
			var services []string
			for _, r := range w.Requests() {
				services = append(services, r.Service)
				if strings.HasPrefix(name, "pod-") && r.Service == "imds" {
					t.Errorf("the node's identity is asked for: %+v", r)
				}
			}
			if tt.speaks != nil && !slices.Equal(services, tt.speaks) {
				t.Errorf("it speaks to %v, want %v", services, tt.speaks)
			}
			golden.Compare(t, filepath.Join("testdata", "acr", name+".golden"), w.acrTranscript(image, section, spoken, got, password))
		})
	}
}
