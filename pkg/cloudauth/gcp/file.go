package gcp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	fileVariable   = "GOOGLE_APPLICATION_CREDENTIALS"
	gcloudVariable = "CLOUDSDK_CONFIG"
	gcloudFile     = "application_default_credentials.json"
)

// The types of credentials files.
const (
	typeKey          = "service_account"
	typeUser         = "authorized_user"
	typeExternal     = "external_account"
	typeImpersonated = "impersonated_service_account"
)

// credentialsFile is a file as Google's tools write it, of any type. What they write beside
// these fields is for other uses.
type credentialsFile struct {
	Type     string `json:"type"`
	Universe string `json:"universe_domain"`

	Email      string           `json:"client_email"`
	KeyID      string           `json:"private_key_id"`
	PrivateKey cloudauth.Secret `json:"private_key"`
	TokenURI   string           `json:"token_uri"`

	ClientID     string           `json:"client_id"`
	ClientSecret cloudauth.Secret `json:"client_secret"`
	RefreshToken cloudauth.Secret `json:"refresh_token"`

	Audience         string         `json:"audience"`
	SubjectTokenType string         `json:"subject_token_type"`
	TokenURL         string         `json:"token_url"`
	UserProject      string         `json:"workforce_pool_user_project"`
	Source           *subjectSource `json:"credential_source"`

	ImpersonationURL string `json:"service_account_impersonation_url"`
	Impersonation    struct {
		Lifetime int `json:"token_lifetime_seconds"`
	} `json:"service_account_impersonation"`
	Delegates []string         `json:"delegates"`
	Base      *credentialsFile `json:"source_credentials"`
}

// findFile returns the credentials file that is to be used, "" if none is there. It is not read.
func findFile(cfg Config) (string, error) {
	if cfg.CredentialsFile != "" {
		return cfg.CredentialsFile, nil
	}
	if file := os.Getenv(fileVariable); file != "" {
		return file, nil
	}
	dir := os.Getenv(gcloudVariable)
	if home := os.Getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config", "gcloud")
	}
	if dir == "" {
		return "", nil
	}
	file := filepath.Join(dir, gcloudFile)
	switch _, err := os.Stat(file); {
	case err == nil:
		return file, nil
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	default: // it may well be there
		return "", cloudauth.NewError(cloudauth.Misconfigured, "gcloud's credentials: %v; check who may read the folder, or set %s", err, fileVariable)
	}
}

// ofFile reads the credentials file.
func (s *Session) ofFile(file string) (source, error) {
	data, err := cloudauth.ReadFile(file)
	if err != nil {
		return nil, cloudauth.NewError(cloudauth.Misconfigured, "the Google credentials file cannot be read: %v; correct its path (%s) or who may read it", err, fileVariable)
	}
	return s.parseFile(file, data)
}

// parseFile makes a source of what is in a credentials file. Its errors show nothing secret of it.
func (s *Session) parseFile(file string, data []byte) (source, error) {
	var f credentialsFile
	if err := decodeOne(data, &f); err != nil {
		return nil, cloudauth.NewError(cloudauth.Misconfigured, "%s is no Google credentials file (no JSON, or a field of the wrong type); download or make it again", file)
	}
	universe := s.cfg.universe()
	if f.Universe != "" && f.Universe != universe {
		return nil, cloudauth.NewError(cloudauth.Misconfigured, "%s is for the universe %q, but %s is to be used; credentials are not sent to another", file, cloudauth.Excerpt(f.Universe, 120), universe)
	}
	src, err := s.sourceOf(file, f, universe)
	if err != nil {
		return nil, misconfigured(fmt.Errorf("%s: %w", file, err))
	}
	return src, nil
}

func (s *Session) sourceOf(file string, f credentialsFile, universe string) (source, error) {
	switch f.Type {
	case typeKey:
		return s.keyOf(file, f, universe)
	case typeUser:
		return s.userOf(file, f, universe)
	case typeExternal:
		return s.federatedOf(file, f, universe)
	case typeImpersonated:
		if f.Base == nil || f.Base.Type == typeImpersonated {
			return nil, errors.New("source_credentials are missing, or are of the same type; make the file again")
		}
		base, err := s.sourceOf(file, *f.Base, universe)
		if err != nil {
			return nil, fmt.Errorf("source_credentials: %w", err)
		}
		return s.impersonatedOf(f, base, universe)
	case "":
		return nil, errors.New("type is missing; it is no Google credentials file")
	}
	return nil, fmt.Errorf("type %q is not supported; use %s, %s, %s or %s", cloudauth.Excerpt(f.Type, 60), typeKey, typeExternal, typeImpersonated, typeUser)
}

func (s *Session) keyOf(file string, f credentialsFile, universe string) (source, error) {
	if universe != defaultUniverse {
		return nil, fmt.Errorf("keys of service accounts are not supported in the universe %s; use workload identity federation", universe)
	}
	if err := CheckAccount(f.Email); err != nil {
		return nil, fmt.Errorf("client_email: %w", err)
	}
	tokenURL, err := oauthURL(f.TokenURI, universe)
	if err != nil {
		return nil, err
	}
	private, err := parseKey(f.PrivateKey)
	if err != nil {
		return nil, err
	}
	return &key{session: s, file: file, email: f.Email, id: f.KeyID, private: private, tokenURL: tokenURL}, nil
}

func (s *Session) userOf(file string, f credentialsFile, universe string) (source, error) {
	tokenURL, err := oauthURL(f.TokenURI, universe)
	if err != nil {
		return nil, err
	}
	if f.ClientID == "" || f.ClientSecret.IsEmpty() || f.RefreshToken.IsEmpty() {
		return nil, errors.New("client_id, client_secret or refresh_token is missing; log in again with gcloud auth application-default login")
	}
	return &user{session: s, file: file, id: f.ClientID, secret: f.ClientSecret, refresh: f.RefreshToken, tokenURL: tokenURL}, nil
}

// oauthURL checks a token_uri.
func oauthURL(text, universe string) (string, error) {
	if text == "" {
		return "https://oauth2." + universe + "/token", nil
	}
	if universe == defaultUniverse && slices.Contains(oldTokenURLs, text) {
		return text, nil
	}
	if err := checkEndpoint(text, "oauth2", universe); err != nil {
		return "", fmt.Errorf("token_uri: %w", err)
	}
	return text, nil
}

func (s *Session) federatedOf(file string, f credentialsFile, universe string) (source, error) {
	audience, err := ProviderAudience(f.Audience, s.cfg.UniverseDomain)
	if err != nil {
		return nil, fmt.Errorf("audience: %w", err)
	}
	if f.SubjectTokenType == "" || f.UserProject != "" {
		return nil, errors.New("subject_token_type is missing, or it is a workforce pool's, which is for people; make the file again for a workload identity pool")
	}
	fed := &federated{session: s, audience: audience, tokenType: f.SubjectTokenType, tokenURL: stsURL(universe), clientID: f.ClientID, clientSecret: f.ClientSecret, name: file}
	if f.TokenURL != "" {
		if err := checkEndpoint(f.TokenURL, "sts", universe); err != nil {
			return nil, fmt.Errorf("token_url: %w", err)
		}
		fed.tokenURL = f.TokenURL
	}
	if fed.subject, err = s.subjectOf(file, f.Source); err != nil {
		return nil, err
	}
	if f.ImpersonationURL == "" {
		return fed, nil
	}
	return s.impersonatedOf(f, fed, universe)
}

func stsURL(universe string) string { return "https://sts." + universe + "/v1/token" }

func (s *Session) impersonatedOf(f credentialsFile, of source, universe string) (source, error) {
	email, err := parseImpersonationURL(f.ImpersonationURL, universe)
	if err != nil {
		return nil, fmt.Errorf("service_account_impersonation_url: %w", err)
	}
	life := defaultLife
	if n := f.Impersonation.Lifetime; n != 0 {
		if n < 60 || n > 43200 {
			return nil, fmt.Errorf("service_account_impersonation: token_lifetime_seconds is %d; it has to be from 60 to 43200", n)
		}
		life = time.Duration(n) * time.Second
	}
	var delegates []string
	for _, d := range f.Delegates {
		d = strings.TrimPrefix(d, accountPrefix)
		if err := CheckAccount(d); err != nil {
			return nil, fmt.Errorf("delegates: %w", err)
		}
		delegates = append(delegates, accountPrefix+d)
	}
	return &impersonated{session: s, of: of, email: email, url: f.ImpersonationURL, delegates: delegates, life: life}, nil
}
