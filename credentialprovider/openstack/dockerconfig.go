package openstack

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// dockerConfig is the content of a kubernetes.io/dockerconfigjson. What else such a file may
// hold (credential helpers, headers) means nothing here.
type dockerConfig struct {
	Auths map[string]dockerAuth `json:"auths"`
}

type dockerAuth struct {
	Username      string           `json:"username"`
	Password      cloudauth.Secret `json:"password"`
	Auth          cloudauth.Secret `json:"auth"` // base64 of user:password; goes before the two
	IdentityToken cloudauth.Secret `json:"identitytoken"`
	RegistryToken cloudauth.Secret `json:"registrytoken"`
}

// entryFor returns the entry of the file that fits the image best: the one with the longest
// path, and of two with the same path the one without a wildcard. No error repeats any of
// the payload but the names of registries.
func entryFor(payload cloudauth.Secret, image credentialprovider.Image) (credentialprovider.Credentials, error) {
	var file dockerConfig
	if err := json.Unmarshal([]byte(payload.Reveal()), &file); err != nil {
		return credentialprovider.Credentials{}, errors.New("the payload is no dockerconfigjson ({\"auths\": {\"host:port\": {\"auth\": …}}}); store the content of ~/.docker/config.json")
	}
	if len(file.Auths) == 0 {
		return credentialprovider.Credentials{}, errors.New("the payload has no entry under \"auths\"; store the content of ~/.docker/config.json")
	}
	var best *entry
	paths := false
	for key, value := range file.Auths {
		e, ok := parseEntry(key, value)
		if !ok || !e.matchesHost(image.Registry) {
			continue
		}
		paths = paths || e.path != ""
		if e.matchesPath(image.Path) && (best == nil || e.betterThan(*best)) {
			best = &e
		}
	}
	if best == nil {
		return credentialprovider.Credentials{}, fmt.Errorf("it has no entry for %s/%s; add one under \"auths\"", image.Registry, image.Path)
	}
	user, password, err := best.auth.login()
	if err != nil {
		return credentialprovider.Credentials{}, fmt.Errorf("its entry for %s: %w", best.key, err)
	}
	// Where other entries hold for parts of the registry, this answer is for this image alone.
	return credentialprovider.Credentials{Username: user, Password: password, ImageOnly: paths}, nil
}

// entry is one key of "auths" with its value.
type entry struct {
	key  string
	host string // host or host:port, lower case, perhaps with wildcards
	path string // "" or a repository prefix
	auth dockerAuth
}

// parseEntry reads a key: a host with perhaps a scheme, a port, and a path. The paths that
// docker login writes for the APIs of a registry (/v1/, /v2/) are none.
func parseEntry(key string, value dockerAuth) (entry, bool) {
	rest := key
	for _, scheme := range []string{"https://", "http://"} {
		rest = strings.TrimPrefix(rest, scheme)
	}
	host, p, _ := strings.Cut(rest, "/")
	host = strings.ToLower(host)
	p = strings.Trim(p, "/")
	if p == "v1" || p == "v2" {
		p = ""
	}
	if normal, err := credentialprovider.NormalRegistry(host); err == nil {
		host = normal
	}
	return entry{key: key, host: host, path: p, auth: value}, host != ""
}

// matchesHost compares label by label, as the kubelet does: a wildcard stands for one label
// or a part of it, and the ports have to be equal.
func (e entry) matchesHost(registry string) bool {
	if e.host == registry {
		return true
	}
	if !strings.Contains(e.host, "*") {
		return false
	}
	pattern, patternPort := splitPort(e.host)
	host, port := splitPort(registry)
	patterns, labels := strings.Split(pattern, "."), strings.Split(host, ".")
	if patternPort != port || len(patterns) != len(labels) {
		return false
	}
	for i, l := range labels {
		if ok, err := path.Match(patterns[i], l); err != nil || !ok {
			return false
		}
	}
	return true
}

// matchesPath reports whether the image is in the entry's part of the registry; unlike the
// kubelet it does not take "team" for the beginning of "teams/app".
func (e entry) matchesPath(repository string) bool {
	return e.path == "" || e.path == repository || strings.HasPrefix(repository, e.path+"/")
}

func (e entry) betterThan(other entry) bool {
	if len(e.path) != len(other.path) {
		return len(e.path) > len(other.path)
	}
	wild, otherWild := strings.Contains(e.host, "*"), strings.Contains(other.host, "*")
	if wild != otherWild {
		return otherWild
	}
	if len(e.key) != len(other.key) {
		return len(e.key) < len(other.key) // "host" before "https://host/v2/"
	}
	return e.key < other.key // any order, but always the same
}

func splitPort(registry string) (host, port string) {
	if i := strings.LastIndexByte(registry, ':'); i > strings.LastIndexByte(registry, ']') {
		return registry[:i], registry[i:]
	}
	return registry, ""
}

// login returns user and password.
func (a dockerAuth) login() (string, cloudauth.Secret, error) {
	if a.Auth.IsEmpty() {
		switch {
		case a.Username != "" && !a.Password.IsEmpty():
			return a.Username, a.Password, nil
		case !a.IdentityToken.IsEmpty() || !a.RegistryToken.IsEmpty():
			return "", cloudauth.Secret{}, errors.New("it holds a token, but the kubelet takes only user and password; store those")
		}
		return "", cloudauth.Secret{}, errors.New("it has neither auth nor username and password")
	}
	encoded := strings.TrimRight(strings.TrimSpace(a.Auth.Reveal()), "=")
	decoded, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		decoded, err = base64.RawURLEncoding.DecodeString(encoded)
	}
	user, password, ok := strings.Cut(string(decoded), ":")
	password = strings.TrimRight(password, "\x00")
	if err != nil || !ok || user == "" || password == "" {
		return "", cloudauth.Secret{}, errors.New("its auth is not the base64 of user:password")
	}
	return user, cloudauth.NewSecret(password), nil
}
