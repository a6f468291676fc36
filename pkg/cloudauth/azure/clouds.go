package azure

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// Cloud is one of Azure's clouds. They share neither identities nor registries. The zero Cloud is one
// that is not known, such as an Azure Stack.
type Cloud struct {
	// Name is its name in configurations.
	Name string
	// AuthorityHost is where its Entra ID gives out tokens.
	AuthorityHost string
	// ExchangeAudience is what tokens of other issuers have to be for.
	ExchangeAudience string
}

// The clouds.
var (
	Public       = Cloud{Name: "AzurePublicCloud", AuthorityHost: "login.microsoftonline.com", ExchangeAudience: "api://AzureADTokenExchange"}
	China        = Cloud{Name: "AzureChinaCloud", AuthorityHost: "login.partner.microsoftonline.cn", ExchangeAudience: "api://AzureADTokenExchangeChina"}
	USGovernment = Cloud{Name: "AzureUSGovernmentCloud", AuthorityHost: "login.microsoftonline.us", ExchangeAudience: "api://AzureADTokenExchangeUSGov"}
)

// cloudNames are the names under which Azure's tools know the clouds, in lower case; in azure.json they
// are in capitals.
var cloudNames = map[string]Cloud{
	"azurepubliccloud": Public, "azurepublic": Public, "azurecloud": Public,
	"azurechinacloud": China, "azurechina": China,
	"azureusgovernmentcloud": USGovernment, "azureusgovernment": USGovernment, "azuregovernment": USGovernment,
}

// authorities are the clouds by the names of their Entra ID; some have an old one.
var authorities = map[string]Cloud{
	Public.AuthorityHost: Public, "login.windows.net": Public, "login.microsoft.com": Public, "sts.windows.net": Public,
	China.AuthorityHost: China, "login.chinacloudapi.cn": China,
	USGovernment.AuthorityHost: USGovernment, "login.usgovcloudapi.net": USGovernment,
}

// CloudNamed returns the cloud of a name, whatever its case.
func CloudNamed(name string) (Cloud, error) {
	if c, ok := cloudNames[strings.ToLower(name)]; ok {
		return c, nil
	}
	known := []string{Public.Name, China.Name, USGovernment.Name}
	hint := "known are " + strings.Join(known, ", ")
	if meant := nearest.Of(name, known); meant != "" {
		hint = "did you mean " + meant + "?"
	}
	hint += "; for any other cloud set authorityHost"
	return Cloud{}, fmt.Errorf("the cloud %q is not known; %s", cloudauth.Excerpt(name, 60), hint)
}

// parseAuthority reads the host of an Entra ID, as a URL or bare.
func parseAuthority(text string) (host string, c Cloud, err error) {
	wrong := func(why string) (string, Cloud, error) {
		return "", Cloud{}, fmt.Errorf("%q %s; write it as https://%s", cloudauth.Excerpt(text, 120), why, Public.AuthorityHost)
	}
	full := text
	if !strings.Contains(text, "://") {
		full = "https://" + text
	}
	u, err := url.Parse(full)
	switch {
	case err != nil || u.Hostname() == "" || strings.ContainsAny(u.Host, "%, "):
		return wrong("is no host")
	case u.Scheme != "https":
		return wrong("is not https: credentials are not sent unencrypted")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return wrong("has more than a host (the tenant has a setting of its own)")
	}
	host = strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	return host, authorities[host], nil
}

// CheckID says what is wrong with a client or object id, which are GUIDs.
func CheckID(id string) error {
	parts := strings.Split(strings.ToLower(id), "-")
	ok := len(parts) == 5
	for i, n := range []int{8, 4, 4, 4, 12} {
		ok = ok && len(parts[i]) == n && strings.Trim(parts[i], "0123456789abcdef") == ""
	}
	if !ok {
		return fmt.Errorf("%q is no id such as 11111111-2222-3333-4444-555555555555", cloudauth.Excerpt(id, 60))
	}
	return nil
}

// CheckTenant says what is wrong with a tenant, a GUID or one of its domains.
func CheckTenant(tenant string) error {
	switch strings.ToLower(tenant) {
	case "common", "organizations", "consumers":
		return fmt.Errorf("%q is no single tenant; write its id or domain", tenant)
	}
	if CheckID(tenant) == nil {
		return nil
	}
	if !strings.Contains(tenant, ".") || strings.Contains(tenant, "..") || len(tenant) > 253 ||
		strings.Trim(strings.ToLower(tenant), "0123456789abcdefghijklmnopqrstuvwxyz.-") != "" || strings.Trim(tenant, ".-") != tenant {
		return fmt.Errorf("%q is no tenant, such as 11111111-2222-3333-4444-555555555555 or contoso.onmicrosoft.com", cloudauth.Excerpt(tenant, 60))
	}
	return nil
}

// checkResourceID says what is wrong with the resource id of a user-assigned managed identity.
func checkResourceID(id string) error {
	parts := strings.Split(id, "/")
	ok := len(parts) == 9 && parts[0] == "" && len(id) < 1000 && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f })
	for i, want := range map[int]string{1: "subscriptions", 3: "resourceGroups", 5: "providers", 6: "Microsoft.ManagedIdentity", 7: "userAssignedIdentities"} {
		ok = ok && strings.EqualFold(parts[i], want)
	}
	if !ok || parts[2] == "" || parts[4] == "" || parts[8] == "" {
		return errors.New("it is no id of a user-assigned managed identity, such as /subscriptions/…/resourceGroups/…/providers/Microsoft.ManagedIdentity/userAssignedIdentities/name")
	}
	return nil
}
