package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
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
				shown[configKind]++
				checkExample(t, filepath.Base(guide), block)
			case strings.Contains(block, "\nkind: CredentialProviderConfig\n"):
				shown["kubelet"]++
				if _, findings := kubelet.Decode(filepath.Base(guide), []byte(block)); len(findings) != 0 {
					t.Errorf("%s: %v\n%s", guide, findings, block)
				}
			}
		}
	}
	if shown[configKind] < 3 || shown["kubelet"] < 3 {
		t.Errorf("examples %v: this test checks nothing", shown)
	}
}

// checkExample opens the kinds of an example, but for those that read a file which is not here.
func checkExample(t *testing.T, guide, example string) {
	t.Helper()
	c, err := decodeConfig([]byte(example))
	if err != nil {
		t.Errorf("%s: %v\n%s", guide, err, example)
		return
	}
	for _, kind := range c.set(credentialprovider.Options{}, func(string) {}).Kinds {
		if _, err := kind.Open(); err != nil && kind.Name != "openstack" {
			t.Errorf("%s: %v\n%s", guide, err, example)
		}
	}
}
