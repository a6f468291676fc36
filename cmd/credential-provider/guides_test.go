package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

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

// Every flag that a guide of the credential provider names is one, and every command line in it is
// understood.
func TestFlagsInGuides(t *testing.T) {
	known := strings.Join([]string{helpText(), configHelp, checkHelp, installHelp}, "\n")
	flags, commands := 0, 0
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
		for line := range strings.Lines(text) {
			at := strings.Index(line, name+" ")
			if at < 0 || !isCommand(line[:at]) {
				continue
			}
			commands++
			line, _, _ = strings.Cut(line[at+len(name):], "#")
			line, _, _ = strings.Cut(line, "|")
			line, _, _ = strings.Cut(line, ">")
			words := slices.DeleteFunc(strings.Fields(line), func(w string) bool { return w == "…" })
			// With --help at its end, the flags before it are read and nothing is done.
			if got := execute(t, "", append(words, "--help")...); got.code != 0 {
				t.Errorf("%s: %v: %s", guide, words, got.stderr)
			}
		}
	}
	if flags < 20 || commands < 8 {
		t.Errorf("%d flags and %d command lines: this test checks too little", flags, commands)
	}
}

// isCommand reports whether what stands before the program's name makes it a command line.
func isCommand(before string) bool {
	before = strings.TrimSpace(before)
	return before == "" || strings.HasSuffix(before, "|")
}
