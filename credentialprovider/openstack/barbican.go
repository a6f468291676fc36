package openstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// maxPayload bounds what is read of a secret. Barbican's own limit is 20,000 bytes.
const maxPayload = 256 << 10

// barbican reads the secret and returns its entry for the image.
func barbican(ctx context.Context, session *auth.Session, secret string, image credentialprovider.Image) (credentialprovider.Credentials, error) {
	client, err := session.Service(ctx, "key-manager")
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	id, err := secretID(ctx, client, secret)
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	payload, ahead, err := readPayload(ctx, client, id)
	if err != nil {
		return credentialprovider.Credentials{}, explain(err, secret)
	}
	c, err := entryFor(payload, image)
	if err != nil {
		return credentialprovider.Credentials{}, fmt.Errorf("Barbican secret %s: %w", secret, err) //nolint:staticcheck // a name
	}
	c.Ahead = ahead
	return c, nil
}

// secretID finds the id by a reference, an id or a name. Only the id of a reference counts:
// the token goes to the endpoint of the catalog and nowhere else. Of several secrets of one
// name the newest is taken, because a Barbican secret cannot be changed: it is rotated by
// storing a new one.
func secretID(ctx context.Context, client *gophercloud.ServiceClient, secret string) (string, error) {
	last := strings.TrimRight(secret, "/")
	last = last[strings.LastIndexByte(last, '/')+1:]
	if text.IsUUID(last) {
		return last, nil
	}
	if strings.Contains(secret, "://") {
		return "", fmt.Errorf("secret %q does not end with the id of a secret; write its reference (openstack secret list), its id or its name", secret)
	}
	page, err := secrets.List(client, secrets.ListOpts{Name: secret, Sort: "created:desc", Limit: 50}).AllPages(ctx)
	if err != nil {
		return "", explain(err, secret)
	}
	found, err := secrets.ExtractSecrets(page)
	if err != nil {
		return "", fmt.Errorf("Barbican's list of secrets named %q cannot be read: %w", secret, err) //nolint:staticcheck // a name
	}
	var newest *secrets.Secret
	for i, s := range found {
		if s.Name == secret && s.Status == "ACTIVE" && (newest == nil || s.Created.After(newest.Created)) {
			newest = &found[i]
		}
	}
	if newest == nil {
		return "", fmt.Errorf("Barbican has no secret named %q in this project; store it (openstack secret store --name %s --payload-content-type text/plain --payload …) or write its id", secret, secret) //nolint:staticcheck // a name
	}
	return newest.SecretRef[strings.LastIndexByte(newest.SecretRef, '/')+1:], nil
}

// readPayload reads the secret's content as text, which Barbican makes of stored bytes too, and how much its clock is ahead.
func readPayload(ctx context.Context, client *gophercloud.ServiceClient, id string) (cloudauth.Secret, time.Duration, error) {
	r := secrets.GetPayload(ctx, client, id, nil)
	if r.Err != nil {
		return cloudauth.Secret{}, 0, r.Err
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxPayload+1))
	if closeErr := r.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return cloudauth.Secret{}, 0, fmt.Errorf("reading the payload: %w", err)
	}
	if len(data) > maxPayload {
		return cloudauth.Secret{}, 0, fmt.Errorf("the payload is longer than %d KiB", maxPayload>>10)
	}
	return cloudauth.NewSecret(string(data)), wire.Ahead(r.Header, time.Now()), nil
}

// explain says what to do about Barbican's refusals.
func explain(err error, secret string) error {
	if own := auth.AsError(err); own != nil {
		return own
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &answer) {
		var u *url.Error
		if errors.As(err, &u) {
			where := "Barbican"
			if asked, parseErr := url.Parse(u.URL); parseErr == nil {
				where += " at " + asked.Host
			}
			return fmt.Errorf("%s (secret %s)", wire.Explain(where, err, "check the key-manager endpoint and the network"), secret)
		}
		return fmt.Errorf("Barbican secret %s cannot be read: %s; check the key-manager endpoint and the network", secret, cloudauth.Excerpt(err.Error(), 300)) //nolint:staticcheck // a name
	}
	what := ""
	switch answer.Actual {
	case http.StatusNotFound:
		what = "there is none, or it has no payload; check secret in cloud.conf (openstack secret list)"
	case http.StatusUnauthorized, http.StatusForbidden:
		what = "access is denied; give the user the role creator or observer in the project, or put it on the secret's ACL (openstack acl user add)"
	case http.StatusTooManyRequests:
		what = "Barbican asks to slow down; the kubelet tries again"
	default:
		what = "Barbican answers: " + cloudauth.Excerpt(string(answer.Body), 200)
	}
	return fmt.Errorf("Barbican secret %s (%d): %s", secret, answer.Actual, what) //nolint:staticcheck // a name
}
