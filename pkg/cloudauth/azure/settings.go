package azure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// settings are what one place (the configuration, the environment, azure.json) says of an identity.
type settings struct {
	tenant, client, object, resource string

	secret           cloudauth.Secret
	secretFile       string
	certFile         string
	certPassword     cloudauth.Secret
	certPasswordFile string
	sendChain        bool
	tokenFile        string
	cloudConfig      string
}

// keys are what a place calls the settings, for errors.
type keys struct{ tenant, client, object, resource, secret, cert, token, cloudConfig string }

var (
	configKeys = keys{"tenantID", "clientID", "objectID", "resourceID", "clientSecretFile", "clientCertificateFile", "federatedTokenFile", "cloudConfig"}
	envKeys    = keys{"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "", "", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE", ""}
)

// kind is a way to prove an identity.
type kind int

const (
	unset kind = iota
	systemAssigned
	userAssigned
	withSecret
	withCertificate
	withToken
	inCloudConfig
)

// fromEnvironment reads the variables of Azure's SDKs.
func fromEnvironment() settings {
	chain, _ := strconv.ParseBool(os.Getenv("AZURE_CLIENT_SEND_CERTIFICATE_CHAIN")) // anything else is false, as with the SDKs
	return settings{
		tenant: os.Getenv(envKeys.tenant), client: os.Getenv(envKeys.client),
		secret:   cloudauth.NewSecret(os.Getenv(envKeys.secret)),
		certFile: os.Getenv(envKeys.cert), certPassword: cloudauth.NewSecret(os.Getenv("AZURE_CLIENT_CERTIFICATE_PASSWORD")), sendChain: chain,
		tokenFile: os.Getenv(envKeys.token),
	}
}

// choose decides which one identity the settings are; unset if they are none. What contradicts or
// is missing is an error.
func (s settings) choose(place string, k keys) (kind, error) {
	var chosen []string
	result := unset
	pick := func(there bool, name string, as kind) {
		if there {
			chosen, result = append(chosen, name), as
		}
	}
	pick(s.cloudConfig != "", k.cloudConfig, inCloudConfig)
	pick(s.object != "", k.object, userAssigned)
	pick(s.resource != "", k.resource, userAssigned)
	pick(!s.secret.IsEmpty() || s.secretFile != "", k.secret, withSecret)
	pick(s.certFile != "", k.cert, withCertificate)
	pick(s.tokenFile != "", k.token, withToken)
	alone := len(chosen) == 0
	pick(s.client != "" && (alone || result == userAssigned || result == inCloudConfig), k.client, userAssigned)
	if len(chosen) > 1 {
		return unset, fmt.Errorf("%s names more than one identity (%s); keep one", place, strings.Join(chosen, ", "))
	}
	if result == withSecret || result == withCertificate || result == withToken {
		var missing []string
		if s.client == "" {
			missing = append(missing, k.client)
		}
		if s.tenant == "" {
			missing = append(missing, k.tenant)
		}
		if len(missing) > 0 {
			return unset, fmt.Errorf("%s has %s, but not %s, which belongs to it; add what is missing", place, chosen[0], strings.Join(missing, " and "))
		}
	}
	return result, nil
}

// checkEnvironment says what is wrong with the values of the environment.
func (s settings) checkEnvironment() error {
	var errs []error
	if s.tenant != "" {
		if err := CheckTenant(s.tenant); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", envKeys.tenant, err))
		}
	}
	if s.client != "" {
		if err := CheckID(s.client); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", envKeys.client, err))
		}
	}
	// Without these nothing else may be taken, either: what is left would be another identity.
	if s.certFile == "" && !s.certPassword.IsEmpty() {
		errs = append(errs, fmt.Errorf("the environment has AZURE_CLIENT_CERTIFICATE_PASSWORD, but not %s, which belongs to it; add what is missing", envKeys.cert))
	}
	if os.Getenv("AZURE_USERNAME") != "" || os.Getenv("AZURE_PASSWORD") != "" {
		errs = append(errs, errors.New("AZURE_USERNAME and AZURE_PASSWORD are a person's login, which is not supported; remove them, and use an application or a managed identity"))
	}
	return errors.Join(errs...)
}

// readFile reads a file that what names.
func readFile(what, path string) ([]byte, error) {
	data, err := cloudauth.ReadFile(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w; check the file and who may read it", what, err)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, fmt.Errorf("%s: %s is empty", what, path)
	}
	return data, nil
}

// readSecret reads a secret of one line.
func readSecret(what, path string) (cloudauth.Secret, error) {
	data, err := readFile(what, path)
	if err != nil {
		return cloudauth.Secret{}, err
	}
	text := strings.TrimSpace(string(data))
	if strings.ContainsAny(text, "\r\n\x00") {
		return cloudauth.Secret{}, fmt.Errorf("%s: %s has more than one line; it has to hold the value alone", what, path)
	}
	return cloudauth.NewSecret(text), nil
}
