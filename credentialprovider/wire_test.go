package credentialprovider

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	internal "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubelet/pkg/apis/credentialprovider/install"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const v1 = "credentialprovider.kubelet.k8s.io/v1"

func request(version, image string) string {
	return fmt.Sprintf(`{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/%s","image":%q}`, version, image)
}

func TestReadRequest(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"empty":               {"", "no request on stdin"},
		"only space":          {" \n", "no request on stdin"},
		"no JSON":             {"hello s3cret", "no valid JSON (at byte 1)"},
		"cut":                 {`{"kind":"Cred`, "no valid JSON"},
		"cut after a field":   {`{"kind":"x"`, "no valid JSON"},
		"an array":            {`[1]`, "no JSON object"},
		"null":                {`null`, "no JSON object"},
		"two objects":         {request("v1", "a/b") + request("v1", "a/b"), "more after its JSON object"},
		"other kind":          {`{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"}`, `of kind "ExecCredential"; expected CredentialProviderRequest`},
		"no kind":             {`{"apiVersion":"` + v1 + `","image":"a/b"}`, `of kind ""`},
		"other version":       {request("v2", "a/b"), `apiVersion "credentialprovider.kubelet.k8s.io/v2"; known are credentialprovider.kubelet.k8s.io/v1, v1beta1, v1alpha1`},
		"other group":         {`{"kind":"CredentialProviderRequest","apiVersion":"v1","image":"a/b"}`, `apiVersion "v1"`},
		"no image":            {request("v1", ""), "names no image"},
		"image of wrong type": {`{"kind":"CredentialProviderRequest","apiVersion":"` + v1 + `","image":["s3cret"]}`, `"image" of the request on stdin has the wrong type`},
		"wrong case":          {strings.Replace(request("v1", "a/b"), "image", "Image", 1), "names no image"},
		"field twice":         {strings.Replace(request("v1", "a/b"), "{", `{"image":"c/d",`, 1), `field "image" twice`},
		"oversized":           {strings.Replace(request("v1", "a/b"), "a/b", strings.Repeat("a", maxRequest), 1), "longer than 1024 KiB"},
		"deeply nested":       {strings.Repeat("[", 1<<19), "no JSON object"},
		"nested in a field":   {`{"kind":` + strings.Repeat("[", 1<<19), "no valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadRequest(strings.NewReader(tt.in))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400) {
				t.Errorf("the error is not one short line without the request: %v", err)
			}
		})
	}
	got, err := ReadRequest(strings.NewReader(strings.Replace(request("v1", "a.b/c"), "{", `{"serviceAccountToken":"tok","serviceAccountAnnotations":{"k":"v"},`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	want := &Request{APIVersion: v1, Image: "a.b/c", ServiceAccountToken: cloudauth.NewSecret("tok"), ServiceAccountAnnotations: map[string]string{"k": "v"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// What a newer kubelet adds to a known version is left alone, and told.
func TestReadRequestIgnoresUnknownFields(t *testing.T) {
	in := strings.Replace(request("v1beta1", "a.b/c"), "{", `{"serviceAccountToken":"s3cret","podUID":{"a":[1]},"\u202eevil":1,`, 1)
	got, err := ReadRequest(strings.NewReader(in))
	want := &Request{APIVersion: strings.Replace(v1, "/v1", "/v1beta1", 1), Image: "a.b/c", Ignored: []string{"podUID", "serviceAccountToken", "evil"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, request (-want +got):\n%s", err, diff)
	}
	if _, err := ReadRequest(strings.NewReader(strings.Replace(in, `"podUID"`, `"image"`, 1))); err == nil || !strings.Contains(err.Error(), `field "image" twice`) {
		t.Errorf("a known one twice: %v", err)
	}
}

// The kubelet's own types and its strict codec read the responses of all versions.
func TestResponsesAsTheKubeletReadsThem(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	ten := 10 * time.Minute
	zero := time.Duration(0)
	for _, version := range apiVersions() {
		for name, tt := range map[string]struct {
			image  string
			answer Credentials
			key    string
			cache  internal.PluginCacheKeyType
		}{
			"registry":   {"r.example:5000/team/app", Credentials{Username: "u<&>", Password: cloudauth.NewSecret("p\"")}, "r.example:5000", internal.RegistryPluginCacheKeyType},
			"image only": {"r.example:5000/team/app", Credentials{Username: "u", Password: cloudauth.NewSecret("p"), ImageOnly: true, CacheDuration: &ten}, "r.example:5000/team/app", internal.ImagePluginCacheKeyType},
			"no cache":   {"R.example:5000/team/app:v1", Credentials{Username: "u", Password: cloudauth.NewSecret("p"), CacheDuration: &zero}, "R.example:5000", internal.RegistryPluginCacheKeyType},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				req, err := ReadRequest(strings.NewReader(request(version, tt.image)))
				if err != nil {
					t.Fatal(err)
				}
				response, err := of(&fixed{registries: []string{"r.example:5000"}, answer: tt.answer}).Answer(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				if err := response.Write(&out); err != nil {
					t.Fatal(err)
				}
				obj, gvk, err := codecs.UniversalDecoder().Decode(out.Bytes(), nil, nil)
				if err != nil {
					t.Fatalf("the kubelet cannot read %s: %v", out.String(), err)
				}
				if want := (schema.GroupVersionKind{Group: internal.GroupName, Version: version, Kind: "CredentialProviderResponse"}); *gvk != want {
					t.Errorf("it is a %s, want %s", gvk, want)
				}
				got := obj.(*internal.CredentialProviderResponse)
				want := map[string]internal.AuthConfig{tt.key: {Username: tt.answer.Username, Password: tt.answer.Password.Reveal()}}
				if diff := cmp.Diff(want, got.Auth); diff != "" {
					t.Errorf("auth (-want +got):\n%s", diff)
				}
				if got.CacheKeyType != tt.cache {
					t.Errorf("cacheKeyType %s, want %s", got.CacheKeyType, tt.cache)
				}
				switch {
				case (got.CacheDuration == nil) != (tt.answer.CacheDuration == nil):
					t.Errorf("cacheDuration %v, want %v", got.CacheDuration, tt.answer.CacheDuration)
				case got.CacheDuration != nil && got.CacheDuration.Duration != *tt.answer.CacheDuration:
					t.Errorf("cacheDuration %v, want %v", got.CacheDuration.Duration, *tt.answer.CacheDuration)
				}
			})
		}
	}
}

// FuzzRequest checks that nothing panics and that what is accepted, the kubelet's own codec accepts as well,
// with the same meaning.
func FuzzRequest(f *testing.F) {
	for _, v := range apiVersions() {
		f.Add([]byte(request(v, "r.example:5000/a/b")))
	}
	f.Add([]byte(strings.Replace(request("v1", "a/b"), "{", `{"serviceAccountToken":"t","serviceAccountAnnotations":{"a":"b"},`, 1)))
	f.Add([]byte(strings.Replace(request("v1", "a/b"), "{", `{"podUID":1,"Image":"c/d",`, 1)))
	f.Add([]byte(`{"kind":null,"apiVersion":1}`))
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ReadRequest(bytes.NewReader(data))
		if err != nil {
			return
		}
		obj, _, err := codecs.UniversalDecoder().Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("accepted, but the kubelet's codec refuses: %v", err)
		}
		want := obj.(*internal.CredentialProviderRequest)
		if want.Image != got.Image || want.ServiceAccountToken != got.ServiceAccountToken.Reveal() {
			t.Errorf("read %+v, want %+v", got, want)
		}
	})
}
