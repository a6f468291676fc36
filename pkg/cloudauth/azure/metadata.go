package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

const (
	metadataEndpoint = "http://169.254.169.254"
	metadataPath     = "/metadata/identity/oauth2/token"
	metadataVersion  = "2018-02-01"
	// metadataVariable names another host in its place, as with Azure's SDKs for most languages.
	metadataVariable = "AZURE_POD_IDENTITY_AUTHORITY_HOST"
	metadataName     = "the instance metadata service"
)

// metadataURL is where the managed identity's tokens come from: next to this machine or on it, as
// they are sent unencrypted.
func metadataURL() (*url.URL, error) {
	text := cmp.Or(os.Getenv(metadataVariable), metadataEndpoint)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || !wire.IsNear(u.Hostname()) || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%s: %q is no address of a metadata service on or next to this machine, such as %s", metadataVariable, cloudauth.Excerpt(text, 120), metadataEndpoint)
	}
	u.Path = metadataPath
	return u, nil
}

// fromMetadata gets a token of a managed identity.
func (s *Session) fromMetadata(ctx context.Context, audience string) (Token, error) {
	query := url.Values{"api-version": {metadataVersion}, "resource": {audience}}
	for name, value := range map[string]string{"client_id": s.settings.client, "object_id": s.settings.object, "msi_res_id": s.settings.resource} {
		if value != "" && s.kind == userAssigned {
			query.Set(name, value)
		}
	}
	address := *s.metadata
	address.RawQuery = query.Encode()
	response, err := s.client.Do(ctx, Request{Where: metadataName, URL: address.String(), metadata: true})
	if err != nil {
		return Token{}, noMetadata(err)
	}
	if response.Status == http.StatusOK {
		return s.ownToken(response.Body)
	}
	f := parseFailure(response)
	e := response.Refusal(metadataName, s.Who(), f.said(), s.metadataHint(response.Status, f))
	if e.Reason == cloudauth.Rejected && (response.Status == http.StatusNotFound || strings.Contains(f.Description, "not found")) {
		e.Reason = cloudauth.NoCredentials
	}
	return Token{}, e
}

// ownToken reads an answer of the metadata service. Services in its place (agents of other clouds, proxies) are known to
// ignore which identity is asked for, and to answer with another one's token: what they say about it has to fit.
func (s *Session) ownToken(body []byte) (Token, error) {
	token, err := parseToken(metadataName, body, s.now())
	if err != nil {
		return Token{}, err
	}
	var of struct {
		ClientID string `json:"client_id"`
	}
	if json.Unmarshal(body, &of) == nil && s.settings.client != "" && of.ClientID != "" && !strings.EqualFold(of.ClientID, s.settings.client) {
		return Token{}, cloudauth.NewError(cloudauth.Failed, "%s answers with a token of %s when asked for one of %s", metadataName, cloudauth.Excerpt(of.ClientID, 60), s.settings.client)
	}
	return token, nil
}

// noMetadata says what it means that nobody answers.
func noMetadata(err error) error {
	return &cloudauth.Error{Reason: cloudauth.NoCredentials, Cause: err, Text: fmt.Sprintf("%v; there are no other Azure credentials, neither in the configuration nor in the environment; "+
		"outside of Azure configure an application (clientID and tenantID with clientSecretFile, clientCertificateFile or federatedTokenFile)", err)}
}

// metadataHint says what to do about a refusal.
func (s *Session) metadataHint(status int, f failure) string {
	switch text := strings.ToLower(f.Description); {
	case strings.Contains(text, "multiple user assigned"):
		return "the machine has several user-assigned identities: name one with clientID or AZURE_CLIENT_ID"
	case strings.Contains(text, "identity not found") && s.kind == userAssigned:
		return "assign this identity to the virtual machine or scale set"
	case strings.Contains(text, "identity not found"):
		return "turn on the system-assigned identity of the virtual machine or scale set, or name a user-assigned one with clientID or AZURE_CLIENT_ID"
	case status == http.StatusNotFound:
		return "is this a machine of Azure?"
	case strings.Contains(text, "resource"):
		return "check the audience that tokens are asked for"
	}
	return "see the Azure documentation of managed identities on virtual machines"
}
