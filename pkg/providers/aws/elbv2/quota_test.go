package elbv2_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

// served says of each listener how many targets it has, as "80: 250, 443: 250".
func (w *world) served() string {
	w.t.Helper()
	var out []string
	all, err := w.elb.Listeners(nil, "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range all {
		targets, err := w.elb.Health(l.TargetGroupARN, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		targets = slices.DeleteFunc(targets, func(h sim.TargetHealth) bool { return h.Draining() })
		out = append(out, fmt.Sprintf("%d: %d", l.Port, len(targets)))
	}
	return strings.Join(out, ", ")
}

// crowd is a cloud with 300 Nodes in a zone: twice as many targets are more than AWS allows there by default.
func crowd(t *testing.T, o sim.Options) *world {
	w := start(t, "", awssim.Options{ELBv2: o})
	for len(w.nodes) < 300 {
		w.addNode()
	}
	return w
}

const full = "AWS allows the load balancer no more targets"

// kubernetes/kubernetes#86441: with more Nodes than a load balancer may have targets, the second listener was refused for ever, and the Service
// had no address.
func TestComplaint86441MoreNodesThanTargetsAreAllowed(t *testing.T) {
	w := crowd(t, sim.Options{})
	spec := w.service("web")
	status := w.ensure(spec)
	if !strings.Contains(strings.Join(status.Warnings, "\n"), full) {
		t.Errorf("%q", status.Warnings)
	}
	if got := w.served(); got != "80: 250, 443: 250" {
		t.Errorf("targets %s", got)
	}
	w.Requests()
	w.ensure(spec) // does not try again each time
	if got := w.counts(); got != "" {
		t.Errorf("%s", got)
	}
	w.restart() // tries once, for the quota may have been raised
	if status := w.ensure(spec); len(status.Warnings) != 1 || w.served() != "80: 250, 443: 250" {
		t.Errorf("%q, %s", status.Warnings, w.served())
	}
	if got := w.counts(); got != "RegisterTargets 1" {
		t.Errorf("%s", got)
	}
}

func TestARaisedQuotaIsUsed(t *testing.T) {
	w := crowd(t, sim.Options{ZoneTargets: 1000})
	if status := w.ensure(w.service("web")); len(status.Warnings) > 0 || w.served() != "80: 300, 443: 300" {
		t.Errorf("%q, %s", status.Warnings, w.served())
	}
}

func TestAPortThatIsAddedGetsItsShareOfTargets(t *testing.T) {
	w := crowd(t, sim.Options{Draining: time.Nanosecond})
	spec := w.service("web")
	both := spec.Ports
	spec.Ports = both[:1]
	if status := w.ensure(spec); len(status.Warnings) > 0 || w.served() != "80: 300" {
		t.Fatalf("%q, %s", status.Warnings, w.served())
	}
	spec.Ports = both
	if status := w.ensure(spec); len(status.Ingress) != 1 || w.served() != "80: 250, 443: 250" {
		t.Errorf("%+v, %s", status, w.served())
	}
	for _, n := range w.nodes[:100] { // whoever is left out comes in when others go
		w.EC2.Terminate(n.Node.ProviderID[strings.LastIndexByte(n.Node.ProviderID, '/')+1:])
	}
	spec.Members, spec.Candidates = w.nodes[100:], w.nodes[100:]
	w.Age(2 * time.Minute)
	w.again(func() error { return w.UpdateMembers(t.Context(), spec) })
	if got := w.served(); got != "80: 200, 443: 200" {
		t.Errorf("targets %s", got)
	}
}

// Whoever has had a quota raised, and reaches it, loses no Node that gets traffic.
func TestNodesStayWhenARaisedQuotaIsReached(t *testing.T) {
	w := crowd(t, sim.Options{ZoneTargets: 700, Draining: time.Nanosecond})
	spec := w.service("web")
	w.ensure(spec)
	for len(w.nodes) < 360 {
		w.addNode()
	}
	spec.Members, spec.Candidates = w.nodes, w.nodes
	status := w.ensure(spec)
	if !strings.Contains(strings.Join(status.Warnings, "\n"), full) {
		t.Errorf("%q", status.Warnings)
	}
	var left int // of those of before
	groups, err := w.elb.TargetGroups(nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		targets, err := w.elb.Health(g.ARN, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range targets {
			if !h.Draining() && slices.ContainsFunc(w.nodes[:300], func(m cloud.LoadBalancerMember) bool {
				return strings.HasSuffix(m.Node.ProviderID, "/"+h.ID)
			}) {
				left++
			}
		}
	}
	if left != 600 {
		t.Errorf("of 600 targets %d are left: %s", left, w.served())
	}
}

// What is refused of a change of Nodes is told, as there is no other sign of it.
func TestNodesThatAreRefusedAreTold(t *testing.T) {
	w := start(t, "", awssim.Options{ELBv2: sim.Options{ZoneTargets: 5}})
	spec := w.service("web")
	w.ensure(spec)
	w.addNode()
	spec.Members, spec.Candidates = w.nodes, w.nodes
	if err := w.UpdateMembers(t.Context(), spec); cloud.KindOf(err) != cloud.KindQuota || !strings.Contains(err.Error(), "TooManyTargets") {
		t.Errorf("%v", err)
	}
	if got := w.served(); got != "80: 3, 443: 2" {
		t.Errorf("targets %s", got)
	}
}
