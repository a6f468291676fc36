package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// binary is a program and the modules that are linked into it.
type binary struct {
	// path is the import path of its main package.
	path, name, version string
	goos, goarch        string
	sha256              string
	modules             []*module
}

// module is a module that is linked in, the standard library among them.
type module struct {
	path, version, sum string
	// texts are its licenses and notices, by file.
	texts map[string]string
	// licenses are the SPDX identifiers of the licenses, sorted.
	licenses []string
}

// standard is the name of the standard library, as vulnerability databases have it.
const standard = "stdlib"

// legal are names of files that have to go with what is copied.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|copyright)([-._].*)?$`)

// readBinary reads what file says of itself, and the licenses of what is linked into it.
func readBinary(ctx context.Context, file, version string) (*binary, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(data)
	b := &binary{path: info.Path, name: filepath.Base(file), version: version, sha256: hex.EncodeToString(digest[:])}
	tags := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			b.goos = s.Value
		case "GOARCH":
			b.goarch = s.Value
		case "-tags":
			tags = s.Value
		}
	}
	known := map[string]*module{}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("%s: %s is replaced: it is not what its path and version say", file, d.Path)
		}
		known[d.Path] = &module{path: d.Path, version: d.Version, sum: d.Sum, texts: map[string]string{}}
		b.modules = append(b.modules, known[d.Path])
	}
	std := &module{path: standard, version: strings.TrimPrefix(info.GoVersion, "go"), texts: map[string]string{}}
	known[standard] = std
	b.modules = append(b.modules, std)
	if err := b.readTexts(ctx, tags, known); err != nil {
		return nil, err
	}
	slices.SortFunc(b.modules, func(x, y *module) int { return cmp.Compare(x.path, y.path) })
	return b, nil
}

// listed is what `go list` says of a package.
type listed struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Dir string
		Main      bool
	}
}

// readTexts reads the legal texts in the folders of all packages that are linked in, and above them.
func (b *binary) readTexts(ctx context.Context, tags string, known map[string]*module) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-tags="+tags, "-json=Dir,Standard,Module", b.path)
	cmd.Env = append(os.Environ(), "GOOS="+b.goos, "GOARCH="+b.goarch, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list %s: %w: %s", b.path, err, stderr.String())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("go list %s: %w", b.path, err)
		}
		if p.Standard || p.Module.Main {
			continue
		}
		m, ok := known[p.Module.Path]
		if !ok {
			return fmt.Errorf("%s of %s is not in the binary: it was built from something else than what is here", p.Module.Path, p.Dir)
		}
		if err := m.read(p.Module.Dir, p.Dir); err != nil {
			return err
		}
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	goroot := strings.TrimSpace(string(root))
	return known[standard].read(goroot, goroot)
}

// read adds the legal texts of dir and of all folders above it in the module's folder root.
func (m *module) read(root, dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() || !legal.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			m.texts[filepath.ToSlash(rel)] = strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n"))
		}
		if dir == root || !strings.HasPrefix(dir, root) {
			return nil
		}
	}
}
