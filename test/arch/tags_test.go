package arch

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sdks are what a cloud's folders link that nothing else does.
var sdks = map[string]string{
	"aws":       "github.com/aws/",
	"openstack": "github.com/gophercloud/",
}

// tagged returns the clouds that no_<cloud>.go files leave out of a program.
func tagged(t *testing.T, dirs ...string) []string {
	t.Helper()
	var clouds []string
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join("../..", dir, "no_*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			clouds = append(clouds, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "no_"), ".go"))
		}
	}
	slices.Sort(clouds)
	return slices.Compact(clouds)
}

// Each cloud can be left out of both programs by the build tag no_<cloud>, and nothing of it is linked then.
func TestTagsLeaveCloudsOut(t *testing.T) {
	programs := []string{"./cmd/cloud-controller-manager", "./cmd/credential-provider"}
	clouds := tagged(t, "pkg/providers", "credentialprovider/config")
	all := linked(t, "", programs...)
	for _, p := range all {
		for _, root := range []string{"pkg/providers", "credentialprovider", "pkg/cloudauth"} {
			if c := cloudOf(p, module+"/"+root); strings.HasPrefix(p, module+"/"+root+"/") && slices.Contains([]string{"aws", "azure", "gcp", "openstack", "vsphere"}, c) && !slices.Contains(clouds, c) {
				t.Errorf("%s is linked, and there is no no_%s.go that leaves it out", p, c)
			}
		}
	}
	for _, c := range clouds {
		before := 0
		for _, p := range all {
			if ofCloud(p, c) {
				before++
			}
		}
		if before == 0 {
			t.Errorf("nothing of %s is linked: its tag leaves out nothing", c)
		}
		for _, p := range linked(t, "no_"+c, programs...) {
			if ofCloud(p, c) {
				t.Errorf("%s is linked with the build tag no_%s", p, c)
			}
		}
	}
}

// ofCloud reports whether a package is one cloud's alone.
func ofCloud(p, c string) bool {
	for _, root := range []string{"pkg/providers", "credentialprovider", "pkg/cloudauth"} {
		if strings.HasPrefix(p, module+"/"+root+"/") && cloudOf(p, module+"/"+root) == c {
			return true
		}
	}
	return sdks[c] != "" && strings.HasPrefix(p, sdks[c])
}

// linked returns the packages that programs link, built with tags.
func linked(t *testing.T, tags string, programs ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-tags", tags}, programs...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -tags %s: %v", tags, err)
	}
	return strings.Fields(string(out))
}
