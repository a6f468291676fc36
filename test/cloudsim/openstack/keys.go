package openstack

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Barbican is the simulated service.
type Barbican struct {
	*Cloud
	owner Owner

	secrets    []*secret // in order of creation
	containers []*container
}

type secret struct {
	id, projectID, creatorID string
	name, kind               string
	algorithm, mode          *string
	bitLength                *int
	expiration               *time.Time
	payload                  []byte // nil: none yet
	contentType              string
	created, updated         time.Time
}

type container struct {
	id, projectID, creatorID string
	name, kind               string
	refs                     []secretRef
	created                  time.Time
}

type secretRef struct {
	Name string `json:"name"`
	Ref  string `json:"secret_ref"`
}

const (
	textType   = "text/plain"
	binaryType = "application/octet-stream"
	keysTime   = "2006-01-02T15:04:05"
)

func keysMicro() *microRange {
	page := func(status int, detail string) *apiError {
		title := strconv.Itoa(status) + " " + http.StatusText(status)
		return &apiError{status: status, contentType: "text/html; charset=UTF-8", body: []byte("<html>\n <head>\n  <title>" + title +
			"</title>\n </head>\n <body>\n  <h1>" + title + "</h1>\n  " + detail + "\n </body>\n</html>")}
	}
	return &microRange{
		name: "key-manager", major: 1, min: 0, max: 1,
		malformed: func(v string) *apiError {
			return page(http.StatusBadRequest, "Invalid microversion: invalid version string: "+v)
		},
		outOfRange: func(v string) *apiError {
			return page(http.StatusNotAcceptable, "Invalid microversion: Unacceptable version header: "+v)
		},
	}
}

// newBarbican makes Barbican without secrets.
func newBarbican(cloud *Cloud, owner Owner) *Barbican { return &Barbican{Cloud: cloud, owner: owner} }

// service is Barbican's part of the API.
func (s *Barbican) service() *service {
	return &service{name: "key-manager", prefix: "/key-manager", errorBody: keysError, micro: keysMicro(), routes: s.routes, noRoute: errorf(http.StatusNotFound, "", "")}
}

// Finder reports whether there is a secret or container with an id; the lock is held.
func (s *Barbican) Finder() func(id string) bool {
	return func(id string) bool {
		return slices.ContainsFunc(s.secrets, func(x *secret) bool { return x.id == id }) ||
			slices.ContainsFunc(s.containers, func(x *container) bool { return x.id == id })
	}
}

func (s *Barbican) routes(r *router) {
	r.open("GET /{$}", s.keysVersions)
	r.open("GET /v1", s.keysVersion)
	r.open("GET /v1/{$}", s.keysVersion)
	r.handle("GET /v1/secrets", s.listSecrets)
	r.handle("GET /v1/secrets/{$}", s.listSecrets)
	r.handle("POST /v1/secrets", s.createSecret)
	r.handle("POST /v1/secrets/{$}", s.createSecret)
	r.handle("GET /v1/secrets/{id}", s.showSecret)
	r.handle("GET /v1/secrets/{id}/payload", s.showPayload)
	r.handle("PUT /v1/secrets/{id}", s.putPayload)
	r.handle("DELETE /v1/secrets/{id}", s.deleteSecret)
	r.handle("GET /v1/containers", s.listContainers)
	r.handle("GET /v1/containers/{$}", s.listContainers)
	r.handle("POST /v1/containers", s.createContainer)
	r.handle("POST /v1/containers/{$}", s.createContainer)
	r.handle("GET /v1/containers/{id}", s.showContainer)
	r.handle("DELETE /v1/containers/{id}", s.deleteContainer)
}

// keysError is Barbican's error body.
func keysError(_ *call, e *apiError) (string, any) {
	return "", object{"code": e.status, "title": http.StatusText(e.status), "description": e.message}
}

func keysRefusal(schema, format string, args ...any) *apiError {
	e := errorf(http.StatusBadRequest, "", format, args...)
	e.message = "Provided object does not match schema '" + schema + "': " + e.message
	return e
}

func (s *Barbican) keysVersionBody(c *call) object {
	out := object{"id": "v1", "links": []object{{"rel": "self", "href": c.url("/v1/")},
		{"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"}}}
	if c.micro >= 1 {
		out["status"], out["min_version"], out["max_version"] = "CURRENT", "1.0", "1.1"
		return out
	}
	out["status"] = "stable"
	out["media-types"] = []object{{"base": "application/json", "type": "application/vnd.openstack.key-manager-v1+json"}}
	return out
}

func (s *Barbican) keysVersions(c *call) (*reply, error) {
	versions := []object{s.keysVersionBody(c)}
	if c.micro >= 1 {
		return answer(http.StatusMultipleChoices, object{"versions": versions})
	}
	return answer(http.StatusMultipleChoices, object{"versions": object{"values": versions}})
}

func (s *Barbican) keysVersion(c *call) (*reply, error) {
	return ok(object{"version": s.keysVersionBody(c)})
}

func (s *Barbican) secretBody(c *call, x *secret) object {
	out := object{
		"created": x.created.Format(keysTime), "updated": x.updated.Format(keysTime), "status": "ACTIVE", "name": x.name,
		"secret_type": x.kind, "expiration": nil, "algorithm": x.algorithm, "bit_length": x.bitLength, "mode": x.mode,
		"creator_id": x.creatorID, "secret_ref": c.url("/v1/secrets/" + x.id),
	}
	if x.expiration != nil {
		out["expiration"] = x.expiration.Format(keysTime)
	}
	if x.payload != nil {
		out["content_types"] = object{"default": x.contentType}
	}
	if c.micro >= 1 {
		out["consumers"] = []object{}
	}
	return out
}

// notYours is the refusal of what belongs to another project.
func notYours(what string) *apiError {
	return errorf(http.StatusForbidden, "", "%s attempt not allowed - please review your user/project privileges", what)
}

// secretByID returns the caller's secret; an expired one is as good as gone.
func (s *Barbican) secretByID(c *call, id string) *secret {
	i := slices.IndexFunc(s.secrets, func(x *secret) bool { return x.id == id && x.projectID == c.project() })
	if i < 0 || s.secrets[i].expired() {
		return nil
	}
	return s.secrets[i]
}

func (x *secret) expired() bool { return x.expiration != nil && !time.Now().Before(*x.expiration) }

// pathSecret is the path's secret; what names the caller's wish in a refusal.
func (s *Barbican) pathSecret(c *call, what string) (*secret, error) {
	id := c.param("id")
	if x := s.secretByID(c, id); x != nil {
		return x, nil
	}
	if slices.ContainsFunc(s.secrets, func(x *secret) bool { return x.id == id && x.projectID != c.project() && !x.expired() }) {
		return nil, notYours(what)
	}
	if isUUID(id) {
		return nil, errorf(http.StatusNotFound, "", "Secret not found.")
	}
	return nil, errorf(http.StatusNotFound, "", "Not Found. Provided secret id is invalid.")
}

// accepted is the first type of the Accept header; "*/*" when it names none.
func accepted(c *call) string {
	first, _, _ := strings.Cut(c.r.Header.Get("Accept"), ",")
	first, _, _ = strings.Cut(first, ";")
	if first = strings.TrimSpace(first); first == "" {
		return "*/*"
	}
	return first
}

// showSecret answers the metadata, or the payload when its type is asked for.
func (s *Barbican) showSecret(c *call) (*reply, error) {
	x, err := s.pathSecret(c, "Secret retrieval")
	if err != nil {
		return nil, err
	}
	if t := accepted(c); t == textType || t == binaryType {
		return payloadReply(x, t)
	}
	return ok(s.secretBody(c, x))
}

func (s *Barbican) showPayload(c *call) (*reply, error) {
	x, err := s.pathSecret(c, "Secret payload retrieval")
	if err != nil {
		return nil, err
	}
	return payloadReply(x, accepted(c))
}

func payloadReply(x *secret, accept string) (*reply, error) {
	contentType := accept
	switch accept {
	case textType:
		contentType = "text/plain; charset=UTF-8"
	case binaryType, "*/*":
	default:
		return nil, errorf(http.StatusNotAcceptable, "", "Secret payload retrieval issue seen - Wrong payload content-type.")
	}
	if x.payload == nil {
		return nil, errorf(http.StatusNotFound, "", "Not Found. Sorry but your secret has no payload.")
	}
	return &reply{status: http.StatusOK, body: x.payload, contentType: contentType}, nil
}

func (s *Barbican) deleteSecret(c *call) (*reply, error) {
	x, err := s.pathSecret(c, "Secret deletion")
	if err != nil {
		return nil, err
	}
	s.secrets = slices.DeleteFunc(s.secrets, func(y *secret) bool { return y == x })
	return noContent()
}

// putPayload gives a secret its payload, once.
func (s *Barbican) putPayload(c *call) (*reply, error) {
	x, err := s.pathSecret(c, "Secret update")
	if err != nil {
		return nil, err
	}
	contentType, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	if contentType != textType && contentType != binaryType {
		return nil, errorf(http.StatusUnsupportedMediaType, "", "Unexpected content type. Expected content types are: ['application/octet-stream', 'text/plain']")
	}
	if x.payload != nil {
		return nil, errorf(http.StatusConflict, "", "Secret already has data, cannot modify it.")
	}
	payload := c.body
	if c.r.Header.Get("Content-Encoding") == "base64" {
		if payload, err = looseBase64(string(c.body)); err != nil {
			return nil, errorf(http.StatusBadRequest, "", "Secret update issue seen - Problem decoding payload.")
		}
	}
	if len(payload) == 0 {
		return nil, errorf(http.StatusBadRequest, "", "Secret update issue seen - No data supplied to process..")
	}
	x.payload, x.contentType, x.updated = payload, contentType, time.Now().UTC()
	return noContent()
}

// looseBase64 decodes as Python does: what is no base64 character is passed over.
func looseBase64(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
		if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", r) {
			return r
		}
		return -1
	}, text))
}

// requireJSON refuses bodies of another content type.
func requireJSON(c *call, into any) error {
	if t, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";"); t != "application/json" {
		return errorf(http.StatusUnsupportedMediaType, "", "Unexpected content type. Expected content types are: ['application/json']")
	}
	if json.Unmarshal(c.body, into) != nil {
		return errorf(http.StatusBadRequest, "", "Malformed JSON")
	}
	return nil
}
