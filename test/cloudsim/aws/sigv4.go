package aws

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// caller is who signed a request.
type caller struct {
	identity *identity
	region   string
}

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([A-Z0-9]+)/(\d{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$`)

// accessKey returns the access key of a signed request, "" if it is not signed.
func accessKey(r *http.Request) string {
	if m := authorization.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		return m[1]
	}
	return ""
}

// maxSkew is by how much clocks may differ.
const maxSkew = 5 * time.Minute

// verify checks a request's signature (Signature Version 4, as documented in the IAM guide)
// and returns who made it. mu held.
func (s *Sim) verify(c *call) (*caller, error) {
	m := authorization.FindStringSubmatch(c.r.Header.Get("Authorization"))
	if m == nil {
		return nil, errorf(http.StatusForbidden, c.code("MissingAuthenticationToken"), "Request is missing Authentication Token")
	}
	key, date, region, service, signed, signature := m[1], m[2], m[3], m[4], strings.Split(m[5], ";"), m[6]
	id := s.iam.keys[key]
	if id == nil || id.token != c.r.Header.Get("X-Amz-Security-Token") {
		return nil, errorf(http.StatusForbidden, c.code("InvalidClientTokenId"),
			"The security token included in the request is invalid.")
	}
	if !id.expires.IsZero() && time.Now().After(id.expires) {
		return nil, errorf(http.StatusForbidden, c.code("ExpiredToken"), "The security token included in the request is expired")
	}
	at, err := time.Parse("20060102T150405Z", c.r.Header.Get("X-Amz-Date"))
	if err != nil || at.Format("20060102") != date || time.Since(at).Abs() > maxSkew {
		return nil, errorf(http.StatusForbidden, c.code("SignatureDoesNotMatch"), "Signature expired: %s is not within 5 min of now",
			c.r.Header.Get("X-Amz-Date"))
	}
	if service != c.endpoint.service || c.endpoint.region != "" && region != c.endpoint.region {
		return nil, errorf(http.StatusForbidden, c.code("SignatureDoesNotMatch"),
			"Credential should be scoped to a valid region and the correct service: %s %s", c.endpoint.region, c.endpoint.service)
	}
	for name := range c.r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") && !slices.Contains(signed, name) {
			return nil, errorf(http.StatusForbidden, c.code("SignatureDoesNotMatch"),
				"There were headers present in the request which were not signed: %s", name)
		}
	}
	canonical := canonicalRequest(c, signed)
	scope := strings.Join([]string{date, region, service, "aws4_request"}, "/")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", at.Format("20060102T150405Z"), scope, sum(canonical)}, "\n")
	k := []byte("AWS4" + id.secret)
	for _, part := range []string{date, region, service, "aws4_request"} {
		k = mac(k, part)
	}
	if want := hex.EncodeToString(mac(k, text)); want != signature || !slices.Contains(signed, "host") {
		return nil, errorf(http.StatusForbidden, c.code("SignatureDoesNotMatch"),
			"The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.\n\nThe Canonical String for this request should have been\n'%s'\n", canonical)
	}
	return &caller{identity: id, region: region}, nil
}

// code is how the call's service calls an error that all of them have.
func (c *call) code(name string) string {
	switch c.endpoint.service {
	case "sts", elbService:
		return name
	case "ec2": // unverified is MissingAuthenticationToken
		return map[string]string{
			"InvalidClientTokenId": "AuthFailure", "SignatureDoesNotMatch": "AuthFailure",
			"MissingAuthenticationToken": "MissingAuthenticationToken", "ExpiredToken": "RequestExpired",
		}[name]
	}
	return map[string]string{
		"MissingAuthenticationToken": "MissingAuthenticationTokenException", "InvalidClientTokenId": "UnrecognizedClientException",
		"ExpiredToken": "ExpiredTokenException", "SignatureDoesNotMatch": "InvalidSignatureException",
	}[name]
}

func canonicalRequest(c *call, signed []string) string {
	var headers strings.Builder
	for _, name := range signed {
		value := strings.Join(c.r.Header.Values(name), ",")
		switch name {
		case "host":
			value = c.r.Host
		case "content-length":
			value = strconv.Itoa(len(c.body))
		}
		headers.WriteString(name + ":" + strings.Join(strings.Fields(value), " ") + "\n")
	}
	path := c.r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	query := strings.ReplaceAll(c.r.URL.Query().Encode(), "+", "%20")
	return strings.Join([]string{c.r.Method, (&url.URL{Path: path}).EscapedPath(), query, headers.String(),
		strings.Join(signed, ";"), sum(string(c.body))}, "\n")
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
