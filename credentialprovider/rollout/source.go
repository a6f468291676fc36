//go:build unix

package rollout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/check"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// source is a configuration that is to be installed.
type source struct {
	dir       string
	configDir string       // where it goes
	files     []sourceFile // the CredentialProviderConfig last
}

type sourceFile struct {
	name string
	data []byte
}

// readSource reads the files of a directory. A mounted ConfigMap or Secret is read as of one moment.
func readSource(dir, configDir string) (source, error) {
	if now, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		dir = now
	}
	s := source{dir: dir, configDir: configDir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return s, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // kubelet's own, an editor's
		}
		data, err := readSourceFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return s, err
		}
		s.files = append(s.files, sourceFile{name: e.Name(), data: data})
	}
	i := slices.IndexFunc(s.files, func(f sourceFile) bool { return f.name == ConfigFile })
	if i < 0 {
		return s, fmt.Errorf("there is no %s in it (isthmus-credential-provider config writes one)", ConfigFile)
	}
	config := s.files[i]
	s.files = append(slices.Delete(s.files, i, i+1), config)
	return s, nil
}

func readSourceFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file; keep files alone in it", filepath.Base(file))
	}
	return cloudauth.ReadFile(file)
}

// find returns where a file that the configuration names can be read now: in the source, if it is
// one of those that are to be installed, and else where it says.
func (s source) find(path string) string {
	if dir, base := filepath.Split(path); filepath.Clean(dir) == filepath.Clean(s.configDir) && s.has(base) {
		return filepath.Join(s.dir, base)
	}
	return path
}

func (s source) has(name string) bool {
	return slices.ContainsFunc(s.files, func(f sourceFile) bool { return f.name == name })
}

// misplaced are words about files that are named and not there, but in the source, from where they go
// elsewhere.
func (s source) misplaced(asked []string) []error {
	var errs []error
	for _, path := range slices.Compact(slices.Sorted(slices.Values(asked))) {
		base := filepath.Base(path)
		if _, err := os.Stat(s.find(path)); errors.Is(err, fs.ErrNotExist) && s.has(base) {
			errs = append(errs, fmt.Errorf("%s is named, but %s goes to %s; write that", path, base, filepath.Join(s.configDir, base)))
		}
	}
	return errs
}

// check finds whatever would keep the kubelet from starting, or this program from answering. It
// returns the names under which this program is to be found, beside its own.
func (s source) check(o Options) (links []string, err error) {
	entries, findings := kubelet.Load(filepath.Join(s.dir, ConfigFile))
	ours := false
	for _, e := range entries {
		if !check.IsOurs(e.Name) {
			continue
		}
		ours = true
		if e.Name != credentialprovider.Program {
			links = append(links, e.Name)
		}
	}
	var asked []string
	find := func(path string) string {
		asked = append(asked, path)
		return s.find(path)
	}
	findings = append(findings, check.Installation{BinDir: o.BinDir, ConfigDir: s.configDir, Find: find, Parse: o.Parse}.Findings(entries)...)
	errs := s.misplaced(asked)
	seen := map[kubelet.Finding]bool{}
	for _, f := range findings {
		if f.Level == kubelet.Problem && !seen[f] {
			seen[f] = true
			errs = append(errs, errors.New(strings.TrimPrefix(f.String(), string(kubelet.Problem)+": ")))
		}
	}
	if !ours && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s has no entry of the name %s, or one that begins with %s-", ConfigFile, credentialprovider.Program, credentialprovider.Program))
	}
	return links, errors.Join(errs...)
}
