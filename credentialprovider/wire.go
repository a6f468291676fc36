package credentialprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	// maxRequest is the size over which a request is refused; real ones have a few hundred bytes.
	maxRequest = 1 << 20

	apiGroup     = "credentialprovider.kubelet.k8s.io"
	requestKind  = "CredentialProviderRequest"
	responseKind = "CredentialProviderResponse"
)

// apiVersions are the versions of the protocol, the newest first. All of them have the same
// fields, but only v1 has those for service accounts.
func apiVersions() []string { return []string{"v1", "v1beta1", "v1alpha1"} }

// Request is a CredentialProviderRequest of any version.
type Request struct {
	// APIVersion is the request's; the response has to have the same.
	APIVersion string
	// Image is the image to be pulled, usually without tag and digest.
	Image string
	// ServiceAccountToken and ServiceAccountAnnotations are set when the kubelet's
	// configuration has tokenAttributes.
	ServiceAccountToken       cloudauth.Secret
	ServiceAccountAnnotations map[string]string
	// Ignored are the names of fields that the request's version does not have here, sorted and fit for a log.
	Ignored []string
}

// Response is a CredentialProviderResponse in the version of its request.
type Response struct {
	wire wireResponse
}

type wireResponse struct {
	Kind          string              `json:"kind"`
	APIVersion    string              `json:"apiVersion"`
	CacheKeyType  string              `json:"cacheKeyType"`
	CacheDuration *string             `json:"cacheDuration,omitempty"`
	Auth          map[string]wireAuth `json:"auth"`
}

type wireAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// ReadRequest reads and checks a request. Fields that it does not know are ignored, as the API of a version
// may grow by what older programs need not know; all else is strict. Errors do not repeat the request, which
// may hold a token.
func ReadRequest(in io.Reader) (*Request, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err != nil {
		return nil, fmt.Errorf("reading the request from stdin: %w", err)
	}
	if len(data) > maxRequest {
		return nil, fmt.Errorf("the request on stdin is longer than %d KiB; the kubelet sends a few hundred bytes", maxRequest>>10)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("no request on stdin; the kubelet runs this program and writes a " + requestKind + " to it (see --help)")
	}
	fields, err := objectFields(data)
	if err != nil {
		return nil, err
	}
	return requestFrom(fields)
}

// objectFields reads one JSON object. encoding/json alone would take fields in any case and
// the last of a field given twice.
func objectFields(data []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return nil, malformed(err)
	}
	if open != json.Delim('{') {
		return nil, errors.New("the request on stdin is no JSON object; expected a " + requestKind)
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, malformed(err)
		}
		name, _ := key.(string)
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the request on stdin has the field %q twice", cloudauth.Excerpt(name, 40))
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, malformed(err)
		}
		fields[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, malformed(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the request on stdin has more after its JSON object")
	}
	return fields, nil
}

func malformed(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("the request on stdin is no valid JSON (at byte %d); expected a %s", syntax.Offset, requestKind)
	}
	return fmt.Errorf("the request on stdin is no valid JSON (it ends too early); expected a %s", requestKind)
}

func requestFrom(fields map[string]json.RawMessage) (*Request, error) {
	var kind, token string
	r := &Request{}
	if err := take(fields, "kind", &kind); err != nil {
		return nil, err
	}
	if err := take(fields, "apiVersion", &r.APIVersion); err != nil {
		return nil, err
	}
	if kind != requestKind {
		return nil, fmt.Errorf("the request on stdin is of kind %q; expected %s", cloudauth.Excerpt(kind, 60), requestKind)
	}
	version, ok := strings.CutPrefix(r.APIVersion, apiGroup+"/")
	if !ok || !slices.Contains(apiVersions(), version) {
		return nil, fmt.Errorf("the request on stdin is of apiVersion %q; known are %s/%s; set one of them as apiVersion of this provider in the kubelet's CredentialProviderConfig",
			cloudauth.Excerpt(r.APIVersion, 80), apiGroup, strings.Join(apiVersions(), ", "))
	}
	if err := take(fields, "image", &r.Image); err != nil {
		return nil, err
	}
	if version == apiVersions()[0] {
		if err := take(fields, "serviceAccountToken", &token); err != nil {
			return nil, err
		}
		r.ServiceAccountToken = cloudauth.NewSecret(token)
		if err := take(fields, "serviceAccountAnnotations", &r.ServiceAccountAnnotations); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		r.Ignored = append(r.Ignored, cloudauth.Excerpt(name, 40))
	}
	if r.Image == "" {
		return nil, errors.New("the request on stdin names no image")
	}
	return r, nil
}

// take moves a field out of fields.
func take(fields map[string]json.RawMessage, name string, into any) error {
	raw, ok := fields[name]
	if !ok {
		return nil
	}
	delete(fields, name)
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the field %q of the request on stdin has the wrong type", name)
	}
	return nil
}

// newResponse builds the response. Its key is as narrow as the credentials allow: the
// registry with its port, or the one image. What a service account's token gave is for that account alone
// without being said here: the kubelet's key in its cache has the account's namespace, name, UID and
// annotations beside the registry (v1.37, pkg/credentialprovider/plugin: generateServiceAccountCacheKey),
// and with cacheType Token the token's hash. test/e2e/kubelet shows it with a real one.
func newResponse(r *Request, image Image, c Credentials, keep *time.Duration) *Response {
	w := wireResponse{Kind: responseKind, APIVersion: r.APIVersion, CacheKeyType: "Registry"}
	key := image.Host
	if c.ImageOnly {
		w.CacheKeyType = "Image"
		key = image.Name
	}
	if keep != nil {
		d := keep.String()
		w.CacheDuration = &d
	}
	w.Auth = map[string]wireAuth{key: {Username: c.Username, Password: c.Password.Reveal()}}
	return &Response{wire: w}
}

// anonymous is the response that makes the kubelet pull without credentials.
func anonymous(r *Request) *Response {
	return &Response{wire: wireResponse{Kind: responseKind, APIVersion: r.APIVersion, CacheKeyType: "Registry", Auth: map[string]wireAuth{}}}
}

// Write writes the response as one line of JSON. This is where the secret goes out.
func (r *Response) Write(out io.Writer) error {
	if err := json.NewEncoder(out).Encode(r.wire); err != nil {
		return fmt.Errorf("writing the response: %w", err)
	}
	return nil
}
