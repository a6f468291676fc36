package docs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	aws "github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	openstack "github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	vsphere "github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
	paravirtual "github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
	"github.com/isthmus-cloud/isthmus/test/docs/markdown"
)

// clouds read a cloud.conf as the provider does.
var clouds = map[string]func(data []byte) (warnings []string, err error){
	"aws": func(data []byte) ([]string, error) {
		_, warnings, err := aws.Parse("cloud.conf", data)
		return warnings, err
	},
	"openstack": func(data []byte) ([]string, error) {
		_, warnings, err := openstack.Parse("cloud.conf", data)
		return warnings, err
	},
	"vsphere": func(data []byte) ([]string, error) {
		_, warnings, err := vsphere.Parse("cloud.conf", data, none)
		return warnings, err
	},
	"vsphere-paravirtual": func(data []byte) ([]string, error) {
		_, err := paravirtual.Parse("cloud.conf", data, none)
		return nil, err
	},
}

func none(string) string { return "" }

// taken returns nil if one of the clouds named takes the file without a word.
func taken(text string, names ...string) error {
	var refusals error
	for _, name := range names {
		warnings, err := clouds[name]([]byte(text))
		if err == nil && len(warnings) == 0 {
			return nil
		}
		refusals = errors.Join(refusals, fmt.Errorf("as cloud.conf of %s: %w, warnings %q", name, errors.Join(err), warnings))
	}
	return refusals
}

func iniText(_ *testing.T, b markdown.Block) error {
	return taken(b.Text, "openstack", "aws", "vsphere")
}

// foreignKinds are of programs that this module does not import.
var foreignKinds = map[string][]string{
	"kubeadm.k8s.io/v1beta4":                {"InitConfiguration", "JoinConfiguration", "ClusterConfiguration"},
	"controlplane.cluster.x-k8s.io/v1beta2": {"KubeadmControlPlane"},
}

// parts are YAML without a kind: a comment in the first line, or the first key, says of what.
var parts = []struct {
	begins string
	check  func(t *testing.T, b markdown.Block) error
}{
	{"# cloud.conf\n", func(_ *testing.T, b markdown.Block) error {
		err := taken(b.Text, "vsphere", "vsphere-paravirtual")
		if refused := b.Info == "refused"; refused != (err != nil) {
			return fmt.Errorf("refused %v, but: %w", refused, errors.Join(err))
		}
		return nil
	}},
	{"# values.yaml\n", values},
	{"# config.yaml of servers\n", anyYAML}, // of k3s, which this module does not import
	{"patches:\n", func(t *testing.T, b markdown.Block) error {
		return kustomization(t, "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"+b.Text)
	}},
	{"  args: [", func(_ *testing.T, b markdown.Block) error { // of an entry of CredentialProviderConfig
		return kubeletConfig(b.Where, "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: isthmus-credential-provider\n"+
			"  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  matchImages: [registry.example.com]\n  defaultCacheDuration: 10m\n"+b.Text)
	}},
}

func yamlText(t *testing.T, b markdown.Block) error {
	for _, part := range parts {
		if strings.HasPrefix(b.Text, part.begins) {
			return part.check(t, b)
		}
	}
	for doc := range strings.SplitSeq(b.Text, "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			return err
		}
		var err error
		switch {
		case kind.Kind == "":
			err = errors.New("YAML without a kind; say in the first line what file it is (see parts in test/docs)")
		case kind.Kind == "Kustomization":
			err = kustomization(t, doc)
		case kind.Kind == "CredentialProviderConfig":
			err = kubeletConfig(b.Where, doc)
		case kind.Kind == "CredentialProviderOptions":
			err = providerOptions(t, doc)
		case slices.Contains(foreignKinds[kind.APIVersion], kind.Kind):
			err = anyYAML(t, markdown.Block{Text: doc})
		default:
			codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
			_, _, err = codecs.UniversalDeserializer().Decode([]byte(doc), nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// anyYAML is YAML without a key that is there twice.
func anyYAML(_ *testing.T, b markdown.Block) error {
	var v map[string]any
	return yaml.UnmarshalStrict([]byte(b.Text), &v)
}

// kustomization has the keys that are used here; the tests of charts build those that are whole.
func kustomization(_ *testing.T, text string) error {
	var k struct {
		APIVersion, Kind      string
		Resources, Components []string
		Images                []struct{ Name, NewName, NewTag string }
		Patches               []struct {
			Target struct{ Kind, Name string }
			Patch  string
		}
	}
	if err := yaml.UnmarshalStrict([]byte(text), &k); err != nil {
		return err
	}
	for _, p := range k.Patches {
		var operations []struct {
			Op, Path string
			Value    any
		}
		if err := yaml.UnmarshalStrict([]byte(p.Patch), &operations); err != nil {
			return fmt.Errorf("patch of %s: %w", p.Target.Name, err)
		}
	}
	return nil
}

func kubeletConfig(where, text string) error {
	if _, findings := kubelet.Decode(where, []byte(text)); len(findings) > 0 {
		return fmt.Errorf("%v", findings)
	}
	return nil
}

func providerOptions(t *testing.T, text string) error {
	file := filepath.Join(t.TempDir(), "options.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Source{File: file}.Read()
	return err
}

// values have no key that the chart's do not have.
func values(t *testing.T, b markdown.Block) error {
	data, err := os.ReadFile(root + "/charts/isthmus/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var known, shown map[string]any
	if err := errors.Join(yaml.UnmarshalStrict(data, &known), yaml.UnmarshalStrict([]byte(b.Text), &shown)); err != nil {
		return err
	}
	return within(known, shown, "")
}

func within(known, shown map[string]any, at string) error {
	for key, value := range shown {
		there, ok := known[key]
		if !ok {
			return fmt.Errorf("the chart has no value %s%s", at, key)
		}
		deeper, both := value.(map[string]any)
		below, ok := there.(map[string]any)
		if both && ok && len(below) > 0 {
			if err := within(below, deeper, at+key+"."); err != nil {
				return err
			}
		}
	}
	return nil
}
