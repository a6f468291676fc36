package gcp

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"time"
)

// The scopes that matter here.
const (
	scopePrefix   = "https://www.googleapis.com/auth/"
	ScopeStorage  = scopePrefix + "devstorage.read_only"
	ScopeReadOnly = scopePrefix + "cloud-platform.read-only"
	ScopePlatform = scopePrefix + "cloud-platform"
	scopeIAM      = scopePrefix + "iam"
)

// Account is a Google service account as IAM policies name it.
func Account(email string) string { return "serviceAccount:" + email }

// accessToken is what a token says.
type accessToken struct {
	member  string
	scopes  []string
	expires time.Time
}

// userLogin is a person's login on a machine.
type userLogin struct {
	email, id, secret string
	scopes            []string
}

type iamState struct {
	accounts  map[string]map[string]*rsa.PublicKey // keys by id, by email
	users     map[string]userLogin                 // by refresh token
	providers map[string]*Provider                 // by audience
	puller    map[string][]string                  // members by project
	actors    map[string][]string                  // members that may be an account, by email
	tokens    map[string]*accessToken
	sessions  map[string]string // registry tokens: the repository that they open
}

func newIAM() iamState {
	return iamState{
		accounts: map[string]map[string]*rsa.PublicKey{}, users: map[string]userLogin{}, providers: map[string]*Provider{},
		puller: map[string][]string{}, actors: map[string][]string{}, tokens: map[string]*accessToken{}, sessions: map[string]string{},
	}
}

// AddAccount adds a service account.
func (s *Sim) AddAccount(email string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.iam.accounts[email] = map[string]*rsa.PublicKey{}
}

// AddKey makes a key for a service account and returns the file that Google gives for it.
func (s *Sim) AddKey(email string) ([]byte, error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("a key for %s: %w", email, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("a key for %s: %w", email, err)
	}
	id := randomText(40)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.iam.accounts[email][id] = &private.PublicKey
	return json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": "project", "private_key_id": id, "client_email": email, "client_id": "104857600000000000001",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"auth_uri":    "https://accounts.google.com/o/oauth2/auth", "token_uri": "https://oauth2.googleapis.com/token",
		"auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
		"client_x509_cert_url":        "https://www.googleapis.com/robot/v1/metadata/x509/" + email, "universe_domain": "googleapis.com",
	}, "", "  ")
}

// DeleteKeys deletes all keys of a service account.
func (s *Sim) DeleteKeys(email string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.iam.accounts[email])
}

// AddUser adds a person who has logged in with gcloud and returns the file that gcloud writes.
func (s *Sim) AddUser(email string) ([]byte, error) {
	u := userLogin{email: email, id: "764086051850-" + randomText(32) + ".apps.googleusercontent.com", secret: "d-" + randomText(22), scopes: []string{ScopePlatform}}
	refresh := "1//0" + randomText(90)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.iam.users[refresh] = u
	return json.MarshalIndent(map[string]string{
		"type": "authorized_user", "account": "", "client_id": u.id, "client_secret": u.secret, "refresh_token": refresh, "universe_domain": "googleapis.com",
	}, "", "  ")
}

// RevokeUsers ends all logins of people.
func (s *Sim) RevokeUsers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.iam.users)
}

// AllowPull lets a member pull from the repositories of a project.
func (s *Sim) AllowPull(project, member string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.iam.puller[project] = append(s.iam.puller[project], member)
}

// AllowActAs lets a member be a service account.
func (s *Sim) AllowActAs(email, member string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.iam.actors[email] = append(s.iam.actors[email], member)
}

// ExpireTokens lets all access tokens expire now.
func (s *Sim) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.iam.tokens {
		t.expires = time.Now().Add(-time.Second)
	}
}

// newToken makes an access token. mu held.
func (s *Sim) newToken(member string, scopes []string, life time.Duration) (string, *accessToken) {
	value := "ya29.c." + randomText(200)
	t := &accessToken{member: member, scopes: slices.Clone(scopes), expires: time.Now().Add(life)}
	s.iam.tokens[value] = t
	return value, t
}

// TokenInfo returns whose an access token is and its scopes, "" for one that is not valid.
func (s *Sim) TokenInfo(value string) (member string, scopes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.iam.tokens[value]
	if t == nil || time.Now().After(t.expires) {
		return "", nil
	}
	return t.member, slices.Clone(t.scopes)
}

// Tokens returns the scopes of all access tokens.
func (s *Sim) Tokens() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]string{}
	for value, t := range s.iam.tokens {
		all[value] = slices.Clone(t.scopes)
	}
	return all
}

// ResetTokens forgets all access tokens, which are then not valid any more.
func (s *Sim) ResetTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.iam.tokens)
}
