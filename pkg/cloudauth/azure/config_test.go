package azure

import (
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	client   = "bbbbbbbb-0000-4000-8000-000000000002"
	resource = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/nodes"
)

// One place says who it is, and the first that says anything.
func TestWhoItIs(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		env  map[string]string
		want string
		err  string
	}{
		"nobody says anything":   {Config{}, nil, "the machine's system-assigned managed identity", ""},
		"a tenant says nothing":  {Config{TenantID: tenant}, nil, "the machine's system-assigned managed identity", ""},
		"user-assigned":          {Config{ClientID: client}, nil, "the managed identity " + client, ""},
		"by object":              {Config{ObjectID: client}, nil, "the managed identity " + client, ""},
		"by resource":            {Config{ResourceID: resource}, nil, "the managed identity " + resource, ""},
		"environment":            {Config{}, map[string]string{"AZURE_CLIENT_ID": client}, "the managed identity " + client, ""},
		"configuration first":    {Config{ObjectID: client}, map[string]string{"AZURE_CLIENT_ID": tenant, "AZURE_TENANT_ID": tenant, "AZURE_CLIENT_SECRET": "x"}, "the managed identity " + client, ""},
		"secret of environment":  {Config{}, map[string]string{"AZURE_CLIENT_ID": client, "AZURE_TENANT_ID": tenant, "AZURE_CLIENT_SECRET": "x"}, "application " + client + " in tenant " + tenant + " (client secret)", ""},
		"tenant beside it":       {Config{TenantID: "contoso.example"}, map[string]string{"AZURE_CLIENT_ID": client, "AZURE_CLIENT_SECRET": "x"}, "application " + client + " in tenant contoso.example (client secret)", ""},
		"certificate":            {Config{ClientID: client, TenantID: tenant, ClientCertificateFile: "x"}, nil, "application " + client + " in tenant " + tenant + " (client certificate)", ""},
		"token":                  {Config{}, map[string]string{"AZURE_CLIENT_ID": client, "AZURE_TENANT_ID": tenant, "AZURE_FEDERATED_TOKEN_FILE": "x"}, "application " + client + " in tenant " + tenant + " (federated token)", ""},
		"two":                    {Config{ClientID: client, ObjectID: client}, nil, "", "the configuration names more than one identity (objectID, clientID); keep one"},
		"two secrets":            {Config{ClientID: client, TenantID: tenant, ClientSecretFile: "x", FederatedTokenFile: "y"}, nil, "", "more than one identity (clientSecretFile, federatedTokenFile)"},
		"half":                   {Config{ClientSecretFile: "x"}, nil, "", "the configuration has clientSecretFile, but not clientID and tenantID"},
		"two in environment":     {Config{}, map[string]string{"AZURE_CLIENT_SECRET": "x", "AZURE_CLIENT_CERTIFICATE_PATH": "y"}, "", "more than one identity (AZURE_CLIENT_SECRET, AZURE_CLIENT_CERTIFICATE_PATH)"},
		"half in environment":    {Config{}, map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "x", "AZURE_CLIENT_ID": client}, "", "the environment has AZURE_FEDERATED_TOKEN_FILE, but not AZURE_TENANT_ID"},
		"bad in environment":     {Config{}, map[string]string{"AZURE_CLIENT_ID": "x", "AZURE_TENANT_ID": "../x"}, "", `AZURE_TENANT_ID: "../x" is no tenant`},
		"password alone in env":  {Config{}, map[string]string{"AZURE_CLIENT_CERTIFICATE_PASSWORD": "s3cret"}, "", "the environment has AZURE_CLIENT_CERTIFICATE_PASSWORD, but not AZURE_CLIENT_CERTIFICATE_PATH, which belongs to it"},
		"a user":                 {Config{}, map[string]string{"AZURE_CLIENT_ID": client, "AZURE_TENANT_ID": tenant, "AZURE_USERNAME": "u", "AZURE_PASSWORD": "s3cret"}, "", "AZURE_USERNAME and AZURE_PASSWORD are a person's login, which is not supported"},
		"a user, but configured": {Config{ObjectID: client}, map[string]string{"AZURE_USERNAME": "u"}, "the managed identity " + client, ""},
		"password alone":         {Config{ClientCertificatePasswordFile: "x"}, nil, "", "for clientCertificateFile, which is missing"},
		"azure.json and more":    {Config{CloudConfig: "x", ClientID: client}, nil, "", "more than one identity (cloudConfig, clientID)"},
		"no azure.json":          {Config{CloudConfig: "/nowhere/azure.json"}, nil, "", "cloudConfig: open /nowhere/azure.json: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			newWorld(t)
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			s, err := New(tt.cfg, Options{})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || s.Who() != tt.want {
				t.Errorf("it is %q, %v, want %q", s.Who(), err, tt.want)
			}
		})
	}
}

func TestClouds(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg       Config
		env       string
		authority string
		cloud     Cloud
		err       string
	}{
		"by default":            {Config{}, "", "login.microsoftonline.com", Public, ""},
		"of the registry":       {Config{DefaultCloud: China}, "", "login.partner.microsoftonline.cn", China, ""},
		"by name":               {Config{Cloud: "AZUREUSGOVERNMENTCLOUD", DefaultCloud: China}, "", "login.microsoftonline.us", USGovernment, ""},
		"environment":           {Config{DefaultCloud: China}, "https://login.microsoftonline.us/", "login.microsoftonline.us", USGovernment, ""},
		"name over environment": {Config{Cloud: "AzureChina"}, "https://login.microsoftonline.us/", "login.partner.microsoftonline.cn", China, ""},
		"old name":              {Config{AuthorityHost: "https://LOGIN.chinacloudapi.cn"}, "", "login.chinacloudapi.cn", China, ""},
		"another":               {Config{AuthorityHost: "login.stack.example:8443"}, "", "login.stack.example:8443", Cloud{}, ""},
		"contradiction":         {Config{AuthorityHost: "login.microsoftonline.us", Cloud: "AzureChinaCloud"}, "", "", Cloud{}, "login.microsoftonline.us is not of AzureChinaCloud"},
		"unknown":               {Config{Cloud: "AzureGermanCloud"}, "", "", Cloud{}, `the cloud "AzureGermanCloud" is not known; did you mean AzureChinaCloud?`},
		"http":                  {Config{}, "http://login.microsoftonline.com", "", Cloud{}, "AZURE_AUTHORITY_HOST: \"http://login.microsoftonline.com\" is not https"},
		"path":                  {Config{AuthorityHost: "https://login.microsoftonline.com/tenant"}, "", "", Cloud{}, "has more than a host"},
		"user":                  {Config{AuthorityHost: "https://login.microsoftonline.com@evil.example"}, "", "", Cloud{}, "has more than a host"},
		"no host":               {Config{AuthorityHost: "https://"}, "", "", Cloud{}, "is no host"},
	} {
		t.Run(name, func(t *testing.T) {
			newWorld(t)
			t.Setenv("AZURE_AUTHORITY_HOST", tt.env)
			s, err := New(tt.cfg, Options{})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || s.authority != tt.authority || s.Cloud() != tt.cloud {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// azure.json has an order of its own, keys in any case, and cloud names in capitals.
func TestCloudConfig(t *testing.T) {
	app := `"tenantId":"` + tenant + `","aadClientId":"` + client + `"`
	for content, want := range map[string]kind{
		`{"USEMANAGEDIDENTITYEXTENSION":true,"vnetName":"x","aadClientSecret":"msi"}`:                   systemAssigned,
		`{"useManagedIdentityExtension":true,"userAssignedIdentityID":"` + client + `"}`:                userAssigned,
		`{"useManagedIdentityExtension":true,"userAssignedIdentityID":"` + resource + `"}`:              userAssigned,
		`{"useManagedIdentityExtension":true,"useFederatedWorkloadIdentityExtension":true,` + app + `}`: withToken,
		`{"aadClientSecret":"x","aadClientCertPath":"y",` + app + `}`:                                   withSecret,
		`{"aadClientCertPath":"y",` + app + `}`:                                                         withCertificate,
	} {
		if s, got, _, err := parseCloudConfig([]byte(content)); err != nil || got != want || want == withToken && s.tokenFile != defaultTokenFile {
			t.Errorf("%s: %v, %+v, %v", content, got, s, err)
		}
	}
	for content, want := range map[string]string{
		`[]`: "it is no JSON object", `{"tenantId":3}`: "tenantId has the wrong type", `{"aadClientSecret":"s3cret"`: "no valid JSON (at byte 27)",
		`{"aadClientSecret":"s3cret"}`:                                                     "aadClientId is missing",
		`{"aadClientSecret":"s3cret","aadClientId":"s3cre","tenantId":"x"}`:                `aadClientId: "s3cre" is no id`,
		`{"useManagedIdentityExtension":true,"userAssignedIdentityID":"/subscriptions/x"}`: "userAssignedIdentityID: it is no id of a user-assigned",
	} {
		if _, _, _, err := parseCloudConfig([]byte(content)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

// FuzzCloudConfig checks that nothing panics, that an identity comes with what it needs, and that errors
// show no secret.
func FuzzCloudConfig(f *testing.F) {
	f.Add(`{"tenantId":"`+tenant+`","aadClientId":"`+client+`","aadClientSecret":"s3cret"}`, "")
	f.Add(`{"useManagedIdentityExtension":true,"userAssignedIdentityID":"`+resource+`","cloud":"AzureChinaCloud"}`, "https://login.microsoftonline.us:443/")
	f.Fuzz(func(t *testing.T, content, authority string) {
		s, k, _, err := parseCloudConfig([]byte(content))
		if err == nil && (k == unset || k == withSecret && (s.secret.IsEmpty() || CheckID(s.client) != nil || CheckTenant(s.tenant) != nil)) {
			t.Errorf("%q is %v %+v", content, k, s)
		}
		if host, _, err := parseAuthority(authority); err == nil && (host == "" || strings.ContainsAny(host, "/@?# ")) {
			t.Errorf("%q is the host %q", authority, host)
		}
	})
}

// FuzzToken checks that no answer makes it panic, that what is taken for a token has an end, and that an error is
// one line.
func FuzzToken(f *testing.F) {
	f.Add([]byte(`{"token_type":"Bearer","expires_in":3599,"access_token":"eyJ"}`))
	f.Add([]byte(`{"expires_in":"3599","expires_on":"1506484173","access_token":"eyJ","token_type":"bearer"}`))
	f.Add([]byte(`{"error":"invalid_client","error_description":"AADSTS7000215: x\r\nTrace ID: y","error_codes":[7000215]}`))
	f.Add([]byte(`{"expires_in":1e308,"access_token":"x","error_codes":["NaN"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		now := testTime()
		token, err := parseToken("x", body, now)
		if err == nil && (token.Value.IsEmpty() || !token.Expires.After(now) || strings.ContainsAny(token.Value.Reveal(), "\r\n ")) {
			t.Errorf("%q gives %+v", body, token)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%q: %v", body, err)
		}
		failure := parseFailure(&Response{Status: 400, Body: body})
		if said := failure.said(cloudauth.NewSecret("eyJ")); strings.ContainsAny(said, "\r\n") || len(said) > 300 {
			t.Errorf("%q says %q", body, said)
		}
		_ = (&Session{}).hint(failure, registryA)
	})
}
