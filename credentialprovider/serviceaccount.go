package credentialprovider

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Program is the name under which the program is installed.
const Program = "isthmus-credential-provider"

// AnnotationPrefix begins the annotations of service accounts that are Isthmus' own.
const AnnotationPrefix = "isthmus-cloud.github.io/"

// ServiceAccount is the pod's, as the kubelet describes it. What is read of the token is not
// verified, which is for the cloud that gets it: it is for messages and the cache only.
type ServiceAccount struct {
	// Token is what the cloud gets as the proof of the identity.
	Token cloudauth.Secret
	// Subject is whom the token is for, "system:serviceaccount:<namespace>:<name>".
	Subject string
	// Audience is for whom the token is.
	Audience []string
	// Expires is when the token ends.
	Expires time.Time
	// Annotations are those of the service account that the kubelet is configured to send.
	Annotations map[string]string
}

// String returns the service account's namespace and name.
func (a *ServiceAccount) String() string {
	if rest, ok := strings.CutPrefix(a.Subject, "system:serviceaccount:"); ok {
		return "service account " + strings.Replace(cloudauth.Excerpt(rest, 320), ":", "/", 1)
	}
	return "service account " + cloudauth.Excerpt(a.Subject, 320)
}

// Annotation returns the value of an annotation that has several keys, "" if there is none.
// Two values that differ are an error.
func (a *ServiceAccount) Annotation(keys ...string) (string, error) {
	value, from := "", ""
	for _, key := range keys {
		v := a.Annotations[key]
		switch {
		case v == "":
		case value == "":
			value, from = v, key
		case v != value:
			return "", fmt.Errorf("%s has the annotations %s and %s with different values; remove one", a, from, key)
		}
	}
	return value, nil
}

// TokenSubject returns the namespace and the name of the service account that a token is for, empty where
// it says none. The token is not verified.
func TokenSubject(token cloudauth.Secret) (namespace, name string) {
	account, err := parseServiceAccount(token, nil)
	if err != nil {
		return "", ""
	}
	rest, ok := strings.CutPrefix(account.Subject, "system:serviceaccount:")
	if !ok {
		return "", ""
	}
	namespace, name, _ = strings.Cut(rest, ":")
	return namespace, name
}

// claims are the parts of a service account token that are used.
type claims struct {
	Subject  string   `json:"sub"`
	Audience audience `json:"aud"`
	Expires  float64  `json:"exp"`
}

// audience is one name or a list of them (RFC 7519).
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// parseServiceAccount reads a token, which is a JWT. Its errors show nothing of it.
func parseServiceAccount(token cloudauth.Secret, annotations map[string]string) (*ServiceAccount, error) {
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 {
		return nil, errors.New("the service account token from the kubelet is no JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errors.New("the service account token from the kubelet is no JWT (its payload is no base64url)")
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil {
		return nil, errors.New("the service account token from the kubelet is no JWT (its payload is no JSON object with sub, aud and exp)")
	}
	if c.Expires <= 0 || c.Expires > math.MaxInt32*100 {
		return nil, errors.New("the service account token from the kubelet has no expiry (exp)")
	}
	return &ServiceAccount{
		Token: token, Subject: c.Subject, Audience: c.Audience,
		Expires: time.Unix(int64(c.Expires), 0), Annotations: annotations,
	}, nil
}
