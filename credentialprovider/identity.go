package credentialprovider

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Identity says as whom credentials are got. It is configured for each kind of registry, and
// nothing falls back from one to the other: a pod that is refused must not get what the node
// may see, nor the other way around.
type Identity string

// The identities.
const (
	// NodeIdentity is the node's, or whatever credentials are configured on it.
	NodeIdentity Identity = "node"
	// ServiceAccountIdentity is that of the pod's service account (KEP-4412).
	ServiceAccountIdentity Identity = "serviceAccount"
)

// ParseIdentity reads an identity; empty is the node's.
func ParseIdentity(text string) (Identity, error) {
	switch i := Identity(text); i {
	case "":
		return NodeIdentity, nil
	case NodeIdentity, ServiceAccountIdentity:
		return i, nil
	}
	return "", fmt.Errorf("identity %q is not known; it has to be %s or %s", text, NodeIdentity, ServiceAccountIdentity)
}

// account returns whose identity a request is to be answered with, nil for the node's.
func (k Kind) account(r *Request, now time.Time) (*ServiceAccount, error) {
	identity, err := ParseIdentity(string(k.Identity))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	sent := !r.ServiceAccountToken.IsEmpty()
	switch {
	case identity == NodeIdentity && sent:
		return nil, fmt.Errorf("the kubelet sends a service account token, but %s is configured for the node's identity; "+
			"remove tokenAttributes from this provider in the kubelet's CredentialProviderConfig, or set identity %s (in --config or with --identity)", k.Name, ServiceAccountIdentity)
	case identity == NodeIdentity:
		return nil, nil
	case !sent && strings.HasSuffix(r.APIVersion, "/"+apiVersions()[0]):
		return nil, fmt.Errorf("%s is configured for the identity of service accounts, but the kubelet sends no token; "+
			"set tokenAttributes with requireServiceAccount: true in its CredentialProviderConfig (static pods have no service account: their images need the node's identity)", k.Name)
	case !sent:
		return nil, fmt.Errorf("%s is configured for the identity of service accounts, but %s has no service account tokens; set apiVersion: %s/%s in the kubelet's CredentialProviderConfig",
			k.Name, r.APIVersion, apiGroup, apiVersions()[0])
	}
	account, err := parseServiceAccount(r.ServiceAccountToken, r.ServiceAccountAnnotations)
	if err != nil {
		return nil, err
	}
	if !account.Expires.After(now) {
		return nil, fmt.Errorf("the token of %s has expired at %s; check the clock of the node", account, account.Expires.UTC().Format(time.RFC3339))
	}
	return account, nil
}

// The bounds of cacheDuration: of its margin, and of a life, as no registry's token lives for longer.
const (
	minMargin = time.Minute
	maxMargin = 15 * time.Minute
	maxLife   = 12 * time.Hour
)

// cacheDuration returns how long the kubelet may keep credentials, nil for as long as it is
// configured to. They have to live on for a while when it uses them for the last time,
// because the pull that begins then has to end, too. What a service account's token gave is
// kept no longer than that token lives, by the clock of the cloud, where it tells: a node's may be wrong.
func cacheDuration(c Credentials, account *ServiceAccount, now time.Time) (*time.Duration, error) {
	keep := c.CacheDuration
	atMost := func(d time.Duration) {
		if keep == nil || d < *keep {
			keep = &d
		}
	}
	if !c.Expires.IsZero() {
		if !c.Expires.After(now) {
			return nil, errors.New("the credentials that the cloud gave have expired at " + c.Expires.UTC().Format(time.RFC3339) + "; check the clock of the node")
		}
		atMost(lessMargin(c.Expires.Sub(now)))
	}
	if account != nil {
		atMost(lessMargin(account.Expires.Sub(now.Add(c.Ahead))))
	}
	return keep, nil
}

// lessMargin takes a tenth off, at least a minute and at most fifteen; what is left is whole
// seconds, 0 if nothing is. More than twelve hours are none of a token's, whatever it says.
func lessMargin(life time.Duration) time.Duration {
	life = min(life, maxLife)
	return max(life-min(max(life/10, minMargin), maxMargin), 0).Truncate(time.Second)
}
