package kubelet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxFile bounds what is read of a configuration.
const maxFile = 4 << 20

// Load reads what --image-credential-provider-config names, as the kubelet does: a file, or the
// files *.json, *.yaml and *.yml of a directory in the order of their names, not those of
// directories in it. The entries come in the kubelet's order.
func Load(path string) ([]Entry, []Finding) {
	unreadable := func(file string, err error) Finding {
		next := "name the one of the kubelet's flag --image-credential-provider-config"
		if errors.Is(err, fs.ErrPermission) {
			next = "run this as root"
		}
		var detail *fs.PathError
		if errors.As(err, &detail) {
			err = detail.Err
		}
		return Finding{Level: Problem, File: file, Cause: "it cannot be read: " + err.Error(), Next: next}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, []Finding{unreadable(path, err)}
	}
	files := []string{path}
	var findings []Finding
	if info.IsDir() {
		if files, findings, err = filesOf(path); err != nil {
			return nil, []Finding{unreadable(path, err)}
		}
	}
	var entries []Entry
	for _, file := range files {
		data, err := read(file)
		if err != nil {
			findings = append(findings, unreadable(file, err))
			continue
		}
		c, found := Decode(file, data)
		if len(c.Providers) == 0 && !hasProblem(found) && len(files) > 1 {
			found = append(found, Finding{Level: Warning, File: file, Field: "providers", Cause: "there are none in it", Next: "remove the file"})
		}
		entries = append(entries, c.Providers...)
		findings = append(findings, found...)
	}
	if len(entries) == 0 && !hasProblem(findings) {
		findings = append(findings, Finding{Level: Problem, File: path, Field: "providers", Cause: "there are none: the kubelet does not start", Next: "add one (isthmus-credential-provider config writes it)"})
	}
	return entries, findings
}

// filesOf lists the files of a directory that a kubelet reads.
func filesOf(dir string) ([]string, []Finding, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	var files []string
	var findings []Finding
	for _, e := range list {
		ext := filepath.Ext(e.Name())
		if !slices.Contains([]string{".json", ".yaml", ".yml"}, ext) {
			continue
		}
		if e.IsDir() {
			findings = append(findings, Finding{Level: Warning, File: filepath.Join(dir, e.Name()), Cause: "it is a directory, which the kubelet does not read", Next: "move its files up"})
			continue
		}
		files = append(files, filepath.Join(dir, e.Name()))
	}
	if len(files) == 0 {
		findings = append(findings, Finding{Level: Problem, File: dir, Cause: "it has no files *.json, *.yaml or *.yml: the kubelet does not start", Next: "put a " + configKind + " there (isthmus-credential-provider config writes one)"})
	}
	slices.Sort(files)
	return files, findings, nil
}

func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is longer than %d MiB", maxFile>>20)
	}
	return data, err
}
