package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// cloudConfig is what azure.json says about authentication. Its readers take keys in any case and
// ignore all others, of which it has many.
type cloudConfig struct {
	Cloud                 string           `json:"cloud"`
	TenantID              string           `json:"tenantId"`
	ClientID              string           `json:"aadClientId"`
	ClientSecret          cloudauth.Secret `json:"aadClientSecret"`
	CertPath              string           `json:"aadClientCertPath"`
	CertPassword          cloudauth.Secret `json:"aadClientCertPassword"`
	UseManagedIdentity    bool             `json:"useManagedIdentityExtension"`
	UserAssignedID        string           `json:"userAssignedIdentityID"`
	FederatedTokenFile    string           `json:"aadFederatedTokenFile"`
	UseFederatedTokenFile bool             `json:"useFederatedWorkloadIdentityExtension"`
}

// defaultTokenFile is where workload identity puts the token when azure.json does not say it.
const defaultTokenFile = "/var/run/secrets/azure/tokens/azure-identity-token" //nolint:gosec // a path

// readCloudConfig reads an azure.json and returns the identity in it and the cloud's name. With
// several, the order is that of the cloud controller manager that it is written for: federated token, managed
// identity, client secret, client certificate. With none there is an error.
func readCloudConfig(path string) (s settings, k kind, cloud string, err error) {
	data, err := readFile("cloudConfig", path)
	if err != nil {
		return settings{}, unset, "", err
	}
	s, k, cloud, err = parseCloudConfig(data)
	if err != nil {
		return settings{}, unset, "", fmt.Errorf("cloudConfig: %s: %w", path, err)
	}
	return s, k, cloud, nil
}

func parseCloudConfig(data []byte) (settings, kind, string, error) {
	var c cloudConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return settings{}, unset, "", explainJSON(err)
	}
	s := settings{tenant: c.TenantID}
	k := unset
	needs := func(key, value string, check func(string) error) error {
		if value == "" {
			return fmt.Errorf("%s is missing", key)
		}
		if err := check(value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	}
	application := func() error {
		s.client = c.ClientID
		return errors.Join(needs("aadClientId", c.ClientID, CheckID), needs("tenantId", c.TenantID, CheckTenant))
	}
	var err error
	switch {
	case c.UseFederatedTokenFile:
		k, s.tokenFile = withToken, c.FederatedTokenFile
		if s.tokenFile == "" {
			s.tokenFile = defaultTokenFile
		}
		err = application()
	case c.UseManagedIdentity && c.UserAssignedID == "":
		k = systemAssigned
	case c.UseManagedIdentity && strings.HasPrefix(c.UserAssignedID, "/"):
		k, s.resource = userAssigned, c.UserAssignedID
		err = needs("userAssignedIdentityID", s.resource, checkResourceID)
	case c.UseManagedIdentity:
		k, s.client = userAssigned, c.UserAssignedID
		err = needs("userAssignedIdentityID", s.client, CheckID)
	case !c.ClientSecret.IsEmpty():
		k, s.secret = withSecret, c.ClientSecret
		err = application()
	case c.CertPath != "":
		k, s.certFile, s.certPassword = withCertificate, c.CertPath, c.CertPassword
		err = application()
	default:
		err = errors.New("it names no identity; set useManagedIdentityExtension, or aadClientId with aadClientSecret or aadClientCertPath")
	}
	return s, k, c.Cloud, err
}

// explainJSON words an error of the JSON decoder without values of the file.
func explainJSON(err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("it is no valid JSON (at byte %d)", syntax.Offset)
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Errorf("%s has the wrong type (at byte %d)", cloudauth.Excerpt(wrong.Field, 80), wrong.Offset)
	}
	return errors.New("it is no JSON object")
}
