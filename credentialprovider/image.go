package credentialprovider

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// dockerHub is the registry of images that name none.
const dockerHub = "docker.io"

// Image is a parsed image reference.
type Image struct {
	// Name is the reference as it was given, without tag and digest.
	Name string
	// Host is the registry as the reference writes it, with the port if it has one; the
	// kubelet compares it literally.
	Host string
	// Registry is Host in its normal form: lower case, and docker.io for its other names.
	Registry string
	// Path is the repository in the registry, without a leading slash.
	Path string
}

// String returns the reference without tag and digest.
func (i Image) String() string { return i.Name }

// ParseImage parses an image reference. As everywhere with containers, its first part is a
// registry only if it has a dot or a colon or is "localhost".
func ParseImage(reference string) (Image, error) {
	image, err := parseImage(reference)
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w", cloudauth.Excerpt(reference, 120), err)
	}
	return image, nil
}

func parseImage(reference string) (Image, error) {
	if strings.Contains(reference, "://") {
		return Image{}, errors.New("an image reference has no scheme such as https://")
	}
	name, digest, found := strings.Cut(reference, "@")
	if algorithm, sum, ok := strings.Cut(digest, ":"); found && (!ok || algorithm == "" || sum == "" || strings.ContainsAny(digest, "/@")) {
		return Image{}, errors.New("what follows the @ is no digest such as sha256:…")
	}
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') && strings.Contains(name, "/") {
		name = name[:colon] // tag
	}
	host, path, found := strings.Cut(name, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, path = dockerHub, name
		if !found {
			path, _, _ = strings.Cut(name, ":") // a tag without a registry
			name = path
		}
	}
	if err := checkPath(path); err != nil {
		return Image{}, err
	}
	registry, err := NormalRegistry(host)
	if err != nil {
		return Image{}, err
	}
	return Image{Name: name, Host: host, Registry: registry, Path: path}, nil
}

func checkPath(path string) error {
	for _, part := range strings.Split(path, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("the repository is empty or has an empty part")
		}
		if i := strings.IndexFunc(part, notInRepository); i >= 0 {
			return fmt.Errorf("the repository has the character %q", []rune(part[i:])[0])
		}
	}
	return nil
}

func notInRepository(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}

// NormalRegistry checks a registry, host or host:port, and returns its normal form.
func NormalRegistry(registry string) (string, error) {
	host, port := registry, ""
	if i := strings.LastIndexByte(registry, ':'); i > strings.LastIndexByte(registry, ']') {
		host, port = registry[:i], registry[i:]
		if n, err := strconv.ParseUint(port[1:], 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("registry %q: the port has to be a number from 1 to 65535", cloudauth.Excerpt(registry, 80))
		}
	}
	host = strings.ToLower(host)
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if _, err := netip.ParseAddr(strings.TrimSuffix(inner, "]")); err != nil || !strings.HasSuffix(inner, "]") {
			return "", fmt.Errorf("registry %q is no valid IPv6 address", cloudauth.Excerpt(registry, 80))
		}
		return host + port, nil
	}
	for _, label := range strings.Split(host, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("registry %q is no valid host or host:port", cloudauth.Excerpt(registry, 80))
		}
	}
	if port == "" && (host == "index.docker.io" || host == "registry-1.docker.io") {
		host = dockerHub
	}
	return host + port, nil
}

// sameRegistry reports whether both are the same registry, port included.
func sameRegistry(a, b string) bool {
	x, errX := NormalRegistry(a)
	y, errY := NormalRegistry(b)
	return errX == nil && errY == nil && x == y
}
