package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// terminal is what must not reach one: a name of somebody else's tries to clear the screen, and to begin lines.
const terminal = "\x1b[2J\n\u202eERROR: forged"

// examined is what doctor says, without what is the same in all tests here: no more than a screen's worth, and nothing that a terminal obeys.
func (s *set) examined(conf string, args ...string) (report, int) {
	s.t.Helper()
	out, code := s.run(conf, append([]string{"-o", "json", "--skip=permissions,webhooks"}, args...)...)
	if len(out) > 64<<10 || strings.ContainsAny(out, "\x1b\u202e") {
		s.t.Errorf("%d bytes: %.2000q", len(out), out)
	}
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatalf("%v: %.2000s", err, out)
	}
	return r, code
}

// told is how much it says that is wrong or was not seen.
func (r *report) told() int {
	n := len(r.Findings)
	for _, c := range r.Checks {
		n += len(c.Unseen)
	}
	return n
}

// said is all that it says.
func (r *report) said() string {
	out, _ := json.Marshal(r)
	return string(out)
}

// TestHostileReads: each read of a healthy OpenStack is refused, answered by what is no answer, or not answered, one at a time. Doctor says
// so each time, and a hanging one holds it no longer than --check-timeout.
func TestHostileReads(t *testing.T) {
	s := newSet(t, openStack(t))
	before := len(s.OpenStack.Requests())
	healthy, code := s.examined(s.Conf)
	if code != 0 || len(healthy.Findings) > 0 {
		t.Fatalf("exit code %d: %+v", code, healthy.Findings)
	}
	type read struct{ service, path string }
	var reads []read
	for _, q := range s.OpenStack.Requests()[before:] {
		if r := (read{q.Service, q.Path}); q.Service != "identity" && !slices.Contains(reads, r) {
			reads = append(reads, r)
		}
	}
	if len(reads) < 8 {
		t.Fatalf("only %v: the test checks nothing", reads)
	}
	for _, q := range reads {
		for how, fault := range map[string]core.Fault{
			"refused": {Status: http.StatusForbidden, Body: `{"forbidden":{"message":"` + strings.Repeat(terminal, 1000) + `"}}`},
			"a page":  {Status: http.StatusOK, Body: "<html><body>" + strings.Repeat("log in"+terminal, 1000) + "</body></html>"},
			"hangs":   {Hang: true},
		} {
			t.Run(q.service+q.path+" "+how, func(t *testing.T) {
				s.t = t
				fault.Service, fault.Path = q.service, q.path
				t.Cleanup(s.OpenStack.AddFault(fault))
				bound := []string{"--check-timeout=2m"}
				if how == "hangs" {
					bound = []string{"--check-timeout=300ms"}
				}
				r, code := s.examined(s.Conf, bound...)
				if r.told() <= healthy.told() || how == "hangs" && code == 0 {
					t.Errorf("exit code %d, and nothing is said: %+v", code, r)
				}
				if said := r.said(); how == "refused" && !strings.Contains(said, "403") || how == "a page" && strings.Contains(said, "--check-timeout") {
					t.Errorf("exit code %d, and it is not said why: %s", code, said)
				}
			})
		}
	}
}

// TestHostileEndpoint: what answers at the cloud's address is no cloud.
func TestHostileEndpoint(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(strings.Repeat(terminal, 1000))); err != nil {
				return
			}
		}
	}
	for name, start := range map[string]func(*testing.T) *place{"openstack": openStack, "aws": amazon} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, start(t))
			for how, answer := range map[string]http.HandlerFunc{
				"endless": endless,
				"hangs": func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body) // or nobody notices that the client is gone
					<-r.Context().Done()
				},
				"error": func(w http.ResponseWriter, _ *http.Request) {
					http.Error(w, strings.Repeat(terminal, 1000), http.StatusBadGateway)
				},
				"a page": func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>"+terminal+"</html>") },
				"moved": func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, "/"+r.URL.Path, http.StatusTemporaryRedirect)
				},
			} {
				t.Run(how, func(t *testing.T) {
					s.t = t
					server := httptest.NewServer(answer)
					t.Cleanup(server.Close)
					conf := strings.ReplaceAll(s.away(t, s.Conf), "http://127.0.0.1:1", server.URL)
					if name == "aws" {
						t.Setenv("AWS_ENDPOINT_URL", server.URL)
					}
					var bound []string
					if how == "hangs" || how == "endless" {
						bound = []string{"--check-timeout=300ms"}
					}
					if r, code := s.examined(conf, bound...); code == 0 || len(r.Findings) == 0 {
						t.Errorf("exit code %d: %+v", code, r)
					}
				})
			}
		})
	}
}

// TestRefusedByTheAPIServer: who may read all but one thing is told what that is, and nothing is taken for absent.
func TestRefusedByTheAPIServer(t *testing.T) {
	s := newSet(t, openStack(t))
	full := s.Config
	config, err := s.UserConfig("reader")
	s.must(err)
	may := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list"}},
		{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"}, Verbs: []string{"list"}},
		{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingwebhookconfigurations"}, Verbs: []string{"list"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
	roles := s.Client.RbacV1().ClusterRoles()
	_, err = roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error { return roles.Delete(ctx, "reader", metav1.DeleteOptions{}) })
	bindings := s.Client.RbacV1().ClusterRoleBindings()
	_, err = bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}}}, metav1.CreateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error { return bindings.Delete(ctx, "reader", metav1.DeleteOptions{}) })
	s.webhook(s.authority(later*24*365), true, "Ignore") // without it nobody asks for its Service and EndpointSlices
	s.slice(true)
	s.service("stuck", "") // without it nobody asks for events
	without := func(k int) (string, int) {
		role, err := roles.Get(t.Context(), "reader", metav1.GetOptions{})
		s.must(err)
		role.Rules = slices.Clone(may)
		if k >= 0 {
			role.Rules = slices.Delete(role.Rules, k, k+1)
		}
		_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
		s.must(err)
		eventually.Met(s.t, func() string { return s.mayOnly(may, k) })
		s.Config = config
		defer func() { s.Config = full }()
		return s.run(s.Conf)
	}
	for k, rule := range may {
		t.Run(rule.Resources[0], func(t *testing.T) {
			s.t = t
			out, code := without(k)
			if code == 0 || !strings.Contains(out, `cannot `+rule.Verbs[len(rule.Verbs)-1]+` resource "`+rule.Resources[0]+`"`) && !strings.Contains(out, `cannot get resource "`+rule.Resources[0]+`"`) {
				t.Errorf("exit code %d, and %s is not named:\n%s", code, rule.Resources[0], out)
			}
			if nodes := state(out, "nodes"); (nodes == "ok") != (rule.Resources[0] != "nodes") {
				t.Errorf("nodes is %q:\n%s", nodes, out)
			}
			if stuck := strings.Contains(out, "ERROR: services, service/default/stuck"); stuck != (rule.Resources[0] != "services") {
				t.Errorf("the stuck Service is named: %t:\n%s", stuck, out)
			}
			if strings.Contains(out, "the cloud does not answer") {
				t.Errorf("the cloud is blamed:\n%s", out)
			}
		})
	}
	s.t = t
	if out, _ := without(-1); strings.Contains(out, "UNCHECKED") {
		t.Errorf("something more may not be read:\n%s", out)
	}
}

// mayOnly says in what the rights of user reader are not all of the rules but the kth yet: the API server takes a moment to know them.
func (s *set) mayOnly(rules []rbacv1.PolicyRule, k int) string {
	for i, rule := range rules {
		r := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "reader",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0]}}}
		r, err := s.Client.AuthorizationV1().SubjectAccessReviews().Create(s.t.Context(), r, metav1.CreateOptions{})
		s.must(err)
		if r.Status.Allowed != (i != k) {
			return fmt.Sprintf("%s %s: allowed is %t", rule.Verbs[0], rule.Resources[0], r.Status.Allowed)
		}
	}
	return ""
}
