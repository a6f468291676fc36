package keymanager

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// Barbican is the simulated service.
type Barbican struct {
	*core.Cloud
	owner core.Owner

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

func keysMicro() *core.Micro {
	page := func(status int, detail string) *core.Error {
		title := strconv.Itoa(status) + " " + http.StatusText(status)
		return &core.Error{Status: status, ContentType: "text/html; charset=UTF-8", Body: []byte("<html>\n <head>\n  <title>" + title +
			"</title>\n </head>\n <body>\n  <h1>" + title + "</h1>\n  " + detail + "\n </body>\n</html>")}
	}
	return &core.Micro{
		Name: "key-manager", Major: 1, Min: 0, Max: 1,
		Malformed: func(v string) *core.Error {
			return page(http.StatusBadRequest, "Invalid microversion: invalid version string: "+v)
		},
		OutOfRange: func(v string) *core.Error {
			return page(http.StatusNotAcceptable, "Invalid microversion: Unacceptable version header: "+v)
		},
	}
}

// New makes Barbican without secrets.
func New(cloud *core.Cloud, owner core.Owner) *Barbican {
	return &Barbican{Cloud: cloud, owner: owner}
}

// Service is Barbican's part of the API.
func (s *Barbican) Service() *core.Service {
	return &core.Service{Name: "key-manager", Prefix: "/key-manager", ErrorBody: keysError, Micro: keysMicro(), Routes: s.routes, NoRoute: core.Errorf(http.StatusNotFound, "", "")}
}

// Finder reports whether there is a secret or container with an id; the lock is held.
func (s *Barbican) Finder() func(id string) bool {
	return func(id string) bool {
		return slices.ContainsFunc(s.secrets, func(x *secret) bool { return x.id == id }) ||
			slices.ContainsFunc(s.containers, func(x *container) bool { return x.id == id })
	}
}

func (s *Barbican) routes(r *core.Router) {
	r.Open("GET /{$}", s.keysVersions)
	r.Open("GET /v1", s.keysVersion)
	r.Open("GET /v1/{$}", s.keysVersion)
	r.Handle("GET /v1/secrets", s.listSecrets)
	r.Handle("GET /v1/secrets/{$}", s.listSecrets)
	r.Handle("POST /v1/secrets", s.createSecret)
	r.Handle("POST /v1/secrets/{$}", s.createSecret)
	r.Handle("GET /v1/secrets/{id}", s.showSecret)
	r.Handle("GET /v1/secrets/{id}/payload", s.showPayload)
	r.Handle("PUT /v1/secrets/{id}", s.putPayload)
	r.Handle("DELETE /v1/secrets/{id}", s.deleteSecret)
	r.Handle("GET /v1/containers", s.listContainers)
	r.Handle("GET /v1/containers/{$}", s.listContainers)
	r.Handle("POST /v1/containers", s.createContainer)
	r.Handle("POST /v1/containers/{$}", s.createContainer)
	r.Handle("GET /v1/containers/{id}", s.showContainer)
	r.Handle("DELETE /v1/containers/{id}", s.deleteContainer)
}

// keysError is Barbican's error body.
func keysError(_ *core.Call, e *core.Error) (string, any) {
	return "", core.Object{"code": e.Status, "title": http.StatusText(e.Status), "description": e.Message}
}

func keysRefusal(schema, format string, args ...any) *core.Error {
	e := core.Errorf(http.StatusBadRequest, "", format, args...)
	e.Message = "Provided object does not match schema '" + schema + "': " + e.Message
	return e
}

func (s *Barbican) keysVersionBody(c *core.Call) core.Object {
	out := core.Object{"id": "v1", "links": []core.Object{{"rel": "self", "href": c.URL("/v1/")},
		{"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"}}}
	if c.Micro >= 1 {
		out["status"], out["min_version"], out["max_version"] = "CURRENT", "1.0", "1.1"
		return out
	}
	out["status"] = "stable"
	out["media-types"] = []core.Object{{"base": "application/json", "type": "application/vnd.openstack.key-manager-v1+json"}}
	return out
}

func (s *Barbican) keysVersions(c *core.Call) (*core.Reply, error) {
	versions := []core.Object{s.keysVersionBody(c)}
	if c.Micro >= 1 {
		return core.Answer(http.StatusMultipleChoices, core.Object{"versions": versions})
	}
	return core.Answer(http.StatusMultipleChoices, core.Object{"versions": core.Object{"values": versions}})
}

func (s *Barbican) keysVersion(c *core.Call) (*core.Reply, error) {
	return core.OK(core.Object{"version": s.keysVersionBody(c)})
}

func (s *Barbican) secretBody(c *core.Call, x *secret) core.Object {
	out := core.Object{
		"created": x.created.Format(keysTime), "updated": x.updated.Format(keysTime), "status": "ACTIVE", "name": x.name,
		"secret_type": x.kind, "expiration": nil, "algorithm": x.algorithm, "bit_length": x.bitLength, "mode": x.mode,
		"creator_id": x.creatorID, "secret_ref": c.URL("/v1/secrets/" + x.id),
	}
	if x.expiration != nil {
		out["expiration"] = x.expiration.Format(keysTime)
	}
	if x.payload != nil {
		out["content_types"] = core.Object{"default": x.contentType}
	}
	if c.Micro >= 1 {
		out["consumers"] = []core.Object{}
	}
	return out
}

// notYours is the refusal of what belongs to another project.
func notYours(what string) *core.Error {
	return core.Errorf(http.StatusForbidden, "", "%s attempt not allowed - please review your user/project privileges", what)
}

// secretByID returns the caller's secret; an expired one is as good as gone.
func (s *Barbican) secretByID(c *core.Call, id string) *secret {
	i := slices.IndexFunc(s.secrets, func(x *secret) bool { return x.id == id && x.projectID == c.Project() })
	if i < 0 || s.secrets[i].expired() {
		return nil
	}
	return s.secrets[i]
}

func (x *secret) expired() bool { return x.expiration != nil && !time.Now().Before(*x.expiration) }

// pathSecret is the path's secret; what names the caller's wish in a refusal.
func (s *Barbican) pathSecret(c *core.Call, what string) (*secret, error) {
	id := c.Param("id")
	if x := s.secretByID(c, id); x != nil {
		return x, nil
	}
	if slices.ContainsFunc(s.secrets, func(x *secret) bool { return x.id == id && x.projectID != c.Project() && !x.expired() }) {
		return nil, notYours(what)
	}
	if dialect.IsUUID(id) {
		return nil, core.Errorf(http.StatusNotFound, "", "Secret not found.")
	}
	return nil, core.Errorf(http.StatusNotFound, "", "Not Found. Provided secret id is invalid.")
}

// accepted is the first type of the Accept header; "*/*" when it names none.
func accepted(c *core.Call) string {
	first, _, _ := strings.Cut(c.Request.Header.Get("Accept"), ",")
	first, _, _ = strings.Cut(first, ";")
	if first = strings.TrimSpace(first); first == "" {
		return "*/*"
	}
	return first
}

// showSecret answers the metadata, or the payload when its type is asked for.
func (s *Barbican) showSecret(c *core.Call) (*core.Reply, error) {
	x, err := s.pathSecret(c, "Secret retrieval")
	if err != nil {
		return nil, err
	}
	if t := accepted(c); t == textType || t == binaryType {
		return payloadReply(x, t)
	}
	return core.OK(s.secretBody(c, x))
}

func (s *Barbican) showPayload(c *core.Call) (*core.Reply, error) {
	x, err := s.pathSecret(c, "Secret payload retrieval")
	if err != nil {
		return nil, err
	}
	return payloadReply(x, accepted(c))
}

func payloadReply(x *secret, accept string) (*core.Reply, error) {
	contentType := accept
	switch accept {
	case textType:
		contentType = "text/plain; charset=UTF-8"
	case binaryType, "*/*":
	default:
		return nil, core.Errorf(http.StatusNotAcceptable, "", "Secret payload retrieval issue seen - Wrong payload content-type.")
	}
	if x.payload == nil {
		return nil, core.Errorf(http.StatusNotFound, "", "Not Found. Sorry but your secret has no payload.")
	}
	return &core.Reply{Status: http.StatusOK, Body: x.payload, ContentType: contentType}, nil
}

func (s *Barbican) deleteSecret(c *core.Call) (*core.Reply, error) {
	x, err := s.pathSecret(c, "Secret deletion")
	if err != nil {
		return nil, err
	}
	s.secrets = slices.DeleteFunc(s.secrets, func(y *secret) bool { return y == x })
	return core.NoContent()
}

// putPayload gives a secret its payload, once.
func (s *Barbican) putPayload(c *core.Call) (*core.Reply, error) {
	x, err := s.pathSecret(c, "Secret update")
	if err != nil {
		return nil, err
	}
	contentType, _, _ := strings.Cut(c.Request.Header.Get("Content-Type"), ";")
	if contentType != textType && contentType != binaryType {
		return nil, core.Errorf(http.StatusUnsupportedMediaType, "", "Unexpected content type. Expected content types are: ['application/octet-stream', 'text/plain']")
	}
	if x.payload != nil {
		return nil, core.Errorf(http.StatusConflict, "", "Secret already has data, cannot modify it.")
	}
	payload := c.Body
	if c.Request.Header.Get("Content-Encoding") == "base64" {
		if payload, err = looseBase64(string(c.Body)); err != nil {
			return nil, core.Errorf(http.StatusBadRequest, "", "Secret update issue seen - Problem decoding payload.")
		}
	}
	if len(payload) == 0 {
		return nil, core.Errorf(http.StatusBadRequest, "", "Secret update issue seen - No data supplied to process..")
	}
	x.payload, x.contentType, x.updated = payload, contentType, time.Now().UTC()
	return core.NoContent()
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
func requireJSON(c *core.Call, into any) error {
	if t, _, _ := strings.Cut(c.Request.Header.Get("Content-Type"), ";"); t != "application/json" {
		return core.Errorf(http.StatusUnsupportedMediaType, "", "Unexpected content type. Expected content types are: ['application/json']")
	}
	if json.Unmarshal(c.Body, into) != nil {
		return core.Errorf(http.StatusBadRequest, "", "Malformed JSON")
	}
	return nil
}
