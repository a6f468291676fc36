package elbv2_test

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
)

const managed = "NLBSecurityGroupMode = Managed\n"

// crashes lets the process die before the first, second, … change that a step makes, until it makes no more; then check is asked
// with a new process.
func crashes(t *testing.T, prepare func(*world), step func(*world) error, check func(*world)) {
	t.Helper()
	for n := 0; ; n++ {
		w := start(t, managed, awssim.Options{})
		prepare(w)
		gate := &crash{left: n}
		w.gate = gate
		w.restart()
		_ = step(w)
		w.gate = nil
		w.restart()
		check(w)
		if t.Failed() {
			t.Fatalf("after a crash before change %d, %s", n, gate.cut)
		}
		if gate.cut == "" {
			if n < 3 {
				t.Errorf("%d changes: the test checks nothing", n)
			}
			return
		}
	}
}

func TestCrashWhileCreating(t *testing.T) {
	var empty string
	crashes(t, func(w *world) { empty = w.state() }, func(w *world) error {
		_, err := w.Ensure(t.Context(), w.service("web"))
		return err
	}, func(w *world) {
		w.ensure(w.service("web"))
		w.must(w.service("web"))
		w.delete(w.service("web"))
		if got := w.state(); got != empty {
			t.Errorf("left over:\n%s", got)
		}
	})
}

// kubernetes/kubernetes#79994: what was made of a load balancer that failed was left over.
func TestComplaint79994CrashWhileCreatingThenDeleted(t *testing.T) {
	var empty string
	crashes(t, func(w *world) { empty = w.state() }, func(w *world) error {
		_, err := w.Ensure(t.Context(), w.service("web"))
		return err
	}, func(w *world) {
		w.delete(w.service("web"))
		if got := w.state(); got != empty {
			t.Errorf("left over:\n%s", got)
		}
	})
}

func TestCrashWhileUpdating(t *testing.T) {
	next := func(w *world) *cloud.LoadBalancerSpec {
		spec := w.service("web")
		spec.Ports[0].NodePort, spec.Ports[1].Port = 30081, 8443
		spec.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
		spec.Settings[annotations.CrossZone] = "true"
		spec.Members = w.nodes[1:]
		return spec
	}
	var empty, want string
	ref := start(t, managed, awssim.Options{})
	ref.ensure(next(ref))
	want = ref.state()
	crashes(t, func(w *world) {
		empty = w.state()
		w.ensure(w.service("web"))
	}, func(w *world) error {
		_, err := w.Ensure(t.Context(), next(w))
		return err
	}, func(w *world) {
		w.ensure(next(w))
		if got := w.state(); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		w.delete(next(w))
		if got := w.state(); got != empty {
			t.Errorf("left over:\n%s", got)
		}
	})
}

func TestCrashWhileDeleting(t *testing.T) {
	var empty string
	crashes(t, func(w *world) {
		empty = w.state()
		w.ensure(w.service("web"))
	}, func(w *world) error { return w.Delete(t.Context(), w.service("web")) }, func(w *world) {
		w.delete(w.service("web"))
		if got := w.state(); got != empty {
			t.Errorf("left over:\n%s", got)
		}
	})
}

// TestLostAnswers: what was carried out, but not answered, is not made twice, and not forgotten, by the same process.
func TestLostAnswers(t *testing.T) {
	for _, action := range []string{"CreateLoadBalancer", "CreateTargetGroup", "RegisterTargets", "CreateListener", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress"} {
		w := start(t, managed, awssim.Options{})
		empty := w.state()
		remove := w.AddFault(cloudsim.Fault{Action: action, Times: 1, Lost: true})
		spec := w.service("web")
		if _, err := w.Ensure(t.Context(), spec); err == nil {
			t.Errorf("%s: no error", action)
		}
		remove()
		for range 3 {
			if _, err := w.Ensure(t.Context(), spec); err == nil {
				break
			}
		}
		w.ensure(spec)
		w.must(spec)
		w.delete(spec)
		if got := w.state(); got != empty {
			t.Errorf("%s: left over:\n%s", action, got)
		}
	}
}
