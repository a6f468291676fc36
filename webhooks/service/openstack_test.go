package service_test

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/service"
)

// sample returns a value of the annotation's type and one that is none; bad is empty where
// every text is one.
func sample(a cloud.Annotation) (good, bad string) {
	switch a.Type {
	case cloud.TypeBool:
		return "true", "maybe"
	case cloud.TypeInt:
		return "3", "99999999999"
	case cloud.TypeEnum:
		return a.Enum[0], "none-of-them"
	case cloud.TypeSelector:
		return "pool in (a, b)", "pool in"
	case cloud.TypeCIDRs:
		return "192.0.2.0/24", "192.0.2.0"
	case cloud.TypeIP:
		return netip.IPv4Unspecified().String(), "here"
	case cloud.TypeUUID:
		return someID, "lan"
	case cloud.TypeHostname:
		return "web.example.org", "Web_1"
	case cloud.TypeString:
	}
	switch a.Name { // what OpenStack takes more narrowly
	case prefix + "class":
		return "gold", "silver"
	case prefix + "floating-subnet":
		return "public-*", "~(public"
	case prefix + "default-tls-container-ref":
		return "https://barbican.example.org/v1/containers/" + someID, "my-certificate"
	}
	return "text", ""
}

// TestOneTable: every row of the table of annotations is an annotation of the reference; its bad
// value is refused by the planner and by the webhook in the same words, or warned about by both where
// it counts as not set, its good one by neither; and a typo in its name is warned about by both.
func TestOneTable(t *testing.T) {
	env := environment(t, "")
	reference, err := os.ReadFile("../../docs/reference/service-annotations-openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	var free []string
	for _, a := range env.Provider.Annotations {
		if !strings.Contains(string(reference), "| `"+a.Name+"` |") {
			t.Errorf("%s is not in the reference", a.Name)
		}
		good, bad := sample(a)
		with := func(name, value string) *corev1.Service {
			return example(func(s *corev1.Service) { s.Annotations[name] = value })
		}
		checkAlike(t, env, with(a.Name, good), nil)
		switch {
		case bad == "":
			free = append(free, a.Name)
		case a.Ignorable || a.Type == cloud.TypeBool || a.Type == cloud.TypeInt:
			got := checkAlike(t, env, with(a.Name, bad), nil)
			if len(got) != 1 || !strings.HasPrefix(got[0], "metadata.annotations["+a.Name+"]: ") || !strings.HasSuffix(got[0], "until then it is as if it were not set") {
				t.Errorf("%s=%s: warnings %q", a.Name, bad, got)
			}
		default:
			checkAlike(t, env, with(a.Name, bad), []string{"metadata.annotations[" + a.Name + "]"})
		}
		typo := a.Name[:len(a.Name)-1] + "qq"
		want := []string{"annotation " + typo + " is not known and has no effect; did you mean " + a.Name + "?"}
		if got := checkAlike(t, env, with(typo, good), nil); !cmp.Equal(want, got) {
			t.Errorf("warnings %q, want %q", got, want)
		}
	}
	if want := []string{prefix + "floating-subnet-tags", prefix + "availability-zone"}; !cmp.Equal(want, free) {
		t.Errorf("annotations of which every text is taken: %q, want %q: give new ones a type, or a rule of their own", free, want)
	}
}

// checkAlike asks the planner and the provider, as the service controller does, and the webhook.
// They must name the same problems, about these fields, in the same words, and the same warnings.
func checkAlike(t *testing.T, env webhooks.Environment, s *corev1.Service, fields []string) (warnings []string) {
	t.Helper()
	resp := service.New(env).Handle(t.Context(), request(t, nil, s))
	planned, warnings := plan(env, s)
	if diff := cmp.Diff(planned, causes(resp)); diff != "" || resp.Allowed != (len(planned) == 0) {
		t.Errorf("%v: allowed %v; the planner and the webhook differ (-planner +webhook):\n%s", s.Annotations, resp.Allowed, diff)
	}
	if diff := cmp.Diff(warnings, resp.Warnings); diff != "" {
		t.Errorf("%v: warnings differ (-planner +webhook):\n%s", s.Annotations, diff)
	}
	var got []string
	for _, p := range planned {
		field, _, _ := strings.Cut(p, ": ")
		got = append(got, field)
	}
	if diff := cmp.Diff(fields, got); diff != "" {
		t.Errorf("%v: fields (-want +got):\n%s", s.Annotations, diff)
	}
	return warnings
}

// plan is what becomes of a Service in the service controller before the cloud is asked. A wrong
// host name is a problem, though the controller goes on without it.
func plan(env webhooks.Environment, s *corev1.Service) (problems, warnings []string) {
	spec, told, err := lb.Plan(s, nil, cloud.Cluster{Name: "c", UID: "u"}, env.Provider)
	for _, w := range told {
		if problem, is := strings.CutSuffix(w, "; until then, the address is published in its place"); is {
			problems = append(problems, problem)
		} else {
			warnings = append(warnings, w)
		}
	}
	if err != nil {
		_, text, _ := strings.Cut(err.Error(), ": ")
		return append(problems, strings.Split(text, "\n")...), warnings
	}
	spec.Class, _ = env.Classes.Of(s)
	refused, more := env.Provider.CheckLoadBalancer(spec)
	for _, p := range refused {
		problems = append(problems, p.Error())
	}
	return problems, slices.Concat(warnings, more)
}

// TestEnsureRefusesAlike: what the webhook rejects, Ensure rejects without a call to the cloud
// and in the same words, where it is wrong by itself.
func TestEnsureRefusesAlike(t *testing.T) {
	env := environment(t, "")
	for name, change := range map[string]func(*corev1.Service){
		"class": func(s *corev1.Service) { s.Annotations[prefix+"class"] = "silver" },
		"contradiction": func(s *corev1.Service) {
			s.Annotations[prefix+"proxy-protocol"], s.Annotations[prefix+"x-forwarded-for"] = "v1", "true"
		},
		"address of IPv6": func(s *corev1.Service) { s.Spec.LoadBalancerIP = "2001:db8::1" },
	} {
		s := example(change)
		spec, _, err := lb.Plan(s, nil, cloud.Cluster{Name: "c", UID: "u"}, env.Provider)
		if err != nil {
			t.Fatal(err)
		}
		_, err = env.Provider.LoadBalancers.Ensure(t.Context(), spec)
		resp := service.New(env).Handle(t.Context(), request(t, nil, s))
		if got := causes(resp); err == nil || cloud.KindOf(err) != cloud.KindInvalid && cloud.KindOf(err) != cloud.KindUnsupported || len(got) != 1 || !strings.HasSuffix(err.Error(), got[0]) {
			t.Errorf("%s: Ensure says %v, the webhook %q", name, err, got)
		}
	}
}
