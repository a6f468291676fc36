package keymanager

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

type secretRequest struct {
	Name            string          `json:"name"`
	SecretType      string          `json:"secret_type"`
	Algorithm       *string         `json:"algorithm"`
	BitLength       *int            `json:"bit_length"`
	Mode            *string         `json:"mode"`
	Expiration      string          `json:"expiration"`
	Payload         json.RawMessage `json:"payload"`
	ContentType     string          `json:"payload_content_type"`
	ContentEncoding string          `json:"payload_content_encoding"`
}

var (
	secretTypes  = []string{"symmetric", "passphrase", "private", "public", "certificate", "opaque"}
	contentTypes = []string{"text/plain", "text/plain;charset=utf-8", "text/plain; charset=utf-8", "application/octet-stream", "application/pkcs8"}
)

// pythonList writes words as Barbican's messages have them.
func pythonList(words []string) string { return "['" + strings.Join(words, "', '") + "']" }

// payload checks and decodes the request's payload; nil when there is none.
func (r *secretRequest) payload() ([]byte, error) {
	if r.Payload == nil {
		return nil, nil
	}
	var text string
	if json.Unmarshal(r.Payload, &text) != nil {
		return nil, keysRefusal("Secret", "%s is not of type 'string'. Invalid property: 'payload'", r.Payload)
	}
	switch {
	case strings.TrimSpace(text) == "":
		return nil, keysRefusal("Secret", "If 'payload' specified, must be non empty. Invalid property: 'payload'")
	case r.ContentType == "":
		return nil, keysRefusal("Secret", "If 'payload' is supplied, 'payload_content_type' must also be supplied.. Invalid property: 'payload_content_type'")
	case !slices.Contains(contentTypes, strings.ToLower(r.ContentType)):
		return nil, keysRefusal("Secret", "payload_content_type is not one of %s. Invalid property: 'payload_content_type'", pythonList(contentTypes))
	}
	if strings.HasPrefix(strings.ToLower(r.ContentType), textType) {
		if r.ContentEncoding != "" {
			return nil, keysRefusal("Secret", "payload_content_encoding is not one of None. Invalid property: 'payload_content_encoding'")
		}
		return []byte(text), nil
	}
	switch r.ContentEncoding {
	case "base64":
		out, err := looseBase64(text)
		if err != nil {
			return nil, keysRefusal("Secret", "Invalid payload for payload_content_encoding. Invalid property: 'payload'")
		}
		if out == nil {
			out = []byte{}
		}
		return out, nil
	case "binary":
		return []byte(text), nil
	}
	return nil, keysRefusal("Secret", "payload_content_encoding is not one of ['base64', 'binary']. Invalid property: 'payload_content_encoding'")
}

// createSecret is POST /secrets.
func (s *Barbican) createSecret(c *core.Call) (*core.Reply, error) {
	var req secretRequest
	if err := requireJSON(c, &req); err != nil {
		return nil, err
	}
	if req.SecretType == "" {
		req.SecretType = "opaque"
	}
	if !slices.Contains(secretTypes, req.SecretType) {
		return nil, keysRefusal("Secret", "'%s' is not one of %s. Invalid property: 'secret_type'", req.SecretType, pythonList(secretTypes))
	}
	payload, err := req.payload()
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	x := &secret{
		id: core.NewID(), projectID: c.Project(), creatorID: c.UserID(), name: req.Name, kind: req.SecretType, algorithm: req.Algorithm,
		mode: req.Mode, bitLength: req.BitLength, payload: payload, created: now, updated: now,
		contentType: strings.TrimSpace(strings.Split(req.ContentType, ";")[0]),
	}
	if x.name == "" {
		x.name = x.id
	}
	if req.Expiration != "" {
		at, err := dialect.ParseDate(req.Expiration)
		if err != nil {
			return nil, keysRefusal("Secret", "Invalid date for 'expiration'. Invalid property: 'expiration'")
		}
		if at.Before(now) {
			return nil, keysRefusal("Secret", "'expiration' is before current time. Invalid property: 'expiration'")
		}
		x.expiration = &at
	}
	s.secrets = append(s.secrets, x)
	ref := c.URL("/v1/secrets/" + x.id)
	rep := &core.Reply{Status: http.StatusCreated, Body: core.Object{"secret_ref": ref}}
	return rep.Set("Location", ref), nil
}

// keysPage cuts a page by limit and offset and adds the links that Barbican has.
func keysPage(c *core.Call, key, path string, items []core.Object) (*core.Reply, error) {
	number := func(name string, def int) int {
		if n, err := strconv.Atoi(c.Query.Get(name)); err == nil && n >= 0 {
			return n
		}
		return def // what is no number is passed over
	}
	limit, offset, total := min(number("limit", 10), 100), number("offset", 0), len(items)
	first := min(offset, total)
	body := core.Object{key: items[first:min(first+limit, total)], "total": total}
	link := func(offset int) string {
		return c.URL(path) + "?limit=" + strconv.Itoa(limit) + "&offset=" + strconv.Itoa(offset)
	}
	if first > 0 && first < total {
		body["previous"] = link(max(0, first-limit))
	}
	if first+limit < total {
		body["next"] = link(first + limit)
	}
	return core.OK(body)
}

func (s *Barbican) listSecrets(c *core.Call) (*core.Reply, error) {
	items := []core.Object{}
	for _, x := range s.secrets {
		if x.projectID != c.Project() || x.expired() {
			continue
		}
		body := s.secretBody(c, x)
		keep := true
		for param, field := range map[string]string{"name": "name", "secret_type": "secret_type"} {
			keep = keep && (!c.Query.Has(param) || body[field] == c.Query.Get(param))
		}
		if keep {
			items = append(items, body)
		}
	}
	return keysPage(c, "secrets", "/v1/secrets", items)
}

func (s *Barbican) containerBody(c *core.Call, x *container) core.Object {
	refs := []core.Object{}
	for _, r := range x.refs {
		if s.secretByID(c, lastSegment(r.Ref)) != nil { // deleting a secret takes it out of its containers
			refs = append(refs, core.Object{"name": r.Name, "secret_ref": r.Ref})
		}
	}
	at := x.created.Format(keysTime)
	return core.Object{
		"created": at, "updated": at, "status": "ACTIVE", "name": x.name, "type": x.kind, "creator_id": x.creatorID,
		"secret_refs": refs, "consumers": []core.Object{}, "container_ref": c.URL("/v1/containers/" + x.id),
	}
}

func lastSegment(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// containerNames are the names that the refs of a type of container may have.
var containerNames = map[string][]string{
	"certificate": {"private_key", "certificate", "private_key_passphrase", "intermediates"},
	"rsa":         {"private_key", "public_key", "private_key_passphrase"},
}

func (s *Barbican) createContainer(c *core.Call) (*core.Reply, error) {
	var req struct {
		Name string      `json:"name"`
		Type string      `json:"type"`
		Refs []secretRef `json:"secret_refs"`
	}
	if err := requireJSON(c, &req); err != nil {
		return nil, err
	}
	kinds := []string{"generic", "rsa", "certificate"}
	if !slices.Contains(kinds, req.Type) {
		return nil, keysRefusal("Container", "'%s' is not one of %s. Invalid property: 'type'", req.Type, pythonList(kinds))
	}
	for _, r := range req.Refs {
		names := containerNames[req.Type]
		if names != nil && !slices.Contains(names, r.Name) {
			if req.Type == "certificate" {
				return nil, keysRefusal("Container", "only 'private_key', 'certificate' , 'private_key_passphrase',  or 'intermediates' reference names are allowed for Certificate type. Invalid property: 'secret_refs'")
			}
			return nil, keysRefusal("Container", "only 'private_key', 'public_key' and 'private_key_passphrase' reference names are allowed for RSA type. Invalid property: 'secret_refs'")
		}
		if s.secretByID(c, lastSegment(r.Ref)) == nil {
			return nil, core.Errorf(http.StatusNotFound, "", "Secret provided for '%s' doesn't exist.", r.Name)
		}
	}
	x := &container{id: core.NewID(), projectID: c.Project(), creatorID: c.UserID(), name: req.Name, kind: req.Type, refs: req.Refs, created: time.Now().UTC()}
	s.containers = append(s.containers, x)
	ref := c.URL("/v1/containers/" + x.id)
	rep := &core.Reply{Status: http.StatusCreated, Body: core.Object{"container_ref": ref}}
	return rep.Set("Location", ref), nil
}

func (s *Barbican) listContainers(c *core.Call) (*core.Reply, error) {
	items := []core.Object{}
	for _, x := range s.containers {
		if x.projectID == c.Project() && (!c.Query.Has("name") || x.name == c.Query.Get("name")) {
			items = append(items, s.containerBody(c, x))
		}
	}
	return keysPage(c, "containers", "/v1/containers", items)
}

// pathContainer is the path's container; what names the caller's wish in a refusal.
func (s *Barbican) pathContainer(c *core.Call, what string) (*container, error) {
	id := c.Param("id")
	i := slices.IndexFunc(s.containers, func(x *container) bool { return x.id == id })
	if i < 0 && dialect.IsUUID(id) {
		return nil, core.Errorf(http.StatusNotFound, "", "Secrets container not found.")
	}
	if i < 0 {
		return nil, core.Errorf(http.StatusNotFound, "", "Not Found. Provided container id is invalid.")
	}
	if s.containers[i].projectID != c.Project() {
		return nil, notYours(what)
	}
	return s.containers[i], nil
}

func (s *Barbican) showContainer(c *core.Call) (*core.Reply, error) {
	x, err := s.pathContainer(c, "Container retrieval")
	if err != nil {
		return nil, err
	}
	return core.OK(s.containerBody(c, x))
}

func (s *Barbican) deleteContainer(c *core.Call) (*core.Reply, error) {
	x, err := s.pathContainer(c, "Container deletion")
	if err != nil {
		return nil, err
	}
	s.containers = slices.DeleteFunc(s.containers, func(y *container) bool { return y == x })
	return core.NoContent()
}

// AddSecret stores a secret of the project k8s and returns its id. A payload whose type is
// application/octet-stream is given as it is, not encoded.
func (s *Barbican) AddSecret(name, contentType string, payload []byte) string {
	s.Lock()
	defer s.Unlock()
	now := time.Now().UTC()
	x := &secret{id: core.NewID(), projectID: s.owner.ProjectID, creatorID: s.owner.UserID, name: name, kind: "opaque", payload: slices.Clone(payload), contentType: contentType, created: now, updated: now}
	s.secrets = append(s.secrets, x)
	return x.id
}

// Snapshot adds what exists; the lock is held.
func (s *Barbican) Snapshot(out *core.Snapshot) {
	for _, x := range s.secrets {
		out.Secrets = append(out.Secrets, core.Item{ID: x.id, Name: x.name})
	}
	for _, x := range s.containers {
		out.Containers = append(out.Containers, core.Item{ID: x.id, Name: x.name})
	}
}
