package explain

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// settings are the annotations of each Service.
func (w *world) settings() map[string]string {
	if k, ok := w.World.(interface{ Annotations() cloud.Settings }); ok {
		return k.Annotations()
	}
	return map[string]string{}
}

// planned fails the test unless the plan's calls are those that have been done, or with part the first of them.
func (w *world) planned(what string, r *report, done []string, part bool) {
	w.t.Helper()
	calls := r.calls()
	if part && len(calls) > 0 && len(calls) < len(done) {
		done = done[:len(calls)]
	}
	if !slices.Equal(calls, done) || len(done) == 0 {
		w.t.Errorf("%s: done was\n%s\nand said\n%s", what, strings.Join(done, "\n"), r.say())
	}
}

// TestService: from its making to its end, the plan's calls are those that are done then, and none is made by the plan.
func TestService(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *place{"openstack": openStack, "aws": amazon, "vsphere-paravirtual": superVisor} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, start(t))
			var last string
			for _, name := range []string{"a", "b"} {
				i, err := w.MakeInstance(t.Context(), w.Provider+"-"+name)
				w.must(err)
				w.node(nodeOf(i))
				last = i.Ref.NodeName
			}
			out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "left-out", Labels: map[string]string{corev1.LabelNodeExcludeBalancers: ""}}}
			w.node(out)
			w.service("web", w.settings())
			r := w.explained(0, "service", "web")
			if len(r.Cloud) != 0 || !strings.Contains(r.say(), "Nodes: 2 of 3 are members") || !strings.Contains(r.say(), "left-out") || len(r.Plan.Steps) < 2 {
				t.Errorf("new: %s", r.say())
			}
			w.planned("new", r, w.sync("web"), w.part)

			if r = w.explained(0, "service", "web"); len(r.Plan.Steps) != 0 || !strings.Contains(r.say(), "nothing to do") {
				t.Errorf("in sync: %s", r.say())
			}
			if (w.live.Inventory == nil) == (len(r.Cloud) > 0) || (len(r.Cloud) == 0) != (r.CloudNote != "") {
				t.Errorf("in the cloud: %s", r.say())
			}

			w.update("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 })
			r = w.explained(0, "service", "web")
			w.planned("another port", r, w.sync("web"), false)

			if !w.selects {
				w.sync("web", last)
				w.restart() // a process may remember for a while what it has seen
				r = w.explained(0, "service", "web")
				w.planned("one member is missing", r, w.sync("web"), false)
			}

			w.restart()
			w.must(w.DeleteLoadBalancer(t.Context(), w.LoadBalancerID(w.status)))
			r = w.explained(0, "service", "web")
			w.planned("deleted by others", r, w.sync("web"), true)

			if w.wrong != "" {
				w.wrongAnnotation("bad", false)
				w.wrongAnnotation("web", true)
			}
			w.last()
		})
	}
}

// wrongAnnotation: it is told in words, and nothing is to be made otherwise; what a Service has stays.
func (w *world) wrongAnnotation(name string, served bool) {
	w.t.Helper()
	settings := maps.Clone(w.settings())
	settings[w.wrong] = "\x1b]0;none\x07"
	if served {
		w.update(name, func(s *corev1.Service) { maps.Copy(s.Annotations, settings) })
		defer w.update(name, func(s *corev1.Service) { delete(s.Annotations, w.wrong) })
	} else {
		w.service(name, settings)
	}
	r := w.explained(1, "service", name)
	if !slices.ContainsFunc(r.Findings, func(f output.Finding) bool { return strings.Contains(f.Message, w.wrong) }) || len(r.calls()) > 0 || strings.ContainsAny(r.say(), "\x1b\x07") {
		w.t.Errorf("a wrong annotation: %s", r.say())
	}
	if served && len(r.Cloud) == 0 && r.CloudNote == "" {
		w.t.Errorf("what it has is not told: %s", r.say())
	}
}

// last deletes the Service as users do, and its load balancer as the controller does.
func (w *world) last() {
	w.t.Helper()
	services := w.Client.CoreV1().Services("default")
	w.must(services.Delete(w.t.Context(), "web", metav1.DeleteOptions{}))
	r := w.explained(0, "service", "web")
	s, err := services.Get(w.t.Context(), "web", metav1.GetOptions{})
	w.must(err)
	before := len(w.changes())
	claims := lb.Claims{Classes: lb.NewClasses(&w.live.LoadBalancing, true), Cluster: w.cluster, Provider: &w.live.Provider}
	for {
		err := w.live.LoadBalancers.Delete(w.t.Context(), claims.Hint(s))
		if cloud.KindOf(err) != cloud.KindRetryAfter {
			w.must(err)
			break
		}
	}
	w.planned("going", r, w.changes()[before:], w.part)
}

// TestServiceOfOthers: it is said who serves it, or why nobody does.
func TestServiceOfOthers(t *testing.T) {
	w := newWorld(t, openStack(t))
	services := w.Client.CoreV1().Services("default")
	for name, c := range map[string]struct {
		spec corev1.ServiceSpec
		args []string
		code int
		want string
	}{
		"cluster-ip":  {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}, want: "its type is ClusterIP"},
		"others":      {spec: corev1.ServiceSpec{LoadBalancerClass: new("example.org/theirs")}, want: `"example.org/theirs" is none of this cloud's`},
		"misspelled":  {spec: corev1.ServiceSpec{LoadBalancerClass: new("isthmus-cloud.github.io/openstack-gold")}, code: 1, want: "ERROR"},
		"not-default": {args: []string{"--load-balancer-default-class=false"}, want: "--load-balancer-default-class"},
	} {
		if c.spec.Type == "" {
			c.spec.Type = corev1.ServiceTypeLoadBalancer
		}
		c.spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}
		add(w, services.Create, services.Delete, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: c.spec})
		if r := w.explained(c.code, append([]string{"service", "-n", "default", name}, c.args...)...); !strings.Contains(r.say(), c.want) || len(r.Plan.Steps) > 0 {
			t.Errorf("%s: %s", name, r.say())
		}
	}
	undo := w.fail(http.StatusForbidden)
	s := w.service("refused", nil)
	w.event(s, "service-controller", s.UID, "told\x1b[31m")
	w.event(s, "another-controller", s.UID, "others'")
	w.event(s, "service-controller", "of-a-former-one", "former")
	if r := w.explained(1, "service", "refused"); !strings.Contains(r.say(), "ERROR: a sync fails: ") || r.CloudNote == "" || len(r.Events) != 1 || !strings.HasPrefix(r.Events[0].Message, "told") ||
		strings.Contains(r.say(), "\x1b") {
		t.Errorf("refused by the cloud: %s", r.say())
	}
	undo()
	if out, code := w.run("service", "nobody"); code != 2 || !strings.Contains(out, "not found") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := w.run("service", "others", "-o", "yaml", "--timeout", "0s"); code != 2 || strings.Count(out, "\n") != 1 {
		t.Errorf("exit code %d, want two problems: %s", code, out)
	}
}

// event publishes a warning about a Service.
func (w *world) event(s *corev1.Service, from string, uid types.UID, message string) {
	w.t.Helper()
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: s.Name + "-"}, Type: corev1.EventTypeWarning, Reason: "Test", Message: message,
		Source:         corev1.EventSource{Component: from},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: uid}}
	_, err := w.Client.CoreV1().Events(s.Namespace).Create(w.t.Context(), e, metav1.CreateOptions{})
	w.must(err)
}

// TestWhatTheCloudDoesNotAnswer is no problem of the object's.
func TestWhatTheCloudDoesNotAnswer(t *testing.T) {
	for kind, want := range map[cloud.Kind]int{cloud.KindInvalid: 1, cloud.KindDenied: 1, cloud.KindQuota: 1, cloud.KindFailed: 1, cloud.KindNotFound: 1,
		cloud.KindUnavailable: 2, cloud.KindThrottled: 2, cloud.KindUnknown: 2} {
		q := &question{report: &report{}}
		q.failed("it", cloud.Errorf(kind, "because"), "mend it")
		if got := output.Verdict(q.report.Findings); got != error(output.Exit(want)) { //nolint:errorlint // it is never wrapped
			t.Errorf("%s: %v, want exit code %d", kind, got, want)
		}
		q.report.problem("a second one", "mend it")
		if got := output.Verdict(q.report.Findings); got != error(output.Exit(1)) { //nolint:errorlint // it is never wrapped
			t.Errorf("%s and a problem: %v", kind, got)
		}
	}
	if err := output.Verdict(nil); err != nil {
		t.Error(err)
	}
}
