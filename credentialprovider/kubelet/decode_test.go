package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	configv1 "k8s.io/kubelet/config/v1"
	configv1alpha1 "k8s.io/kubelet/config/v1alpha1"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/isthmus-cloud/isthmus/test/golden"
)

// The files good-* are those with which the kubelet v1.37.1 itself starts, and with bad-* it does
// not (its RegisterCredentialProviderPlugins was asked). Each of the latter has a problem that is
// explained, and nothing of a file but names is said.
func TestValidateAsKubelet(t *testing.T) {
	files, err := filepath.Glob("testdata/configs/*")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	bin := t.TempDir()
	for _, file := range files {
		program := "n-" + strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		put(t, filepath.Join(bin, program), 0o755)
	}
	put(t, filepath.Join(bin, "norunbit"), 0o644)
	if err := os.Mkdir(filepath.Join(bin, "directory"), 0o755); err != nil { //nolint:gosec // as a directory of programs is
		t.Fatal(err)
	}
	var said strings.Builder
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			entries, findings := Load(file)
			if !hasProblem(findings) {
				findings = append(findings, Validate(entries, bin)...)
			}
			starts := true
			for _, f := range findings {
				starts = starts && !strings.Contains(f.Cause, "does not start")
				if f.Cause == "" || f.Next == "" || f.File == "" && len(entries) > 0 {
					t.Errorf("it does not say everything: %+v", f)
				}
			}
			if want := strings.HasPrefix(filepath.Base(file), "good-") || filepath.Base(file) == "good.yaml"; starts != want {
				t.Errorf("the kubelet starts: %t, want %t: %v", starts, want, findings)
			}
			for _, f := range findings {
				said.WriteString(strings.ReplaceAll(f.String(), bin, "BIN") + "\n")
			}
		})
	}
	golden.Compare(t, "testdata/findings.golden", said.String())
}

func put(t *testing.T, file string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), mode); err != nil {
		t.Fatal(err)
	}
}

// strict decodes with the types and the strictness of the kubelet.
func strict(t testing.TB) func(data []byte) (runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1.AddToScheme, configv1beta1.AddToScheme, configv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	return func(data []byte) (runtime.Object, error) {
		obj, _, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
		return obj, err
	}
}

// Whatever a file holds: if the kubelet's own decoder refuses it, so is it here.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/configs/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	decode := strict(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, findings := Decode("f", data)
		for _, finding := range append(findings, Validate(c.Providers, "")...) {
			if strings.ContainsAny(finding.String(), "\n\r") {
				t.Errorf("%q is more than one line", finding)
			}
		}
		obj, err := decode(data)
		if err != nil && !hasProblem(findings) {
			t.Errorf("the kubelet refuses it (%v), and here it has no problem: %+v", err, c)
		}
		got, ok := obj.(*configv1.CredentialProviderConfig)
		if err != nil || !ok || hasProblem(findings) {
			return
		}
		if len(got.Providers) != len(c.Providers) {
			t.Fatalf("%d providers, and the kubelet has %d", len(c.Providers), len(got.Providers))
		}
		for i, p := range got.Providers {
			e := c.Providers[i]
			if p.Name != e.Name || p.APIVersion != e.APIVersion || len(p.MatchImages) != len(e.MatchImages) || len(p.Args) != len(e.Args) || (p.TokenAttributes == nil) != (e.TokenAttributes == nil) {
				t.Errorf("%+v, and the kubelet has %+v", e, p)
			}
		}
	})
}

// A cache duration of the wrong type is there: nothing says that it is not set.
func TestWrongDurationIsSaidOnce(t *testing.T) {
	data, err := os.ReadFile("testdata/configs/bad-cachenumber.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, findings := Decode("f", data)
	if findings = append(findings, Validate(c.Providers, "")...); len(findings) != 1 {
		t.Errorf("%v", findings)
	}
}
