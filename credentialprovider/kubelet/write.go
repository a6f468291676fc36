package kubelet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v2"
)

// NewConfig returns a configuration of these entries.
func NewConfig(entries ...Entry) Config {
	return Config{APIVersion: configGroup + "/v1", Kind: configKind, Providers: entries}
}

// Render returns the configuration as YAML, after lines of comment.
func (c Config) Render(comment ...string) ([]byte, error) {
	var out bytes.Buffer
	for _, line := range comment {
		fmt.Fprintf(&out, "# %s\n", line)
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing the %s: %w", configKind, err)
	}
	out.Write(data)
	return out.Bytes(), nil
}

// ErrDiffers is that there is a file already, with other content.
var ErrDiffers = errors.New("it is there already with other content")

// WriteFile puts a file in its place at once, so that nobody ever reads half of it. It returns
// false if the file is as it should be already, and ErrDiffers if it has other content, unless
// force is set. What a link points to is written, not the link.
func WriteFile(file string, data []byte, force bool) (changed bool, err error) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	old, err := os.ReadFile(file)
	switch {
	case err == nil && bytes.Equal(old, data):
		return false, nil
	case err == nil && !force:
		return false, ErrDiffers
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-") // no file that a kubelet reads in a directory
	if err != nil {
		return false, err
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return false, errors.Join(err, os.Remove(temp.Name()))
	}
	return true, nil
}

// TokenVerb is what a node has to be allowed to do on an audience, so that its kubelet gets tokens
// for it (the admission plugin NodeRestriction, since Kubernetes 1.33).
const TokenVerb = "request-serviceaccounts-token-audience"

// NodesGroup is the group of all kubelets.
const NodesGroup = "system:nodes"

type object struct {
	APIVersion string    `yaml:"apiVersion"`
	Kind       string    `yaml:"kind"`
	Metadata   metadata  `yaml:"metadata"`
	Rules      []rule    `yaml:"rules,omitempty"`
	RoleRef    *roleRef  `yaml:"roleRef,omitempty"`
	Subjects   []subject `yaml:"subjects,omitempty"`
}

type metadata struct {
	Name string `yaml:"name"`
}

type rule struct {
	APIGroups []string `yaml:"apiGroups"`
	Resources []string `yaml:"resources"`
	Verbs     []string `yaml:"verbs"`
}

type roleRef struct {
	APIGroup string `yaml:"apiGroup"`
	Kind     string `yaml:"kind"`
	Name     string `yaml:"name"`
}

type subject struct {
	APIGroup string `yaml:"apiGroup"`
	Kind     string `yaml:"kind"`
	Name     string `yaml:"name"`
}

// AudienceRBAC returns the ClusterRole and the ClusterRoleBinding that let the kubelets of all
// nodes have tokens for these audiences.
func AudienceRBAC(name string, audiences []string) ([]byte, error) {
	const group = "rbac.authorization.k8s.io"
	var out bytes.Buffer
	for _, o := range []object{
		{
			APIVersion: group + "/v1", Kind: "ClusterRole", Metadata: metadata{name},
			// An audience takes the place of a resource here.
			Rules: []rule{{APIGroups: []string{""}, Resources: audiences, Verbs: []string{TokenVerb}}},
		},
		{
			APIVersion: group + "/v1", Kind: "ClusterRoleBinding", Metadata: metadata{name},
			RoleRef:  &roleRef{APIGroup: group, Kind: "ClusterRole", Name: name},
			Subjects: []subject{{APIGroup: group, Kind: "Group", Name: NodesGroup}},
		},
	} {
		data, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("writing the %s: %w", o.Kind, err)
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return out.Bytes(), nil
}
