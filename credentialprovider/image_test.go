package credentialprovider

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

func TestParseImage(t *testing.T) {
	for in, want := range map[string]Image{
		"nginx":                         {Name: "nginx", Host: "docker.io", Registry: "docker.io", Path: "nginx"},
		"nginx:1.29":                    {Name: "nginx", Host: "docker.io", Registry: "docker.io", Path: "nginx"},
		"library/nginx":                 {Name: "library/nginx", Host: "docker.io", Registry: "docker.io", Path: "library/nginx"},
		"docker.io/library/nginx":       {Name: "docker.io/library/nginx", Host: "docker.io", Registry: "docker.io", Path: "library/nginx"},
		"index.docker.io/library/nginx": {Name: "index.docker.io/library/nginx", Host: "index.docker.io", Registry: "docker.io", Path: "library/nginx"},
		"r.example/a":                   {Name: "r.example/a", Host: "r.example", Registry: "r.example", Path: "a"},
		"R.Example:5000/a/b:v1":         {Name: "R.Example:5000/a/b", Host: "R.Example:5000", Registry: "r.example:5000", Path: "a/b"},
		"localhost/a":                   {Name: "localhost/a", Host: "localhost", Registry: "localhost", Path: "a"},
		"host:80/a@sha256:" + strings.Repeat("a", 64): {Name: "host:80/a", Host: "host:80", Registry: "host:80", Path: "a"},
		"r.example/a:v1@sha256:ab":                    {Name: "r.example/a", Host: "r.example", Registry: "r.example", Path: "a"},
		"127.0.0.1:5000/a":                            {Name: "127.0.0.1:5000/a", Host: "127.0.0.1:5000", Registry: "127.0.0.1:5000", Path: "a"},
		"[::1]:5000/a":                                {Name: "[::1]:5000/a", Host: "[::1]:5000", Registry: "[::1]:5000", Path: "a"},
		"[2001:db8::1]/a":                             {Name: "[2001:db8::1]/a", Host: "[2001:db8::1]", Registry: "[2001:db8::1]", Path: "a"},
	} {
		got, err := ParseImage(in)
		if err != nil || got != want {
			t.Errorf("ParseImage(%q) = %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "/", "https://r.example/a", "r.example/", "r.example//a", "r.example/../a", "r.example/a b", "r.example:port/a", "r.example:0/a",
		"r.example:70000/a", "r..example/a", "r.ex ample/a", "[::1/a", "[nonsense]:1/a", "user@r.example/a", "r.example/a\n", "r.example:/a", "*.example/a", "r.example/a?b",
		"r.example/a@sha256", "r.example/a@:ab", "r.example/a@sha256:", "r.example/a@sha256:a/b", "user@r.example:5000/a",
	} {
		if got, err := ParseImage(in); err == nil {
			t.Errorf("ParseImage(%q) = %+v, want an error", in, got)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("ParseImage(%q): the error has more than one line: %v", in, err)
		}
	}
}

// FuzzImage checks that nothing panics and that the registry is the one to which
// go-containerregistry would go for the same reference.
func FuzzImage(f *testing.F) {
	for _, s := range []string{"nginx", "r.example:5000/a/b:v1", "localhost/a", "[::1]:1/a", "a/b@sha256:" + strings.Repeat("a", 64), "docker.io/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reference string) {
		got, err := ParseImage(reference)
		if err != nil {
			return
		}
		if again, err := ParseImage(got.Host + "/" + got.Path); err != nil || again.Registry != got.Registry || again.Path != got.Path {
			t.Errorf("%q: parsed again: %+v, %v, want %+v", reference, again, err, got)
		}
		theirs, err := name.ParseReference(reference, name.WeakValidation)
		if err != nil {
			return
		}
		if want, err := NormalRegistry(theirs.Context().RegistryStr()); err == nil && want != got.Registry {
			t.Errorf("%q: registry %q, want %q", reference, got.Registry, want)
		}
	})
}
