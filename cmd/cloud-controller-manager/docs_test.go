package main

import (
	"os"
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
)

// foreignFlags are programs' of others that the guides name in the same way.
var foreignFlags = []string{"--admission-control-config-file", "--enable-priority-and-fairness", "--ok-total-unready-count", "--max-total-unready-percentage", "--with-topology", "--provider-id", "--node-ip", "--aws-default-region", "--hostname-override", "--node-labels", "--registries", "--kubelet-certificate-authority", "--kubelet-insecure-tls", "--cluster-signing-duration", "--config"}

// foreignGuides are about isthmus-credential-provider, whose own tests look at them.
var foreignGuides = []string{"credential-provider.md", "install-credential-provider.md", "ecr.md", "acr.md", "artifact-registry.md", "openstack-registries.md"}

// Flags that the guides name are the manager's or those of isthmus, and the command lines that they show are accepted.
func TestFlagsInGuides(t *testing.T) {
	guides := pages(t)
	isthmus, err := os.ReadFile("../../docs/reference/flags-isthmus.md")
	if err != nil {
		t.Fatal(err)
	}
	inline := regexp.MustCompile("`(--[a-z0-9-]+)(=[^`]*)?`")
	lines := 0
	for _, guide := range guides {
		if slices.Contains(foreignGuides, filepath.Base(guide)) {
			continue
		}
		data, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "\\\n", " ")
		for line := range strings.SplitSeq(text, "\n") {
			if args, ok := strings.CutPrefix(strings.TrimSpace(line), "bin/cloud-controller-manager "); ok {
				lines++
				args, _, _ = strings.Cut(args, " 2>")
				// An asterisk is in quotes: without, zsh refuses the line.
				if strings.Contains(strings.ReplaceAll(args, "*'", ""), "*") {
					t.Errorf("%s: unquoted * in %s", filepath.Base(guide), args)
				}
				parse(t, filepath.Base(guide), strings.Fields(strings.ReplaceAll(args, "'", "")))
			}
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				ofIsthmus := regexp.MustCompile(`\s` + m[1] + `[ =\n]`).Match(isthmus)
				if !slices.Contains(foreignFlags, m[1]) && !ofIsthmus && !hasFlag(t, strings.TrimPrefix(m[1], "--")) {
					t.Errorf("%s names %s, which is no flag", filepath.Base(guide), m[1])
				}
			}
		}
	}
	if lines == 0 {
		t.Error("no guide shows a command line: this test checks nothing")
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

// parse takes args as the binary does.
func parse(t *testing.T, guide string, args []string) {
	t.Helper()
	o, err := newOptions()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ccmoptions.Parse(o.flags(), args); err != nil {
		t.Errorf("%s shows a command line that is refused: %v: %s", guide, err, strings.Join(args, " "))
	}
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
