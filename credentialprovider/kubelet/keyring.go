package kubelet

import (
	"maps"
	"slices"
	"strings"
)

// Runs returns the entries that the kubelet runs for an image, in its order.
func Runs(entries []Entry, image string) []Entry {
	var out []Entry
	for _, e := range entries {
		if slices.ContainsFunc(e.MatchImages, func(m string) bool { return matches(m, image) }) {
			out = append(out, e)
		}
	}
	return out
}

// WhyNot says for each pattern of an entry why it does not hold for an image.
func WhyNot(e Entry, image string) []string {
	var out []string
	for _, m := range e.MatchImages {
		if reason := whyNot(m, image); reason != "" {
			out = append(out, m+": "+reason)
		}
	}
	return out
}

// dockerHubKey is the key whose login holds for Docker Hub when nothing else does.
const dockerHubKey = "index.docker.io"

// Tried returns the keys of logins that the kubelet tries for an image, in its order: those that
// match, the last in the alphabet first, so that longer paths of a registry come first.
func Tried(keys []string, image string) []string {
	byKey := map[string][]string{} // as given, by what the kubelet makes of them
	for _, key := range keys {
		byKey[plainKey(key)] = append(byKey[plainKey(key)], key)
	}
	var out []string
	for _, plain := range slices.Backward(slices.Sorted(maps.Keys(byKey))) {
		if matches(plain, image) {
			out = append(out, byKey[plain]...)
		}
	}
	host, _, _ := strings.Cut(image, "/")
	if key, ok := byKey[dockerHubKey]; ok && len(out) == 0 && (host == "docker.io" || host == dockerHubKey || !strings.ContainsAny(host, ".:")) {
		out = append(out, key...)
	}
	return out
}

// plainKey removes the scheme of a key and the version of an API, as docker login writes them.
func plainKey(key string) string {
	for _, scheme := range []string{"https://", "http://"} {
		key = strings.TrimPrefix(key, scheme)
	}
	host, path, _ := strings.Cut(key, "/")
	if rest := strings.TrimPrefix(path, "v1/"); rest != path {
		path = rest
	} else {
		path = strings.TrimPrefix(path, "v2/")
	}
	if path == "" {
		return host
	}
	return host + "/" + path
}
