package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file has what the matcher of the kubelet v1.37.1 itself answers, one line a pair: pattern,
// image, answer. It was made with k8s.io/kubernetes/pkg/credentialprovider.URLsMatchStr, which is too
// much to compile here.
func TestMatchesAsKubelet(t *testing.T) {
	lines := table(t, "matches.txt")
	matched := 0
	for _, l := range lines {
		want := l[2] == "true"
		if got := matches(l[0], l[1]); got != want {
			t.Errorf("%s, %s: %t, and the kubelet %t (%s)", l[0], l[1], got, want, whyNot(l[0], l[1]))
		}
		if want {
			matched++
		}
	}
	if matched < 20 || matched > len(lines)-20 {
		t.Errorf("%d of %d match: the table shows too little", matched, len(lines))
	}
}

// As above, made with BasicDockerKeyring: image, keys of "auth", those that are tried in their order.
func TestTriedAsKubelet(t *testing.T) {
	for _, l := range table(t, "tried.txt") {
		if got := strings.Join(Tried(strings.Split(l[1], ","), l[0]), ","); got != l[2] {
			t.Errorf("%s with %s: %s, and the kubelet %s", l[0], l[1], got, l[2])
		}
	}
}

// table reads a file of testdata with three columns.
func table(t *testing.T, file string) [][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for _, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		columns := strings.Split(line, "\t")
		if len(columns) != 3 {
			t.Fatalf("%s: %q has no 3 columns", file, line)
		}
		out = append(out, columns)
	}
	return out
}

// A pattern without a fault matches some image, and one that never matches has a fault.
func TestFaults(t *testing.T) {
	for match, want := range map[string]string{
		"registry.example.com":           "",
		"registry.example.com:5000":      "",
		"registry.example.com/team":      "its path is compared as text: it holds for team-b and team2/… as well; write registry.example.com/team/ if",
		"registry.example.com/team/":     "",
		"*.example.com":                  "",
		"*.dkr.ecr.*.amazonaws.com":      "",
		"reg*.example.com":               "",
		"docker.io":                      "",
		"docker.io/library/":             "",
		"localhost":                      "",
		"localhost:5000":                 "",
		"[::1]:5000":                     "",
		"":                               "it is empty",
		" registry.example.com":          "it has a space",
		"https://registry.example.com":   "it has a scheme, which no image has: it never matches; write registry.example.com",
		"registry.example.com/*":         "its path has a wildcard, but a path is compared literally, as the beginning of the image's: it never matches; write registry.example.com, which",
		"registry.example.com/team/*":    "its path has a wildcard, but a path is compared literally, as the beginning of the image's: it never matches; write registry.example.com/team, which",
		"registry.example.com/te[ab]m":   "its path has a wildcard",
		"registry.example.com/app?":      "its path has a wildcard",
		"registry.example.com:*":         "its port has a wildcard, with which the kubelet does not start: ports are compared literally; write one pattern a port",
		"registry.example.com:50*/team":  "its port has a wildcard",
		"registry.example.com:http":      "what follows the colon is no port number",
		"registry.example.com/app:v1":    "it has a tag, but the kubelet compares images without: it never matches; write registry.example.com/app",
		"registry.example.com/app@sha:1": "it has a digest",
		"nginx:latest":                   "it has a tag, with which the kubelet does not start; write the registry, such as docker.io/library/nginx",
		"registry.example.com/Team":      "its path has capital letters, which no image has: it never matches; write registry.example.com/team",
		"registry.example.com//team":     "its path has an empty part",
		"registry.example.com/a#b":       "it has characters that no image has",
		"user@registry.example.com":      "it has characters that no image has",
		"registry.[a-.com":               "its host has a [, with which the kubelet does not start: the only wildcard is *; write",
		".example.com":                   "its host has an empty label",
		"example.com.":                   "its host has an empty label",
		"index.docker.io":                "the kubelet names Docker Hub docker.io, whatever the pod writes: it never matches; write docker.io",
		"index.docker.io/team":           "the kubelet names Docker Hub docker.io, whatever the pod writes: it never matches; write docker.io/team",
		"*":                              "a * stands for one label, and images without a registry are docker.io's: it matches no more than localhost",
		"nginx":                          "a registry without a dot and a port is none",
		"team/app":                       "a registry without a dot and a port is none: images that begin so are docker.io's, and it never matches; write the full name, or docker.io/team/app",
		"**.example.com":                 "** is the same as *",
		"Registry.example.com":           "its host has capital letters",
		"registry.example.com/%zz":       "it is no host",
		"registry example.com":           "it has a space, with which the kubelet does not start",
		"registry.example.com/a b":       "it has a space, which no image has: it never matches",
		"[a-z].example.com://team":       "its host has a [, with which the kubelet does not start",
	} {
		f := faultOf(match)
		got := ""
		if f != nil {
			got = f.cause + "; " + f.next
		}
		if (want == "") != (f == nil) || !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, want %q", match, got, want)
		}
	}
}

func TestOverlap(t *testing.T) {
	for _, tt := range []struct {
		a, b    string
		overlap bool
	}{
		{"a.example", "a.example", true},
		{"a.example", "b.example", false},
		{"*.example", "b.example", true},
		{"b.example", "*.example", true},
		{"*.example", "a.b.example", false},
		{"a*.example", "*b.example", true},
		{"a*.example", "ab*.example", true},
		{"ab*.example", "a*.example", true},
		{"a*c.example", "*.example", true},
		{"a*.example", "b*.example", false},
		{"*.example:5000", "*.example", false},
		{"*.example:5000", "a.example:5000", true},
		{"a.example/team", "a.example", true},
		{"a.example", "a.example/team", true},
		{"a.example/team", "a.example/other", false},
		{"*.dkr.ecr.eu-west-1.amazonaws.com", "*.dkr.ecr.*.amazonaws.com", true},
		{"*.dkr.*.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com", true},
		{"*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com", false},
	} {
		if got := Overlap(tt.a, tt.b); got != tt.overlap {
			t.Errorf("Overlap(%s, %s) = %t", tt.a, tt.b, got)
		}
		if got := Overlap(tt.b, tt.a); got != tt.overlap {
			t.Errorf("Overlap(%s, %s) = %t", tt.b, tt.a, got)
		}
	}
}

// What two patterns match, they overlap in; and a pattern of which is said that it never matches does not.
func FuzzPatterns(f *testing.F) {
	for _, s := range [][3]string{
		{"*.example.com", "a.example.com/x", "a.*.com"}, {"r.io:5000/team", "r.io:5000/team/app", "*.io:5000"},
		{"a*b?c.io", "axxbyc.io/a", "a*.io"}, {"https://x.io", "x.io/a", "*"}, {"[a-c].io", "b.io/x", "?.io"}, {"**.io", "a.io/b", "*a*.io"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, a, image, b string) {
		fault := faultOf(a)
		inA, inB := matches(a, image), matches(b, image)
		if inA && inB && !Overlap(a, b) {
			t.Errorf("%q and %q both match %q, but do not overlap", a, b, image)
		}
		if inA && fault != nil && fault.level == Problem && strings.Contains(fault.cause, "never matches") && isImage(image) {
			t.Errorf("%q matches %q, but: %s", a, image, fault.cause)
		}
	})
}

// isImage reports whether a text is an image as the kubelet sends it.
func isImage(text string) bool {
	host, path, found := strings.Cut(text, "/")
	return found && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-:") == "" && strings.ContainsAny(host, ".:") && host != "index.docker.io" &&
		!strings.HasPrefix(host, ".") && !strings.HasSuffix(host, ".") && !strings.Contains(host, "..") &&
		strings.Trim(path, "abcdefghijklmnopqrstuvwxyz0123456789._-/") == "" && !strings.Contains("/"+path+"/", "//")
}
