package providerid

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const id = "i-0123456789abcdef0"

func TestParse(t *testing.T) {
	for _, in := range []string{
		"aws:///eu-central-1a/" + id, "aws:////" + id, "aws:///" + id, id, "/" + id, "eu-central-1a/" + id,
		"aws://host/eu-central-1a/" + id, "aws://host/a/b/" + id, "aws:///eu-central-1a/" + id + "/",
	} {
		if got, err := Parse(in); got != id || err != nil {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "aws://", "aws:///", "aws:///eu-central-1a/", "aws:///eu-central-1a/i-", "aws:///eu-central-1a/x", "aws://" + id, "AWS:///a/" + id,
		"aws:///a/i-*", "aws:///a/i-1,i-2", "aws:///a/I-12", "aws:///a/" + id + "?x", "aws:///a/" + id + "#x", "aws:///%zz/" + id, "i-" + id + id + id + id,
		"aws:///eu-central-1a/fargate-ip-10-0-0-1.eu-central-1.compute.internal", "eks-hybrid:///eu-central-1/c/mi-0123456789abcdef0",
		"openstack:///714f1a84-9733-4bb6-aa45-ad213da01e3c", "kind://docker/kind/" + id, "://" + id, "mi-0123456789abcdef0",
	} {
		if got, err := Parse(in); cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("%s: %q, %v; want an error of kind Invalid", in, got, err)
		}
	}
}

func TestOwns(t *testing.T) {
	for _, tt := range []struct {
		name, providerID, compute string
		want                      bool
	}{
		{"ip-10-0-0-1.ec2.internal", "", "", true},
		{"ip-10-0-0-1.ec2.internal", "", "ec2", true},
		{id, "", "auto", true},
		{"n", "aws:///eu-central-1a/" + id, "", true},
		{"n", id, "", true},
		{"n", "aws:///eu-central-1a/nonsense", "", true}, // its owner is told
		{"fargate-ip-10-0-0-1.ec2.internal", "", "", false},
		{"ip-10-0-0-1.ec2.internal", "", "fargate", false},
		{"ip-10-0-0-1.ec2.internal", "", "hybrid", false},
		{"mi-0123456789abcdef0", "", "", false},
		{"n", "aws:///eu-central-1a/5a1c9bd6/fargate-ip-10-0-0-1.ec2.internal", "", false},
		{"n", "aws:///eu-central-1a/fargate-10.0.0.1", "", false},
		{"n", "fargate-10.0.0.1", "", false},
		{"n", "mi-0123456789abcdef0", "", false},
		{"n", "eks-hybrid:///eu-central-1/c/mi-0123456789abcdef0", "", false},
		{"n", "openstack:///714f1a84-9733-4bb6-aa45-ad213da01e3c", "", false},
		{"n", "://x", "", false},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: tt.name}, Spec: corev1.NodeSpec{ProviderID: tt.providerID}}
		if tt.compute != "" {
			n.Labels = map[string]string{computeType: tt.compute}
		}
		if got := Owns(n); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "/", "aws:///a/i-0", "aws://h/%41/i-0", "i-0", "aws://[::1/i-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Parse(s)
		if err != nil {
			return
		}
		if !IsInstanceID(got) {
			t.Fatalf("%q: %q", s, got)
		}
		if again, err := Parse(Format("eu-central-1a", got)); again != got || err != nil {
			t.Fatalf("%q does not survive writing: %q, %v", got, again, err)
		}
		if n := (&corev1.Node{Spec: corev1.NodeSpec{ProviderID: s}}); !Owns(n) {
			t.Fatalf("%q is an instance's, but nobody's", s)
		}
	})
}
