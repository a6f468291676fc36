package kubelet

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
)

// wildcards are the characters that people may take for wildcards; only the * in a host is one.
const wildcards = "*?["

// pattern is an element of matchImages, or an image, as the kubelet takes it apart.
type pattern struct {
	labels     []string
	port, path string
}

// split takes a pattern or an image apart as the kubelet does, whose words an error has.
func split(text string) (pattern, error) {
	u, err := url.Parse("https://" + text)
	if err != nil {
		return pattern{}, err
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		host, port = u.Host, ""
	}
	return pattern{labels: strings.Split(host, "."), port: port, path: u.Path}, nil
}

// matches reports whether the kubelet takes a pattern, of matchImages or a key of a provider's
// answer, to hold for an image: the same number of labels in the host, each matched by its own, the
// same port, and a path that begins like the pattern's.
func matches(match, image string) bool { return whyNot(match, image) == "" }

// whyNot says why a pattern does not hold for an image, "" if it does.
func whyNot(match, image string) string {
	m, err := split(match)
	if err != nil {
		return "the kubelet cannot read the pattern"
	}
	i, err := split(image)
	if err != nil {
		return "the kubelet cannot read the image"
	}
	switch {
	case m.port != i.port && m.port == "":
		return fmt.Sprintf("the image has the port %s and the pattern none: ports have to be equal", i.port)
	case m.port != i.port:
		return fmt.Sprintf("the pattern has the port %s and the image %s: ports have to be equal", m.port, orNone(i.port))
	case len(m.labels) != len(i.labels):
		return fmt.Sprintf("the pattern's host has %d labels and the image's %d: a * stands for exactly one", len(m.labels), len(i.labels))
	case !strings.HasPrefix(i.path, m.path):
		return fmt.Sprintf("the image's path does not begin with %s", m.path)
	}
	for n, label := range m.labels {
		if ok, err := filepath.Match(label, i.labels[n]); err != nil || !ok {
			return fmt.Sprintf("%q does not match %q in the host", label, i.labels[n])
		}
	}
	return ""
}

func orNone(port string) string {
	if port == "" {
		return "none"
	}
	return port
}

// NeverMatches reports whether a pattern holds for no image at all, as Validate says of it.
func NeverMatches(match string) bool {
	f := faultOf(match)
	return f != nil && f.level == Problem
}

// fault is what is wrong with a pattern by itself.
type fault struct {
	level       Level
	cause, next string
}

// faultOf returns what is wrong with a pattern whatever the images are, nil for nothing.
func faultOf(match string) *fault {
	problem := func(cause, next string) *fault { return &fault{Problem, cause, next} }
	switch {
	case match == "":
		return problem("it is empty and matches no image", "remove it")
	case strings.ContainsAny(match, " \t\r\n"):
		if _, err := split(match); err != nil {
			return problem("it has a space, with which the kubelet does not start", "remove it")
		}
		return problem("it has a space, which no image has: it never matches", "remove it")
	}
	m, err := split(match)
	switch {
	case err != nil:
		return unreadable(match)
	case strings.Contains(match, "://"):
		return problem("it has a scheme, which no image has: it never matches", "write "+match[strings.Index(match, "://")+3:])
	}
	if f := faultOfPath(match, m); f != nil {
		return f
	}
	return faultOfHost(match, m)
}

// unreadable is about a pattern with which the kubelet does not start.
func unreadable(match string) *fault {
	host, path, _ := strings.Cut(match, "/")
	colon := strings.LastIndexByte(host, ':')
	switch {
	case colon >= 0 && strings.ContainsAny(host[colon:], wildcards):
		next := "write one pattern a port, and one without"
		if path == "" {
			next += ", such as " + host[:colon] + " and " + host[:colon] + ":5000"
		}
		return &fault{Problem, "its port has a wildcard, with which the kubelet does not start: ports are compared literally", next}
	case colon >= 0 && path == "" && !strings.Contains(host[:colon], "."):
		return &fault{Problem, "it has a tag, with which the kubelet does not start", "write the registry, such as docker.io/library/" + host[:colon]}
	case strings.ContainsAny(host, "[]") && strings.Count(host, ":") < 2:
		return &fault{Problem, "its host has a [, with which the kubelet does not start: the only wildcard is *", "write * in its place"}
	case colon >= 0:
		return &fault{Problem, "what follows the colon is no port number, with which the kubelet does not start", "write host or host:port"}
	}
	return &fault{Problem, "it is no host with perhaps a port and a path, and the kubelet does not start with it", "write host, host:port or host/path"}
}

// faultOfPath is about what follows the host.
func faultOfPath(match string, m pattern) *fault {
	host, path, _ := strings.Cut(match, "/")
	base := path
	if i := strings.IndexAny(path, wildcards); i >= 0 {
		base = path[:i]
	}
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case strings.ContainsAny(path, wildcards):
		return &fault{Problem, "its path has a wildcard, but a path is compared literally, as the beginning of the image's: it never matches",
			"write " + strings.TrimSuffix(host+"/"+base, "/") + ", which holds for all images that begin so"}
	case strings.Contains(path, "@"):
		return &fault{Problem, "it has a digest, but the kubelet compares images without: it never matches", "write " + host + "/" + path[:strings.IndexByte(path, '@')]}
	case strings.Contains(last, ":"):
		return &fault{Problem, "it has a tag, but the kubelet compares images without: it never matches", "write " + host + "/" + path[:strings.LastIndexByte(path, ':')]}
	case strings.ContainsAny(match, "#%@?"):
		return &fault{Problem, "it has characters that no image has: it does not match what it seems to", "write host, host:port or host/path"}
	case path != strings.ToLower(path):
		return &fault{Problem, "its path has capital letters, which no image has: it never matches", "write " + host + "/" + strings.ToLower(path)}
	case strings.Contains(m.path, "//"):
		return &fault{Problem, "its path has an empty part, which no image has: it never matches", "remove one /"}
	}
	return nil
}

// openEnd is about a path that goes on: the kubelet compares texts, not parts of a path.
func openEnd(match string) *fault {
	_, path, _ := strings.Cut(match, "/")
	if path == "" || strings.HasSuffix(path, "/") {
		return nil
	}
	return &fault{Warning, fmt.Sprintf("its path is compared as text: it holds for %s-b and %s2/… as well", path, path), "write " + match + "/ if all images below it are meant"}
}

// faultOfHost is about the host.
func faultOfHost(match string, m pattern) *fault {
	for _, label := range m.labels {
		if label == "" {
			return &fault{Problem, "its host has an empty label, which no image has: it never matches", "remove the dot at the beginning or the end"}
		}
	}
	host := strings.Join(m.labels, ".")
	switch {
	case host == "index.docker.io":
		return &fault{Problem, "the kubelet names Docker Hub docker.io, whatever the pod writes: it never matches", "write " + strings.Replace(match, host, "docker.io", 1)}
	case len(m.labels) == 1 && m.port == "" && host != "localhost":
		if strings.ContainsAny(host, wildcards) {
			return &fault{Problem, "a * stands for one label, and images without a registry are docker.io's: it matches no more than localhost", "write the registries, such as docker.io, *.example.com or *.*.example.com"}
		}
		return &fault{Problem, "a registry without a dot and a port is none: images that begin so are docker.io's, and it never matches", "write the full name, or docker.io/" + match}
	case strings.Contains(host, "**"):
		return &fault{Warning, "** is the same as *: it stands for one label", "write a * for each label, such as *.*.example.com"}
	case host != strings.ToLower(host):
		return &fault{Warning, "its host has capital letters, and case counts: it matches only images that are written so", "write " + strings.ToLower(host)}
	}
	return openEnd(match)
}
