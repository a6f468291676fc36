package main

import (
	"slices"
	"testing"
)

// What was there before there were limits. Nothing is added here: a list gets shorter.
var (
	// unused are exported names that only their own package uses.
	unused = []string{
		"pkg/providers/openstack/octavia/plan.MaxGroupRules", "pkg/providers/openstack/octavia/plan.MonitorSCTP", "pkg/providers/openstack/octavia/plan.MonitorUDP",
		"pkg/providers/openstack/octavia/plan.OwnerOf", "pkg/providers/openstack/octavia/plan.ProtoHTTP", "pkg/providers/openstack/octavia/plan.ProtoProxy",
		"pkg/providers/openstack/octavia/plan.ProtoProxyV2", "pkg/providers/openstack/octavia/plan.ProtoSCTP", "pkg/providers/openstack/octavia/plan.ProtoTCP",
		"pkg/providers/openstack/octavia/plan.ProtoTLS", "pkg/providers/openstack/octavia/plan.ProtoUDP", "pkg/providers/openstack/octavia/plan.Published",
		"pkg/providers/openstack/octavia/plan.StatePendingCreate", "pkg/providers/openstack/router.Routes",
		"pkg/version.Version", // the linker writes it
	}
	// long are functions of more than mostParameters parameters.
	long = []string{"pkg/cloud/decorate/caller.Caller.gaveUp"}
)

// The module keeps to the limits: who exports a name for nobody, takes more parameters or lets a package grow too large is told
// here. A name that other modules are to use is in a package of api.
func TestModuleKeepsToTheLimits(t *testing.T) {
	s, err := (&code{root: "../.."}).measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Exported < 100 || len(s.Packages) < 50 {
		t.Fatalf("only %d exported names in %d packages were seen: this test would check nothing", s.Exported, len(s.Packages))
	}
	for _, name := range s.Unused {
		if !slices.Contains(unused, name) {
			t.Errorf("%s is exported, and used by its own package only: unexport it", name)
		}
	}
	for _, l := range s.Parameters {
		if !slices.Contains(long, l.Function) {
			t.Errorf("%s takes %d parameters after its context, more than %d: what belongs together is one value", l.Function, l.Count, mostParameters)
		}
	}
	for _, p := range s.Packages {
		if p.mark() != "" {
			t.Errorf("package %s has %d files and %d lines, at most %d and %d are allowed: divide it", p.Package, p.Files, p.Lines, mostFiles, mostLines)
		}
	}
}
