package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	ccmoptions "github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/pkg/providers"
	"github.com/isthmus-cloud/isthmus/test/docs/markdown"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

const root = "../.."

// foreignFlags are programs' of others that the guides name in the same way.
var foreignFlags = []string{"--admission-control-config-file", "--enable-priority-and-fairness", "--ok-total-unready-count", "--max-total-unready-percentage", "--with-topology", "--provider-id", "--node-ip", "--aws-default-region", "--hostname-override", "--node-labels", "--registries", "--kubelet-certificate-authority", "--kubelet-insecure-tls", "--cluster-signing-duration", "--config"}

// foreignGuides are about isthmus-credential-provider, whose own tests look at them.
var foreignGuides = []string{"credential-provider.md", "install-credential-provider.md", "ecr.md", "acr.md", "artifact-registry.md", "openstack-registries.md"}

// Flags that the guides name are the manager's or those of isthmus.
func TestFlagsInGuides(t *testing.T) {
	guides := pages(t)
	isthmus, err := os.ReadFile("../../docs/reference/flags-isthmus.md")
	if err != nil {
		t.Fatal(err)
	}
	inline := regexp.MustCompile("`(--[a-z0-9-]+)(=[^`]*)?`")
	for _, guide := range guides {
		if slices.Contains(foreignGuides, filepath.Base(guide)) {
			continue
		}
		data, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				ofIsthmus := regexp.MustCompile(`\s` + m[1] + `[ =\n]`).Match(isthmus)
				if !slices.Contains(foreignFlags, m[1]) && !ofIsthmus && !hasFlag(t, strings.TrimPrefix(m[1], "--")) {
					t.Errorf("%s names %s, which is no flag", filepath.Base(guide), m[1])
				}
			}
		}
	}
}

func hasFlag(t *testing.T, name string) bool {
	t.Helper()
	o, err := newOptions()
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range o.flags().FlagSets {
		if f := section.Lookup(name); f != nil && !f.Hidden {
			return true
		}
	}
	return false
}

// TestCommandsInDocs: the manager takes every command line that the documentation shows, and what it shows of its flags alone.
func TestCommandsInDocs(t *testing.T) {
	lines := markdown.Commands(t, root, program)
	whole := 0
	for _, line := range lines {
		if !line.Mention {
			whole++
		}
		if err := refusal(t, line.Args, !line.Mention); err != nil {
			t.Errorf("%s: %s: %v", line.Where, line.Text, err)
		}
	}
	flags := 0
	for _, p := range markdown.Pages(t, root) {
		if slices.Contains(foreignGuides, path.Base(p.File)) {
			continue
		}
		for _, b := range p.Blocks {
			args := flagsOf(b)
			flags += len(args)
			if err := refusal(t, append(args, "--cloud-provider=openstack"), true); err != nil {
				t.Errorf("%s: %q: %v", b.Where, args, err)
			}
		}
	}
	if whole < 9 || flags < 10 {
		t.Errorf("%d command lines and %d flags: this test checks too little", whole, flags)
	}
}

// flagsOf are flags of the manager in a block without its command line: one a line, or in a list or a patch of YAML.
func flagsOf(b markdown.Block) (args []string) {
	each := regexp.MustCompile(`(?m)^ *(--[a-z0-9-]+(?:=\S+)?)`)
	switch {
	case b.Language == "yaml":
		each = regexp.MustCompile(`(?:value: |- |\[|, )['"]?(--[a-z0-9-]+(?:=[^\s'"\]]+)?)`)
	case b.Info != "flags":
		return nil
	}
	for _, m := range each.FindAllStringSubmatch(b.Text, -1) {
		args = append(args, m[1])
	}
	return args
}

// refusal is what the binary says to the arguments: to the flags one by one, or also to what they are together, with files that
// can be read in place of those that they name, and a cloud if they name none.
func refusal(t *testing.T, args []string, together bool) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	args = slices.Clone(args)
	for i := range args {
		args[i] = regexp.MustCompile(`^(--(cloud-config|(auth[a-z]+-)?kubeconfig))=.*`).ReplaceAllString(args[i], "$1="+file)
	}
	o, err := newOptions()
	if err != nil {
		t.Fatal(err)
	}
	help, version, err := ccmoptions.Parse(o.flags(), args)
	if err != nil || help || version || !together {
		return err
	}
	o.ccm.LabelPersistentVolumes = o.webhooks.on(pvlabel.Name)
	if err := o.validate(); err != nil {
		return err
	}
	if len(o.ccm.Warnings) > 0 {
		return fmt.Errorf("warnings %q", o.ccm.Warnings)
	}
	return nil
}

// pages are what stands in docs and its folders, but the references, which are generated.
func pages(t *testing.T) (out []string) {
	t.Helper()
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../docs/designs/*.md", "../../docs/guides/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}
		out = append(out, files...)
	}
	return out
}

// TestCommandsRunElsewhere: commands in the guides do not take GNU's tools for granted, which macOS has not.
func TestCommandsRunElsewhere(t *testing.T) {
	for _, guide := range pages(t) {
		data, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			for gnu, elsewhere := range map[string]string{"base64 -w": "no other", "date -u -d": "date -u -v", "sed -i ": "no other", "readlink -f": "no other"} {
				if strings.Contains(line, gnu) && !strings.Contains(line, elsewhere) {
					t.Errorf("%s: %s in %s", filepath.Base(guide), gnu, line)
				}
			}
		}
	}
}

// TestServicesInGuideOfAWS: what the guide shows is nothing that AWS' provider refuses or warns of.
func TestServicesInGuideOfAWS(t *testing.T) {
	factory, err := providers.Named("aws")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := factory(t.Context(), "", cloud.Options{UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/guides/aws-load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(guide, -1)
	if len(shown) == 0 {
		t.Error("the guide shows no Service")
	}
	for _, m := range shown {
		s := &corev1.Service{}
		if err := yaml.UnmarshalStrict(m[1], s); err != nil {
			t.Fatalf("%v:\n%s", err, m[1])
		}
		s.Spec.HealthCheckNodePort = 31000 // as the API server does
		for n := range s.Spec.Ports {
			s.Spec.Ports[n].NodePort, s.Spec.Ports[n].Protocol = 30000+int32(n), corev1.ProtocolTCP //nolint:gosec // few
		}
		if problems, warnings := lb.Review(s, "", p); len(problems)+len(warnings) > 0 {
			t.Errorf("%v, %q:\n%s", problems, warnings, m[1])
		}
	}
}
