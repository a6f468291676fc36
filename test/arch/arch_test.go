// Package arch holds no code: its tests enforce the architecture, that is which package
// may import which, and how large a file may grow.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/isthmus-cloud/isthmus"

// pkg is what `go list` says of a package of this module.
type pkg struct {
	ImportPath   string
	Dir          string
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
}

// rel returns the path inside the module, "" for other modules' packages.
func rel(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

func isOurs(importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

func load(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 5 {
		t.Fatalf("go list found only %d packages: this test would check nothing", len(pkgs))
	}
	return pkgs
}

// under reports whether the module-relative path p is dir or below it.
func under(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func underAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(p, d) || d == "="+p })
}

// arrows: what a folder may import of this module, beside itself; "=" before a folder is that one without
// those in it. The first row that matches a package counts. A folder that stands in no row may not exist.
var arrows = []struct {
	from string
	to   []string
}{
	{"cmd/credential-provider", []string{"credentialprovider", "pkg/cloudauth", "pkg/nearest", "pkg/version"}},
	{"cmd/isthmus", []string{"pkg/cli"}},
	{"pkg/cli/clitest", []string{"pkg/cloud", "pkg/providers/aws/api/apitest", "test"}},
	{"pkg/cli/access", []string{"pkg/ccm/apiclient", "pkg/cloud", "pkg/providers", "pkg/version"}},
	{"pkg/cli/output", []string{"pkg/text"}},
	{"pkg/cli/doctor", []string{"credentialprovider/kubelet", "manifests", "pkg/ccm/nodes", "pkg/ccm/status", "pkg/cli/access", "pkg/cli/output", "pkg/cloud", "pkg/lb", "pkg/text", "pkg/version", "webhooks"}},
	{"pkg/cli/explain", []string{"pkg/ccm/nodes", "pkg/ccm/options", "pkg/cli/access", "pkg/cli/output", "pkg/cloud", "pkg/controllers/pvlabel", "pkg/dryrun", "pkg/lb", "pkg/pv"}},
	{"pkg/cli/orphans", []string{"pkg/cli/access", "pkg/cli/output", "pkg/cloud", "pkg/text"}},
	{"pkg/cli/status", []string{"manifests", "pkg/ccm/status", "pkg/cli/access", "pkg/cli/output"}},
	{"pkg/cli", []string{"pkg/version"}},
	{"cmd/cloud-controller-manager", []string{"pkg/ccm", "pkg/cloud", "pkg/lb", "pkg/providers", "pkg/version", "webhooks"}},
	{"pkg/version", nil},
	{"pkg/nearest", nil},
	{"pkg/gcfg", []string{"pkg/nearest"}},
	{"pkg/text", nil},
	{"pkg/tracing", []string{"pkg/text"}},
	{"pkg/clientca", nil},
	{"pkg/keylock", nil},
	{"pkg/backoff", nil},
	{"pkg/batcher", []string{"pkg/backoff"}},
	{"pkg/inflight", nil},
	{"pkg/inventory", nil},
	{"pkg/dryrun", nil},
	{"pkg/marks", nil},
	{"pkg/await", []string{"pkg/cloud"}},
	{"pkg/joint", []string{"pkg/cloud"}},
	{"pkg/collectors", nil},
	{"pkg/cloud/decorate", []string{"pkg/backoff", "pkg/batcher", "pkg/cloud", "pkg/inflight", "pkg/keylock", "pkg/text", "pkg/tracing"}},
	{"pkg/cloud/cloudtest", []string{"pkg/cloud"}},
	{"pkg/cloud/places", []string{"pkg/cloud"}},
	{"pkg/cloud", nil},
	{"pkg/cloudauth", []string{"pkg/backoff", "pkg/gcfg", "pkg/nearest", "pkg/version"}},
	{"pkg/cloudconf", []string{"pkg/cloudauth"}},
	{"pkg/lb/family", []string{"pkg/cloud"}},
	{"pkg/lb", []string{"pkg/cloud", "pkg/nearest", "pkg/text"}},
	{"pkg/pv", []string{"pkg/cloud"}},
	{"pkg/ccm/apiclient", []string{"pkg/cloud", "pkg/dryrun", "pkg/version"}},
	{"pkg/ccm/options", []string{"pkg/cloud/decorate/deletionguard", "pkg/controllers/kubeletserving", "pkg/controllers/nodeipam", "pkg/controllers/pvlabel", "pkg/gcfg", "pkg/nearest", "pkg/tracing"}},
	{"pkg/ccm/csitopology", []string{"pkg/ccm/options", "pkg/cloud"}},
	{"pkg/ccm/leader", []string{"pkg/ccm/apiclient", "pkg/ccm/options"}},
	{"pkg/ccm/serving", []string{"pkg/ccm/apiclient", "pkg/ccm/leader", "pkg/ccm/options", "pkg/clientca", "pkg/version"}},
	{"pkg/ccm/status", []string{"pkg/cloud", "pkg/pv", "pkg/text", "pkg/version"}},
	{"pkg/ccm/nodes", []string{"pkg/ccm/options", "pkg/cloud", "pkg/tracing"}},
	{"pkg/ccm", []string{"pkg/cloud", "pkg/controllers", "pkg/lb", "pkg/tracing", "pkg/version"}},
	{"pkg/controllers/service", []string{"pkg/backoff", "pkg/cloud", "pkg/collectors", "pkg/lb", "pkg/text", "pkg/tracing"}},
	{"pkg/controllers/kubeletserving", []string{"pkg/cloud", "pkg/collectors", "pkg/controllers/workers", "pkg/text", "pkg/tracing"}},
	{"pkg/controllers/pvlabel", []string{"pkg/cloud", "pkg/collectors", "pkg/controllers/workers", "pkg/pv", "pkg/tracing"}},
	{"pkg/controllers/tagging", []string{"pkg/backoff", "pkg/cloud", "pkg/inflight", "pkg/tracing"}},
	{"pkg/controllers", []string{"pkg/cloud", "pkg/collectors", "pkg/tracing"}},
	{"pkg/providers/openstack/config", []string{"pkg/cloud", "pkg/cloudauth/openstack", "pkg/cloudconf", "pkg/gcfg", "pkg/text"}},
	{"pkg/providers/openstack/providerid", []string{"pkg/cloud", "pkg/text"}},
	{"pkg/providers/openstack/api/apitest", []string{"pkg/cloudauth/openstack", "pkg/providers/openstack/api", "pkg/providers/openstack/config", "test/cloudsim/openstack"}},
	{"pkg/providers/openstack/api", []string{"pkg/backoff", "pkg/cloud", "pkg/cloudauth", "pkg/dryrun", "pkg/text"}},
	{"pkg/providers/openstack/neutron", []string{"pkg/batcher", "pkg/cloud", "pkg/inflight", "pkg/inventory", "pkg/joint", "pkg/providers/openstack/api"}},
	{"pkg/providers/openstack/nova", []string{"pkg/cloud", "pkg/providers/openstack/api", "pkg/providers/openstack/config", "pkg/providers/openstack/neutron", "pkg/providers/openstack/providerid", "pkg/text"}},
	{"pkg/providers/openstack/cinder", []string{"pkg/cloud", "pkg/cloudauth/openstack", "pkg/inflight", "pkg/providers/openstack/api", "pkg/text"}},
	{"pkg/providers/openstack/router", []string{"pkg/backoff", "pkg/cloud", "pkg/inflight", "pkg/inventory", "pkg/marks", "pkg/providers/openstack/api", "pkg/providers/openstack/neutron", "pkg/providers/openstack/providerid"}},
	{"pkg/providers/openstack/octavia/plan", []string{"pkg/cloud", "pkg/lb/family", "pkg/marks", "pkg/providers/openstack/config", "pkg/providers/openstack/providerid", "pkg/text"}},
	{"pkg/providers/openstack/octavia/wire", []string{"pkg/batcher", "pkg/cloud", "pkg/cloudauth/openstack", "pkg/inflight", "pkg/providers/openstack/api", "pkg/providers/openstack/octavia/plan"}},
	{"pkg/providers/openstack/octavia", []string{"pkg/await", "pkg/cloud", "pkg/inventory", "pkg/joint", "pkg/keylock", "pkg/lb/family", "pkg/providers/openstack/api", "pkg/providers/openstack/config", "pkg/providers/openstack/neutron", "pkg/providers/openstack/providerid"}},
	{"pkg/providers/vsphere/config", []string{"pkg/cloudauth", "pkg/gcfg", "pkg/text"}},
	{"pkg/providers/vsphere/api", []string{"pkg/cloud", "pkg/cloudauth"}},
	{"pkg/providers/vsphere/zones", []string{"pkg/inventory", "pkg/providers/vsphere/api", "pkg/providers/vsphere/config"}},
	{"pkg/providers/vsphere/instances", []string{"pkg/cloud", "pkg/providers/vsphere/api", "pkg/providers/vsphere/config", "pkg/providers/vsphere/zones"}},
	{"pkg/providers/vsphere/volumes", []string{"pkg/cloud", "pkg/providers/vsphere/api", "pkg/providers/vsphere/config", "pkg/providers/vsphere/zones"}},
	{"pkg/providers/vsphere/paravirtual/config", []string{"pkg/gcfg", "pkg/text"}},
	{"pkg/providers/vsphere/paravirtual/supervisor", []string{"pkg/cloud", "pkg/cloudauth", "pkg/dryrun", "pkg/providers/vsphere/paravirtual/config", "pkg/text"}},
	{"pkg/providers/vsphere/paravirtual/instances", []string{"pkg/cloud", "pkg/providers/vsphere/paravirtual/config", "pkg/providers/vsphere/paravirtual/supervisor", "pkg/text"}},
	{"pkg/providers/vsphere/paravirtual/loadbalancers", []string{"pkg/cloud", "pkg/providers/vsphere/paravirtual/config", "pkg/providers/vsphere/paravirtual/supervisor", "pkg/text"}},
	{"pkg/providers/vsphere/paravirtual/routes", []string{"pkg/cloud", "pkg/providers/vsphere/paravirtual/config", "pkg/providers/vsphere/paravirtual/supervisor", "pkg/text"}},
	{"pkg/providers/vsphere/paravirtual", []string{"pkg/cloud"}},
	{"pkg/providers/aws/config", []string{"pkg/cloudauth/aws", "pkg/gcfg", "pkg/text"}},
	{"pkg/providers/aws/providerid", []string{"pkg/cloud"}},
	{"pkg/providers/aws/tags", nil},
	{"pkg/providers/aws/api/apitest", []string{"pkg/cloud", "pkg/providers/aws/api", "pkg/providers/aws/config", "test/cloudsim"}},
	{"pkg/providers/aws/annotations", []string{"pkg/cloud", "pkg/text"}},
	{"pkg/providers/aws/api", []string{"pkg/backoff", "pkg/cloud", "pkg/cloudauth", "pkg/dryrun", "pkg/providers/aws/config", "pkg/text"}},
	{"pkg/providers/aws/instances", []string{"pkg/cloud", "pkg/inventory", "pkg/providers/aws/config", "pkg/providers/aws/api", "pkg/providers/aws/providerid", "pkg/providers/aws/tags", "pkg/text"}},
	{"pkg/providers/aws/volumes", []string{"pkg/cloud", "pkg/providers/aws/api"}},
	{"pkg/providers/aws/routes", []string{"pkg/cloud", "pkg/inflight", "pkg/inventory", "pkg/providers/aws/api", "pkg/providers/aws/config", "pkg/providers/aws/providerid", "pkg/providers/aws/tags"}},
	{"pkg/providers/aws/elb/plan", []string{"pkg/cloud", "pkg/providers/aws/annotations", "pkg/providers/aws/config", "pkg/text"}},
	{"pkg/providers/aws/elb", []string{"pkg/batcher", "pkg/cloud", "pkg/inventory", "pkg/providers/aws/annotations", "pkg/providers/aws/api", "pkg/providers/aws/config", "pkg/providers/aws/elb/plan", "pkg/providers/aws/providerid", "pkg/providers/aws/tags", "pkg/providers/aws/vpc", "pkg/text"}},
	{"pkg/providers/aws/vpc", []string{"pkg/batcher", "pkg/cloud", "pkg/inventory", "pkg/joint", "pkg/lb/family", "pkg/providers/aws/api", "pkg/providers/aws/config", "pkg/providers/aws/providerid", "pkg/providers/aws/tags"}},
	{"pkg/providers/aws/elbv2/plan", []string{"pkg/cloud", "pkg/lb/family", "pkg/providers/aws/annotations", "pkg/providers/aws/config", "pkg/providers/aws/tags"}},
	{"pkg/providers/aws/elbv2", []string{"pkg/await", "pkg/batcher", "pkg/cloud", "pkg/inflight", "pkg/inventory", "pkg/lb/family", "pkg/providers/aws/annotations", "pkg/providers/aws/api", "pkg/providers/aws/config", "pkg/providers/aws/providerid", "pkg/providers/aws/tags", "pkg/providers/aws/vpc"}},
	{"pkg/providers", []string{"pkg/await", "pkg/cloud", "pkg/cloudauth", "pkg/cloudconf", "pkg/joint", "pkg/keylock", "pkg/text", "pkg/version"}},
	{"webhooks", []string{"pkg/clientca", "pkg/cloud", "pkg/lb", "pkg/collectors", "pkg/nearest", "pkg/pv", "pkg/text", "pkg/version"}},
	{"credentialprovider/install", nil},
	{"credentialprovider/kubelet", []string{"=credentialprovider", "pkg/cloudauth", "pkg/nearest"}},
	{"credentialprovider/config", []string{"=credentialprovider", "credentialprovider/acr", "credentialprovider/artifactregistry", "credentialprovider/ecr", "credentialprovider/openstack", "pkg/cloudauth", "pkg/nearest"}},
	{"credentialprovider/plugin", []string{"=credentialprovider", "credentialprovider/config", "pkg/version"}},
	{"credentialprovider/entries", []string{"=credentialprovider", "credentialprovider/config", "credentialprovider/kubelet"}},
	{"credentialprovider/check", []string{"=credentialprovider", "credentialprovider/config", "credentialprovider/install", "credentialprovider/kubelet", "pkg/cloudauth"}},
	{"credentialprovider/rollout", []string{"=credentialprovider", "credentialprovider/check", "credentialprovider/config", "credentialprovider/install", "credentialprovider/kubelet", "pkg/cloudauth", "pkg/version"}},
	{"credentialprovider", []string{"pkg/cloudauth", "pkg/gcfg", "pkg/nearest", "pkg/text", "pkg/version"}},
	{"docs/examples/paperapi", nil},
	{"docs/examples/paperregistry", []string{"=credentialprovider", "pkg/cloudauth"}},
	{"docs/examples/paper", []string{"docs/examples/paperapi", "pkg/cloud", "pkg/cloudauth"}},
	{"manifests", nil},
	{"charts", nil},
	{"test/cloudsim/forward", nil},
	{"test/cloudsim/aws/query", nil},
	{"test/cloudsim/aws/store", nil},
	{"test/cloudsim/aws/ec2/wire", []string{"test/cloudsim/aws/ec2", "test/cloudsim/aws/query"}},
	{"test/cloudsim/aws/ec2", []string{"test/cloudsim/aws/query", "test/cloudsim/aws/store"}},
	{"test/cloudsim/aws/elb/wire", []string{"test/cloudsim/aws/elb", "test/cloudsim/aws/query"}},
	{"test/cloudsim/aws/elb", []string{"test/cloudsim/aws/ec2", "test/cloudsim/aws/query", "test/cloudsim/aws/store", "test/cloudsim/forward"}},
	{"test/cloudsim/aws/elbv2/wire", []string{"test/cloudsim/aws/elbv2", "test/cloudsim/aws/query"}},
	{"test/cloudsim/aws/elbv2", []string{"test/cloudsim/aws/ec2", "test/cloudsim/aws/query", "test/cloudsim/aws/store", "test/cloudsim/forward"}},
	{"test/cloudsim/openstack/core", []string{"test/cloudsim/forward"}},
	{"test/cloudsim/openstack/dialect", []string{"test/cloudsim/openstack/core"}},
	{"test/cloudsim/openstack/identity", []string{"test/cloudsim"}}, // for the issuer of tokens
	{"test/cloudsim/openstack/compute", []string{"test/cloudsim/openstack/core", "test/cloudsim/openstack/dialect"}},
	{"test/cloudsim/openstack/network/resource", []string{"test/cloudsim/openstack/core", "test/cloudsim/openstack/dialect"}},
	{"test/cloudsim/openstack/network", []string{"test/cloudsim/openstack/core", "test/cloudsim/openstack/dialect"}},
	{"test/cloudsim/openstack/volume", []string{"test/cloudsim/openstack/core", "test/cloudsim/openstack/dialect"}},
	{"test/cloudsim/openstack/keymanager", []string{"test/cloudsim/openstack/core", "test/cloudsim/openstack/dialect"}},
	{"test/cloudsim/openstack/loadbalancer/schema", []string{"test/cloudsim/openstack/core", "test/cloudsim/openstack/dialect"}},
	{"test/cloudsim/openstack/loadbalancer", []string{"test/cloudsim/openstack/core", "test/cloudsim/openstack/dialect", "test/cloudsim/forward"}},
	{"test/cloudsim", nil},
	{"test/controlplane", nil},
	{"test/golden", nil},
	{"test/eventually", nil},
	{"test/wiretap", nil},
	{"test/differential/symbol", nil},
	{"test/differential/steps", []string{"test/differential/symbol"}},
	{"test/differential/compare", nil},
	{"test/differential/player", []string{"test/differential/steps", "test/differential/symbol"}},
	{"test/differential/recording", []string{"test/differential/compare"}},
	{"test/differential/aws/script", []string{"test/cloudsim/aws/ec2", "test/differential/steps"}},
	{"test/differential/aws/recording", []string{"test/differential/aws/snapshot", "test/differential/recording"}},
	{"test/differential/aws/difference", []string{"test/differential/aws/snapshot", "test/differential/compare"}},
	{"test/differential/openstack/script", []string{"test/differential/openstack/snapshot", "test/differential/steps"}},
	{"test/differential/openstack/recording", []string{"test/differential/openstack/script", "test/differential/openstack/snapshot", "test/differential/recording"}},
	{"test/differential/openstack/difference", []string{"test/differential/compare", "test/differential/openstack/recording", "test/differential/openstack/script", "test/differential/openstack/snapshot"}},
	{"test/differential/vsphere/script", []string{"test/cloudsim/vsphere", "test/differential/steps"}},
	{"test/differential/vsphere/snapshot", []string{"test/differential/compare"}},
	{"test/differential/vsphere/recording", []string{"test/differential/recording", "test/differential/vsphere/snapshot"}},
	{"test/differential/vsphere/difference", []string{"test/differential/compare", "test/differential/vsphere/snapshot"}},
	{"test", []string{"cmd", "credentialprovider", "manifests", "pkg", "webhooks"}},
	{"hack", []string{"cmd", "credentialprovider", "manifests", "pkg", "webhooks", "test"}},
}

func TestArrows(t *testing.T) {
	for _, p := range load(t) {
		from := rel(p.ImportPath)
		i := slices.IndexFunc(arrows, func(a struct {
			from string
			to   []string
		}) bool {
			return under(from, a.from)
		})
		if i < 0 {
			t.Errorf("%s stands in no row of the architecture: name what it may import in test/arch", from)
			continue
		}
		for _, imp := range p.Imports {
			to := rel(imp)
			if !isOurs(imp) || under(to, arrows[i].from) || underAny(to, arrows[i].to) {
				continue
			}
			t.Errorf("%s imports %s: %s may import only %v of this module", from, to, arrows[i].from, arrows[i].to)
		}
	}
}

// rooms are the folders beside clouds that are no cloud's.
var rooms = []string{"credentialprovider/check", "credentialprovider/config", "credentialprovider/entries", "credentialprovider/install", "credentialprovider/kubelet", "credentialprovider/plugin", "credentialprovider/rollout"}

// TestCloudsKeepApart: clouds never import each other, not even in tests.
func TestCloudsKeepApart(t *testing.T) {
	roots := []string{"pkg/providers", "pkg/cloudauth", "credentialprovider", "test/cloudsim"}
	for _, p := range load(t) {
		from := rel(p.ImportPath)
		for _, root := range roots {
			if !under(from, root) || from == root || slices.Contains(rooms, from) {
				continue
			}
			own := cloudOf(from, root)
			for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				to := rel(imp)
				for _, r := range roots {
					if isOurs(imp) && under(to, r) && to != r && !slices.Contains(shared, to) && cloudOf(to, r) != own && own != "cmd" {
						t.Errorf("%s imports %s: clouds never import each other", from, to)
					}
				}
			}
		}
	}
}

// shared are for all clouds.
var shared = []string{"pkg/cloudauth/wire", "test/cloudsim/forward", "test/cloudsim/forward/forwardtest"}

// clouds are the folders that have another name than their cloud: a kind of registry, a service.
var clouds = map[string]string{"ecr": "aws", "acr": "azure", "artifactregistry": "gcp", "gce": "gcp"}

// cloudOf returns the cloud that the path element below root belongs to.
func cloudOf(p, root string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, root+"/"), "/")
	if cloud, ok := clouds[first]; ok {
		return cloud
	}
	return first
}

// homes: where a foreign module, or a package of ours that is not for everyone whom arrows
// allows its parent, may be imported, by import path prefix.
var homes = map[string][]string{
	module + "/pkg/cloud/decorate":         {"pkg/cloud/decorate", "pkg/ccm", "pkg/cli", "cmd/cloud-controller-manager", "pkg/controllers/routes", "test", "hack"}, // routes: for the deletion guard's rule
	"github.com/aws":                       {"pkg/cloudauth/aws", "pkg/providers/aws", "credentialprovider/ecr", "test", "hack"},
	"github.com/vmware":                    {"pkg/cloudauth/vsphere", "pkg/providers/vsphere", "test", "hack"},
	"github.com/gophercloud/gophercloud":   {"pkg/cloudauth/openstack", "pkg/providers/openstack", "credentialprovider/openstack", "test", "hack"},
	"github.com/Azure/azure-sdk-for-go":    {"pkg/cloudauth/azure/azcredential", "test", "hack"},
	"golang.org/x/oauth2":                  {"pkg/cloudauth/gcp/tokensource"},
	"k8s.io/cloud-provider":                {"pkg/ccm", "pkg/cli", "cmd/cloud-controller-manager", "test", "hack"},
	"github.com/cert-manager/cert-manager": {"webhooks/certs"},
}

func TestHomes(t *testing.T) {
	used := map[string]bool{}
	for _, p := range load(t) {
		for prefix, dirs := range homes {
			for _, imp := range p.Imports {
				if imp != prefix && !strings.HasPrefix(imp, prefix+"/") {
					continue
				}
				used[prefix] = true
				if !underAny(rel(p.ImportPath), dirs) {
					t.Errorf("%s imports %s, which may be imported only in %v", rel(p.ImportPath), imp, dirs)
				}
			}
		}
	}
	for prefix := range homes {
		if !used[prefix] {
			t.Errorf("nothing imports %s: the rule checks nothing", prefix)
		}
	}
}

// TestLinks checks what whole binaries and packages must not link, even indirectly.
func TestLinks(t *testing.T) {
	forbidden := map[string][]string{
		"cmd/credential-provider": {"github.com/Azure", "golang.org/x/oauth2", "cloud.google.com/go", "k8s.io/client-go", module + "/pkg/providers", module + "/pkg/cloud", module + "/test", module + "/docs", "testing"},
		"credentialprovider":      {"k8s.io/client-go", module + "/pkg/providers", module + "/pkg/cloud"},
		// The libraries of the secure port's guard, with which a test compares it, would double the binary.
		"cmd/cloud-controller-manager": {"k8s.io/apiserver/pkg/authentication/authenticatorfactory", "k8s.io/apiserver/pkg/authorization", "k8s.io/apiserver/pkg/endpoints", "k8s.io/apiserver/pkg/server", "k8s.io/apiserver/plugin",
			"k8s.io/cloud-provider/app", "k8s.io/cloud-provider/options", module + "/test", module + "/docs", module + "/credentialprovider", "testing"},
		"pkg/cloud":     {"k8s.io/client-go"},
		"pkg/cloudauth": {"k8s.io/client-go", module + "/pkg/cloud"},
	}
	seen := map[string]bool{}
	for _, p := range load(t) {
		for dir, bad := range forbidden {
			from := rel(p.ImportPath)
			if from != dir && (dir == "pkg/cloud" || !under(from, dir)) {
				continue
			}
			seen[dir] = true
			for _, dep := range p.Deps {
				for _, b := range bad {
					if dep == b || strings.HasPrefix(dep, b+"/") && b != "testing" {
						t.Errorf("%s links %s", from, dep)
					}
				}
			}
		}
	}
	for dir := range forbidden {
		if !seen[dir] {
			t.Errorf("no package below %s: the rule checks nothing", dir)
		}
	}
}

// TestFileLength: no Go file is longer than 500 lines, no test longer than 800.
func TestFileLength(t *testing.T) {
	files := 0
	for _, p := range load(t) {
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files++
			limit := 500
			if strings.HasSuffix(name, "_test.go") {
				limit = 800
			}
			if lines := bytes.Count(data, []byte("\n")); lines > limit && !strings.HasPrefix(filepath.Base(name), "zz_generated") {
				t.Errorf("%s has %d lines, more than %d: split it by job", name, lines, limit)
			}
		}
	}
	if files < 20 {
		t.Errorf("only %d files counted: this test would check nothing", files)
	}
}
