package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/licenseclassifier/v2/assets"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
)

// licenseText returns a text that the classifier knows.
func licenseText(t *testing.T, file string) string {
	t.Helper()
	data, err := assets.ReadLicenseFile("License/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestClassify(t *testing.T) {
	for name, tc := range map[string]struct {
		texts       map[string]string
		want, wrong string
	}{
		"one":               {map[string]string{"LICENSE": licenseText(t, "MIT/pristine.txt")}, "MIT", ""},
		"one twice":         {map[string]string{"LICENSE": licenseText(t, "MIT/pristine.txt"), "a/LICENSE": licenseText(t, "MIT/pristine.txt") + "\n"}, "MIT", ""},
		"two, one forked":   {map[string]string{"LICENSE": licenseText(t, "Apache-2.0/pristine.txt"), "a/LICENSE": licenseText(t, "BSD-3-Clause/pristine.txt")}, "Apache-2.0 AND BSD-3-Clause", ""},
		"none":              {nil, "", "example.com/m v1: no license is found in it"},
		"a notice alone":    {map[string]string{"NOTICE": "Copyright Somebody"}, "", "no license is found"},
		"one not allowed":   {map[string]string{"COPYING": licenseText(t, "GPL-3.0/license.txt")}, "GPL-3.0", "its license GPL-3.0 is none of 0BSD, Apache-2.0"},
		"all rights theirs": {map[string]string{"LICENSE": "All rights reserved. You may not copy this."}, "", "no license is found"},
	} {
		b := &binary{modules: []*module{{path: "example.com/m", version: "v1", texts: tc.texts}}}
		err := b.classify()
		if got := strings.Join(b.modules[0].licenses, " AND "); got != tc.want || (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, tc.want, tc.wrong)
		}
	}
}

// A binary's files are the same twice, and those of something else than what is here are refused.
func TestShip(t *testing.T) {
	t.Chdir("../../..")
	dir := t.TempDir()
	binary := filepath.Join(dir, "isthmus-credential-provider")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/credential-provider").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var before []string
	for range 2 {
		files := []string{filepath.Join(dir, "licenses"), filepath.Join(dir, "sbom"), filepath.Join(dir, "roots")}
		if err := run(t.Context(), []string{"-binary", binary, "-version", "v1", "-licenses", files[0], "-sbom", files[1], "-roots", files[2]}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(data))
		}
		if before != nil && strings.Join(before, "") != strings.Join(got, "") {
			t.Error("the second time something else is written")
		}
		before = got
	}
	if !strings.Contains(before[0], "\nk8s.io/klog/v2 ") || !strings.Contains(before[1], `"pkg:golang/github.com/aws/aws-sdk-go-v2@v`) || !strings.Contains(before[1], `"1970-01-01T00:00:00Z"`) {
		t.Errorf("licenses or SBOM lack what is linked in:\n%.2000s", before[1])
	}
	doc, err := spdxjson.Read(strings.NewReader(before[1]))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Errorf("the SBOM is no valid SPDX: %v", err)
	}
	if !strings.Contains(before[1], `"`+rootsPath+`"`) || !strings.Contains(before[2], "under MPL-2.0, as "+rootsPath+" v") {
		t.Error("nothing says where the certificates are from")
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM([]byte(before[2])) {
		t.Error("no certificates")
	}

	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-binary", other}); err == nil {
		t.Error("what is no program of Go's is taken")
	}
}
