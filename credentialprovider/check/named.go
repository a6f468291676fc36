package check

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// mostNamed bounds how many paths are followed.
const mostNamed = 1000

// named are paths with all that the files there name, and what is named in those: who can change one of them decides on
// what becomes of the rest. find says where a file can be read now. unread are those that may not be read.
func named(paths []string, find func(string) string) (all, unread []string) {
	add := func(paths []string) {
		for _, path := range paths {
			if len(all) < mostNamed && !slices.Contains(all, path) {
				all = append(all, path)
			}
		}
	}
	add(paths)
	for i := 0; i < len(all); i++ {
		text, err := readConfiguration(find(all[i]))
		if errors.Is(err, fs.ErrPermission) {
			unread = append(unread, all[i])
		}
		add(pathsIn(text))
	}
	return all, unread
}

// readConfiguration reads a file that may name others; "" for a program, a script, or what else is no text.
func readConfiguration(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 != 0 {
		return "", err
	}
	data, err := cloudauth.ReadFile(file)
	text := string(data)
	if err != nil || strings.ContainsRune(text, 0) || strings.HasPrefix(text, "#!") {
		return "", err
	}
	return text, nil
}

// pathsIn are the values in a text of any usual format (YAML, JSON, INI) that are absolute paths, in quotes or not.
func pathsIn(text string) []string {
	var all []string
	quote := func(r rune) bool { return r == '"' || r == '\'' }
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		values := append(strings.FieldsFunc(line, quote), strings.FieldsFunc(line, func(r rune) bool { return quote(r) || strings.ContainsRune(" \t=,[]{}", r) })...)
		for _, value := range values {
			if filepath.IsAbs(value) && !strings.HasPrefix(value, "//") {
				all = append(all, value)
			}
		}
	}
	return all
}

// namedBy are the paths that an entry's arguments and variables have.
func namedBy(e kubelet.Entry) []string {
	var values []string
	for _, arg := range e.Args {
		if _, value, isFlag := strings.Cut(arg, "="); isFlag {
			arg = value
		}
		values = append(values, arg)
	}
	for _, v := range e.Env {
		values = append(values, filepath.SplitList(v.Value)...)
	}
	return slices.DeleteFunc(values, func(v string) bool { return !filepath.IsAbs(v) })
}

// inherited are the paths that the clouds' tools take from the kubelet's environment: those that their variables have, and
// their usual files in its home.
func inherited(environ []string) []string {
	var values []string
	for _, v := range environ {
		key, value, _ := strings.Cut(v, "=")
		prefix, _, _ := strings.Cut(key, "_")
		switch {
		case key == "HOME" && value != "":
			for _, file := range []string{".aws/config", ".aws/credentials", ".config/gcloud/application_default_credentials.json", ".config/openstack/clouds.yaml"} {
				values = append(values, filepath.Join(value, file))
			}
		case slices.Contains([]string{"AWS", "AZURE", "CLOUDSDK", "GOOGLE", "OS", "SSL"}, prefix):
			values = append(values, filepath.SplitList(value)...)
		}
	}
	return slices.DeleteFunc(values, func(v string) bool { return !filepath.IsAbs(v) })
}
