package openstack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"gopkg.in/yaml.v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// complete fills what cfg leaves empty: key by key from clouds.yaml where use-clouds is
// set, and then, but only if no identity is known so far, from the environment, so that
// credentials of two sources are never mixed by accident. It returns the files that it read.
func complete(cfg Config, getenv func(string) string) (Config, []string, error) {
	var files []string
	if !cfg.UseClouds && !cfg.hasIdentity() && getenv("OS_CLOUD") != "" {
		cfg.UseClouds = true
	}
	if cfg.UseClouds {
		read, err := fillFromClouds(&cfg, getenv)
		files = read
		if err != nil {
			return cfg, files, err
		}
		if !cfg.AccessToken.IsEmpty() {
			cfg = cfg.withoutLogins() // clouds.yaml says where the cloud is, and not who logs in
		}
	}
	if !cfg.hasIdentity() {
		cfg.fill(fromEnvironment(getenv))
	}
	return cfg, files, nil
}

func (c *Config) hasIdentity() bool {
	return c.UserID != "" || c.Username != "" || c.TrusteeID != "" || !c.Token.IsEmpty() ||
		c.ApplicationCredentialID != "" || c.ApplicationCredentialName != "" || !c.AccessToken.IsEmpty() || c.AccessTokenFile != ""
}

// fill sets every empty key to the one of other.
func (c *Config) fill(other Config) {
	for _, p := range []struct {
		to   *string
		from string
	}{
		{&c.AuthURL, other.AuthURL},
		{&c.UserID, other.UserID},
		{&c.Username, other.Username},
		{&c.TenantID, other.TenantID},
		{&c.TenantName, other.TenantName},
		{&c.TenantDomainID, other.TenantDomainID},
		{&c.TenantDomainName, other.TenantDomainName},
		{&c.UserDomainID, other.UserDomainID},
		{&c.UserDomainName, other.UserDomainName},
		{&c.DomainID, other.DomainID},
		{&c.DomainName, other.DomainName},
		{&c.TrustID, other.TrustID},
		{&c.TrusteeID, other.TrusteeID},
		{&c.Region, other.Region},
		{&c.EndpointType, other.EndpointType},
		{&c.CAFile, other.CAFile},
		{&c.CertFile, other.CertFile},
		{&c.KeyFile, other.KeyFile},
		{&c.ApplicationCredentialID, other.ApplicationCredentialID},
		{&c.ApplicationCredentialName, other.ApplicationCredentialName},
	} {
		if *p.to == "" {
			*p.to = p.from
		}
	}
	for _, p := range []struct {
		to   *cloudauth.Secret
		from cloudauth.Secret
	}{
		{&c.Password, other.Password},
		{&c.TrusteePassword, other.TrusteePassword},
		{&c.Token, other.Token},
		{&c.ApplicationCredentialSecret, other.ApplicationCredentialSecret},
	} {
		if p.to.IsEmpty() {
			*p.to = p.from
		}
	}
	c.TLSInsecure = c.TLSInsecure || other.TLSInsecure
}

func fromEnvironment(getenv func(string) string) Config {
	first := func(names ...string) string {
		for _, n := range names {
			if v := getenv(n); v != "" {
				return v
			}
		}
		return ""
	}
	return Config{
		AuthURL:                     getenv("OS_AUTH_URL"),
		UserID:                      getenv("OS_USER_ID"),
		Username:                    getenv("OS_USERNAME"),
		Password:                    cloudauth.NewSecret(getenv("OS_PASSWORD")),
		TenantID:                    first("OS_PROJECT_ID", "OS_TENANT_ID"),
		TenantName:                  first("OS_PROJECT_NAME", "OS_TENANT_NAME"),
		TenantDomainID:              getenv("OS_PROJECT_DOMAIN_ID"),
		TenantDomainName:            getenv("OS_PROJECT_DOMAIN_NAME"),
		UserDomainID:                getenv("OS_USER_DOMAIN_ID"),
		UserDomainName:              getenv("OS_USER_DOMAIN_NAME"),
		DomainID:                    getenv("OS_DOMAIN_ID"),
		DomainName:                  getenv("OS_DOMAIN_NAME"),
		TrustID:                     getenv("OS_TRUST_ID"),
		Region:                      getenv("OS_REGION_NAME"),
		EndpointType:                first("OS_INTERFACE", "OS_ENDPOINT_TYPE"),
		CAFile:                      getenv("OS_CACERT"),
		CertFile:                    getenv("OS_CERT"),
		KeyFile:                     getenv("OS_KEY"),
		TLSInsecure:                 OnlyTrue(strings.EqualFold(getenv("OS_INSECURE"), "true") || getenv("OS_INSECURE") == "1"),
		Token:                       cloudauth.NewSecret(first("OS_TOKEN", "OS_AUTH_TOKEN")),
		ApplicationCredentialID:     getenv("OS_APPLICATION_CREDENTIAL_ID"),
		ApplicationCredentialName:   getenv("OS_APPLICATION_CREDENTIAL_NAME"),
		ApplicationCredentialSecret: cloudauth.NewSecret(getenv("OS_APPLICATION_CREDENTIAL_SECRET")),
	}
}

// fillFromClouds fills cfg from secure.yaml, clouds.yaml and clouds-public.yaml, in this
// order, and returns the files it looked into.
func fillFromClouds(cfg *Config, getenv func(string) string) ([]string, error) {
	name := cfg.Cloud
	if name == "" {
		name = getenv("OS_CLOUD")
	}
	if name == "" {
		return nil, errors.New("use-clouds is set, but cloud is not: name the entry of clouds.yaml (cloud = … or OS_CLOUD)")
	}
	file := cfg.CloudsFile
	if file == "" {
		file = getenv("OS_CLIENT_CONFIG_FILE")
	}
	file, err := findClouds(file, "clouds.yaml", getenv)
	if err != nil {
		return nil, err
	}
	secureFile := filepath.Join(filepath.Dir(file), "secure.yaml")
	files := []string{file, secureFile}

	var all, secure clouds.Clouds
	if err := readYAML(file, &all); err != nil {
		return files, err
	}
	if err := readYAML(secureFile, &secure); err != nil && !errors.Is(err, os.ErrNotExist) {
		return files, err
	}
	entry, ok := all.Clouds[name]
	if !ok {
		return files, fmt.Errorf("cloud %q is not in %s%s", name, file, otherClouds(name, all.Clouds))
	}
	// With an access token it says where the cloud is, and not how to log in.
	if cfg.AccessToken.IsEmpty() && cfg.AccessTokenFile == "" {
		if err := checkAuthType(name, file, entry.AuthType); err != nil {
			return files, err
		}
	}
	cfg.fill(fromCloud(secure.Clouds[name]))
	cfg.fill(fromCloud(entry))

	profile := entry.Profile
	if profile == "" {
		profile = entry.Cloud
	}
	if profile == "" {
		return files, nil
	}
	publicFile, err := findClouds("", "clouds-public.yaml", getenv)
	if err != nil {
		return files, fmt.Errorf("cloud %q of %s has the profile %q: %w", name, file, profile, err)
	}
	files = append(files, publicFile)
	var public clouds.PublicClouds
	if err := readYAML(publicFile, &public); err != nil {
		return files, err
	}
	cfg.fill(fromCloud(public.Clouds[profile]))
	return files, nil
}

func otherClouds(name string, all map[string]clouds.Cloud) string {
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	if near := nearest.Of(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; set cloud to the name of one that is"
}

func checkAuthType(name, file string, t clouds.AuthType) error {
	switch t {
	case "", clouds.AuthPassword, clouds.AuthV3Password, clouds.AuthToken, clouds.AuthV3Token, clouds.AuthV3ApplicationCredential:
		return nil
	}
	return fmt.Errorf("auth_type %q of cloud %q in %s is not supported; use v3password, v3applicationcredential or v3token", t, name, file)
}

func fromCloud(c clouds.Cloud) Config {
	cfg := Config{
		Region:       c.RegionName,
		EndpointType: c.EndpointType,
		CAFile:       home(c.CACertFile),
		CertFile:     home(c.ClientCertFile),
		KeyFile:      home(c.ClientKeyFile),
		TLSInsecure:  OnlyTrue(c.Verify != nil && !*c.Verify),
	}
	if cfg.Region == "" && len(c.Regions) == 1 {
		cfg.Region = c.Regions[0].Name
	}
	if cfg.EndpointType == "" {
		cfg.EndpointType = c.Interface
	}
	if a := c.AuthInfo; a != nil {
		cfg.fill(Config{
			AuthURL: a.AuthURL, UserID: a.UserID, Username: a.Username, Password: cloudauth.NewSecret(a.Password),
			TenantID: a.ProjectID, TenantName: a.ProjectName,
			TenantDomainID: a.ProjectDomainID, TenantDomainName: a.ProjectDomainName,
			UserDomainID: a.UserDomainID, UserDomainName: a.UserDomainName,
			DomainID: a.DomainID, DomainName: a.DomainName, TrustID: a.TrustID, Token: cloudauth.NewSecret(a.Token),
			ApplicationCredentialID: a.ApplicationCredentialID, ApplicationCredentialName: a.ApplicationCredentialName,
			ApplicationCredentialSecret: cloudauth.NewSecret(a.ApplicationCredentialSecret),
		})
		if cfg.UserDomainID == "" && cfg.UserDomainName == "" && cfg.DomainID == "" && cfg.DomainName == "" {
			cfg.UserDomainID = a.DefaultDomain
		}
	}
	return cfg
}

// findClouds returns the given file, or else the first that exists of the usual places.
func findClouds(given, base string, getenv func(string) string) (string, error) {
	if given != "" {
		return given, nil
	}
	config := getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(getenv("HOME"), ".config")
	}
	places := []string{base, filepath.Join(config, "openstack", base), filepath.Join("/etc/openstack", base)}
	for _, p := range places {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("found no %s (looked at %s); set clouds-file", base, strings.Join(places, ", "))
}

func home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	return path
}

func readYAML(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the clouds file: %w", err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s is no valid clouds file: %s", file, withoutValues(err.Error()))
	}
	return nil
}

// withoutValues removes what the YAML library quotes of the file, which may be a secret.
func withoutValues(msg string) string {
	parts := strings.Split(msg, "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "…"
	}
	return cloudauth.Excerpt(strings.Join(parts, "`"), 300)
}
