package supervisor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// accessReviews ask what the own account may do, and are stored nowhere.
var accessReviews = Resource{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview", Plural: "selfsubjectaccessreviews"}

// May asks the Supervisor whether the guest cluster's account may do something with objects of the namespace.
func (c *Client) May(ctx context.Context, verb string, r Resource) (bool, error) {
	review := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resourceAttributes": map[string]any{
		"namespace": c.namespace, "verb": verb, "group": r.Group, "resource": r.Plural}}}}
	review.SetAPIVersion(accessReviews.Group + "/" + accessReviews.Version)
	review.SetKind(accessReviews.Kind)
	answer, err := c.dynamic.Resource(accessReviews.gvr()).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, c.failed("ask whether it may "+verb, r, "", err)
	}
	var got struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err = Decode(answer, &got)
	return got.Status.Allowed, err
}

// TokenEnds is when the token ends that the file has now; the zero time where it does not tell.
func (c *Client) TokenEnds() (time.Time, error) {
	token, err := cloudauth.ReadFile(c.tokenFile)
	if err != nil {
		return time.Time{}, err
	}
	parts := strings.Split(strings.TrimSpace(string(token)), ".")
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if len(parts) != 3 { // not a JSON Web Token
		return time.Time{}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &claims) != nil || claims.Expires == 0 {
		return time.Time{}, nil //nolint:nilerr // it is for the Supervisor to understand
	}
	return time.Unix(claims.Expires, 0), nil
}
