package kubelet

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubelet/pkg/apis/credentialprovider/install"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const answer = `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","cacheDuration":"5m0s","auth":{"r.example":{"username":"u","password":"s3cret-password"}}}`

// An answer is taken exactly if the kubelet's own types and strictness take it.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		answer, `{}`, `null`, `[]`, `"`, strings.Replace(answer, "5m0s", "soon", 1), strings.Replace(answer, `"5m0s"`, "300", 1), strings.Replace(answer, `"5m0s"`, "null", 1),
		strings.Replace(answer, "Registry", "Pod", 1), strings.Replace(answer, `"auth":`, `"auth":null,"Auth":`, 1), strings.Replace(answer, `"kind"`, `"kind":"x","kind"`, 1),
		strings.Replace(answer, "/v1", "/v1beta1", 1), strings.Replace(answer, `"username"`, `"email":"e","username"`, 1), answer + answer, " \n" + answer + "\n", strings.Replace(answer, `{"username":"u","password":"s3cret-password"}`, "null", 1),
		strings.Replace(answer, `"u"`, `1`, 1), strings.Replace(answer, "5m0s", "-5m", 1),
	} {
		f.Add([]byte(s))
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
	f.Fuzz(func(t *testing.T, data []byte) {
		e := Entry{APIVersion: ProviderGroup + "/v1", CacheDuration: "10m"}
		got, err := Runner{}.decode(e, data)
		if err != nil && (strings.Contains(err.Error(), "s3cret-password") || strings.ContainsAny(err.Error(), "\n\r")) {
			t.Errorf("%q", err)
		}
		gvk, metaErr := json.DefaultMetaFactory.Interpret(data)
		obj, _, kubeletErr := decoder.Decode(data, nil, nil)
		response, ok := obj.(*credentialprovider.CredentialProviderResponse)
		takes := metaErr == nil && kubeletErr == nil && ok && gvk.GroupVersion().String() == e.APIVersion &&
			(response.CacheKeyType == "Image" || response.CacheKeyType == "Registry" || response.CacheKeyType == "Global")
		if takes && err != nil && !strings.Contains(err.Error(), "cacheDuration") {
			t.Errorf("the kubelet takes %s, but: %v", data, err)
		}
		if !takes && err == nil {
			t.Errorf("the kubelet does not take %s (%v, %v), and here it is %+v", data, metaErr, kubeletErr, got)
		}
		if err == nil && len(got.Logins) != len(response.Auth) {
			t.Errorf("%d logins, and the kubelet has %d", len(got.Logins), len(response.Auth))
		}
	})
}

// What the kubelet gives a provider, and what it does not even run.
func TestRequest(t *testing.T) {
	yes, no := true, false
	token := cloudauth.NewSecret("s3cret-token")
	all := map[string]string{"a": "1", "b": "2", "c": "3"}
	for name, tt := range map[string]struct {
		runner Runner
		tokens *TokenAttributes
		want   string // part of the request
		not    string // not part of it
		skip   string // why it is not run
	}{
		"node":                {Runner{Token: token, Annotations: all}, nil, `"image":"r.example/a"`, "serviceAccount", ""},
		"pod":                 {Runner{Token: token, Annotations: all}, &TokenAttributes{Require: &yes, RequiredAnnotations: []string{"a"}, OptionalAnnotations: []string{"b", "x"}}, `"serviceAccountAnnotations":{"a":"1","b":"2"},"serviceAccountToken":"s3cret-token"`, `"c"`, ""},
		"missing annotation":  {Runner{Token: token}, &TokenAttributes{Require: &yes, RequiredAnnotations: []string{"a"}}, "", "", "no annotation a, which requiredServiceAccountAnnotationKeys lists"},
		"static pod":          {Runner{}, &TokenAttributes{Require: &yes}, "", "", "it needs the token of a service account"},
		"static pod, allowed": {Runner{}, &TokenAttributes{Require: &no}, `"image":"r.example/a"`, "serviceAccount", ""},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := tt.runner.request(Entry{APIVersion: ProviderGroup + "/v1", TokenAttributes: tt.tokens}, "r.example/a")
			if tt.skip != "" {
				if err == nil || !strings.Contains(err.Error(), tt.skip) {
					t.Errorf("%v, want %q", err, tt.skip)
				}
				return
			}
			if err != nil || !strings.Contains(string(data), tt.want) || tt.not != "" && strings.Contains(string(data), tt.not) {
				t.Errorf("%s, %v", data, err)
			}
		})
	}
}

// A token that comes back as a password is taken only where answers are kept by the token.
func TestDefectEchoedToken(t *testing.T) {
	r := Runner{Token: cloudauth.NewSecret("s3cret-password")}
	for cacheType, good := range map[string]bool{CacheToken: true, CacheServiceAccount: false} {
		e := Entry{APIVersion: ProviderGroup + "/v1", TokenAttributes: &TokenAttributes{CacheType: cacheType}}
		got, err := r.decode(e, []byte(answer))
		if (err == nil) != good || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", cacheType, err)
		}
		if got.Cache != 5*time.Minute || got.Default {
			t.Errorf("%+v", got)
		}
	}
}
