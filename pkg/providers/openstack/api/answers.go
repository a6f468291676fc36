package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// maxRemote caps what an error quotes of a remote body.
const maxRemote = 300

// isObjectMissing reports whether a 404 is the service's own word that the object of the
// request does not exist. Nodes are deleted on it, so a proxy's page, a wrong endpoint
// (services answer unknown paths with a JSON 404 of their own) or the absence of another
// object than the one asked for do not count. What counts is the error document of Nova and
// Cinder (itemNotFound), Neutron (NeutronError), Octavia (faultstring, or title and
// description) whose message names an ID or tag that stands in the request's path, and
// Barbican's, which names none but says what was not found. A message that names another object as
// well is about that one.
func isObjectMissing(method, rawURL string, answer remoteAnswer) bool {
	u, err := url.Parse(rawURL)
	if err != nil || method == http.MethodPost {
		return false
	}
	segments := strings.Split(strings.Trim(u.Path, "/"), "/")
	switch answer.shape {
	case shapeNone:
		return false
	case shapeTitled:
		if strings.Contains(strings.ToLower(answer.message), "not found") && len(segments) >= 2 {
			if parent := segments[len(segments)-2]; parent == "secrets" || parent == "containers" {
				return true
			}
		}
	case shapeItem, shapeNeutron, shapeFault:
	}
	message := strings.ToLower(answer.message)
	for _, id := range uuidLike.FindAllString(message, -1) {
		if !slices.ContainsFunc(segments, func(s string) bool { return strings.EqualFold(s, id) }) {
			return false // "router <id> has no interface on subnet <other id>"
		}
	}
	for i, s := range segments {
		isTag := i > 0 && segments[i-1] == "tags"
		if (text.IsUUID(s) || isTag) && strings.Contains(message, strings.ToLower(s)) {
			return true
		}
	}
	return false
}

// MadeID is the ID of what a call has made. A call that was answered with another document, as
// something between us and the service may do, is not known to have made it.
func MadeID(r interface{ ExtractInto(to any) error }, key string) (string, error) {
	var doc map[string]json.RawMessage
	if err := r.ExtractInto(&doc); err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(doc[key], &made); err != nil || made.ID == "" {
		return "", fmt.Errorf("the answer has no %s with an ID", key)
	}
	return made.ID, nil
}

// answerShape is the kind of error document that a body is.
type answerShape int

const (
	shapeNone    answerShape = iota // not an error document of a service
	shapeItem                       // {"itemNotFound": {"code": 404, "message": …}} (Nova, Cinder)
	shapeNeutron                    // {"NeutronError": {"type": …, "message": …}}
	shapeFault                      // {"faultcode": …, "faultstring": …} (Octavia)
	shapeTitled                     // {"code": 404, "title": …, "description": …} (Barbican, Octavia)
)

// remoteAnswer is an error document, read.
type remoteAnswer struct {
	shape       answerShape
	message     string // as sent
	neutronType string
	text        string // fit for an error message
}

func parseAnswer(body []byte) remoteAnswer {
	var doc struct {
		ItemNotFound *struct {
			Message string `json:"message"`
		} `json:"itemNotFound"`
		NeutronError json.RawMessage `json:"NeutronError"`
		FaultString  string          `json:"faultstring"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
	}
	a := remoteAnswer{}
	if json.Unmarshal(body, &doc) == nil {
		switch {
		case doc.ItemNotFound != nil:
			a.shape, a.message = shapeItem, doc.ItemNotFound.Message
		case len(doc.NeutronError) > 0:
			var n struct{ Type, Message string }
			if json.Unmarshal(doc.NeutronError, &n) == nil {
				a.shape, a.neutronType, a.message = shapeNeutron, n.Type, n.Message
			}
		case doc.FaultString != "":
			a.shape, a.message = shapeFault, doc.FaultString
		case doc.Title != "" && doc.Description != "":
			a.shape, a.message = shapeTitled, doc.Description
		}
	}
	switch {
	case a.message != "":
		a.text = excerpt(a.message)
	case len(body) == 0:
		a.text = "empty answer"
	default:
		a.text = excerpt(anyMessage(body))
	}
	return a
}

// anyMessage finds the text of an error document of the form {"<name>": {"message": …}},
// and takes the tags out of whatever else it is.
func anyMessage(body []byte) string {
	var doc map[string]json.RawMessage
	if json.Unmarshal(body, &doc) == nil {
		for _, raw := range doc {
			var inner struct {
				Message string `json:"message"`
			}
			if json.Unmarshal(raw, &inner) == nil && inner.Message != "" {
				return inner.Message
			}
		}
	}
	if len(body) > 16*maxRemote {
		body = body[:16*maxRemote]
	}
	return htmlTag.ReplaceAllString(string(body), " ")
}

var (
	uuidLike = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	htmlTag  = regexp.MustCompile(`<[^>]*>`)
	// secretLike finds tokens (Fernet, JWS) and the values of fields that hold secrets.
	secretLike = regexp.MustCompile(`gAAAA[\w=-]+|eyJ[\w-]+\.[\w-]+\.[\w-]+|(?i:"?(?:password|secret|token|x-auth-token)"?\s*[:=]\s*"?)[^\s",}]+`)
)

// excerpt makes remote text fit for an error: redacted, on one line, capped.
func excerpt(s string) string {
	if len(s) > 16*maxRemote {
		s = s[:16*maxRemote]
	}
	return cloudauth.Excerpt(secretLike.ReplaceAllString(s, cloudauth.Redacted), maxRemote)
}
