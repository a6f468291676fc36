package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/test/docs/markdown"
)

const root = "../.."

// What the guides show as configuration is accepted, the program's and the kubelet's.
func TestExamplesInGuides(t *testing.T) {
	guides, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{}
	for _, guide := range guides {
		data, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(string(data), "```yaml\n") {
			block, _, _ = strings.Cut(block, "```")
			switch {
			case strings.Contains(block, "\nkind: CredentialProviderOptions\n"):
				shown["options"]++
				checkExample(t, filepath.Base(guide), block)
			case strings.Contains(block, "\nkind: CredentialProviderConfig\n"):
				shown["kubelet"]++
				if _, findings := kubelet.Decode(filepath.Base(guide), []byte(block)); len(findings) != 0 {
					t.Errorf("%s: %v\n%s", guide, findings, block)
				}
			}
		}
	}
	if shown["options"] < 3 || shown["kubelet"] < 3 {
		t.Errorf("examples %v: this test checks nothing", shown)
	}
}

// checkExample opens the kinds of an example, but for those that read a file which is not here.
func checkExample(t *testing.T, guide, example string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "options.yaml")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Source{File: file}.Read()
	if err != nil {
		t.Errorf("%s: %v\n%s", guide, err, example)
		return
	}
	for _, kind := range c.Set(credentialprovider.Options{}, func(string) {}).Kinds {
		if _, err := kind.Open(); err != nil && kind.Name != "openstack" {
			t.Errorf("%s: %v\n%s", guide, err, example)
		}
	}
}

// othersFlags are flags in the guides that are not this program's.
func othersFlags() []string {
	return []string{
		"--image-credential-provider-config", "--image-credential-provider-bin-dir", // the kubelet's
	}
}

// Every flag that a guide of the credential provider names is one.
func TestFlagsInGuides(t *testing.T) {
	known := strings.Join([]string{helpText(), configHelp, checkHelp, installHelp}, "\n")
	flags := 0
	for _, guide := range []string{"credential-provider", "install-credential-provider", "ecr", "acr", "artifact-registry", "openstack-registries"} {
		data, err := os.ReadFile("../../docs/guides/" + guide + ".md")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "\\\n", " ")
		for _, inline := range regexp.MustCompile("`(--[a-z-]+)").FindAllStringSubmatch(text, -1) {
			flags++
			if !regexp.MustCompile(regexp.QuoteMeta(inline[1])+`\b`).MatchString(known) && !slices.Contains(othersFlags(), inline[1]) {
				t.Errorf("%s: %s is no flag", guide, inline[1])
			}
		}
	}
	if flags < 20 {
		t.Errorf("%d flags: this test checks too little", flags)
	}
}

// Every command line that the documentation shows is understood, values included, and so are the kubelet's arguments.
func TestCommandsInDocs(t *testing.T) {
	lines, whole := markdown.Commands(t, root, name), 0
	for _, line := range lines {
		args := line.Args
		if line.Mention { // with --help at its end, the flags before it are read and no more
			args = append(slices.Clone(args), "--help")
		} else {
			whole++
		}
		if said := refusal(t, args); said != "" {
			t.Errorf("%s: %s: %s", line.Where, line.Text, said)
		}
	}
	ofKubelet := 0
	for _, p := range markdown.Pages(t, root) {
		for _, b := range p.Blocks {
			for _, args := range kubeletArgs(t, b) {
				ofKubelet++
				if said := refusal(t, args); said != "" {
					t.Errorf("%s: %q: %s", b.Where, args, said)
				}
			}
		}
	}
	if whole < 12 || ofKubelet < 8 {
		t.Errorf("%d command lines and %d of the kubelet: this test checks too little", whole, ofKubelet)
	}
}

// refusal is what the program says to arguments before it does anything; a kubelet and files that are not here are others in their place.
func refusal(t *testing.T, args []string) string {
	t.Helper()
	var stderr strings.Builder
	s := streams{in: strings.NewReader(""), out: io.Discard, err: &stderr}
	for _, c := range commands() {
		if len(args) == 0 || c.name != args[0] {
			continue
		}
		args = slices.Clone(args[1:])
		for i, arg := range args {
			if i > 0 && args[i-1] == "--service-account-token-file" {
				args[i] = filepath.Join(t.TempDir(), arg)
				if err := os.WriteFile(args[i], []byte("token"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.name == "check" && !slices.Contains(args, "--help") {
			args = append(args, "--kubelet-config=/kubelet.yaml", "--bin-dir=/bin")
		}
		_, _ = c.parse(args, s)
		return stderr.String()
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		_, _ = dispatch(t.Context(), args, s) // refuses it
		return stderr.String()
	}
	if _, err := parse(args); err != nil && !errors.Is(err, flag.ErrHelp) {
		return err.Error()
	}
	return ""
}

// kubeletArgs are the arguments that a block of YAML has the kubelet give our program, entry by entry.
func kubeletArgs(t *testing.T, b markdown.Block) (out [][]string) {
	t.Helper()
	text := b.Text
	if strings.HasPrefix(text, "  args:") { // of an entry
		text = "kind: CredentialProviderConfig\nproviders:\n- name: " + name + "\n" + text
	}
	if b.Language != "yaml" || !strings.Contains(text, "kind: CredentialProviderConfig\n") {
		return nil
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var c struct {
			Providers []struct {
				Name string
				Args []string
			}
		}
		if err := yaml.Unmarshal([]byte(document), &c); err != nil {
			t.Fatalf("%s: %v", b.Where, err)
		}
		for _, p := range c.Providers {
			if strings.HasPrefix(p.Name, name) {
				out = append(out, p.Args)
			}
		}
	}
	return out
}
