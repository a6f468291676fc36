package serving

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authpath "k8s.io/apiserver/pkg/authorization/path"
	authunion "k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// reviews is an API server that answers reviews, and remembers what it was asked.
type reviews struct {
	client kubernetes.Interface

	mu    sync.Mutex
	asked []string
	slips map[string]int // questions with these texts fail so often before they are answered
}

func newReviews(t *testing.T) *reviews {
	t.Helper()
	r := &reviews{slips: map[string]int{}}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	r.client = client
	return r
}

// take returns what was asked since the last time.
func (r *reviews) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

// slip reports whether this question is to fail now.
func (r *reviews) slip(question string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, question)
	if !strings.Contains(question, "slip") || r.slips[question] > 0 {
		return false
	}
	r.slips[question]++
	return true
}

// ServeHTTP implements http.Handler.
func (r *reviews) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var answer any
	question := ""
	switch {
	case strings.HasSuffix(req.URL.Path, "/tokenreviews"):
		review := &authenticationv1.TokenReview{}
		_ = json.NewDecoder(req.Body).Decode(review) // an empty one is answered as well
		question = "token " + review.Spec.Token
		review.Status = statusOf(review.Spec.Token)
		answer = review
	case strings.HasSuffix(req.URL.Path, "/subjectaccessreviews"):
		review := &authorizationv1.SubjectAccessReview{}
		_ = json.NewDecoder(req.Body).Decode(review) // as above
		spec, _ := json.Marshal(review.Spec)         // it was decoded
		question = string(spec)
		n := review.Spec.NonResourceAttributes
		review.Status.Allowed = n != nil && (strings.HasPrefix(n.Path, "/metrics") || n.Path == "/both") && n.Verb == "get"
		review.Status.Denied = n != nil && n.Path == "/both"
		answer = review
	}
	switch {
	case r.slip(question):
		w.WriteHeader(http.StatusInternalServerError)
		answer = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError}
	case strings.Contains(question, "away"):
		w.WriteHeader(http.StatusForbidden)
		answer = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
	case strings.Contains(question, "slow"):
		<-req.Context().Done()
		return
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
	}
	_ = json.NewEncoder(w).Encode(answer) // who left needs none
}

// statusOf is what the API server knows of a token.
func statusOf(token string) authenticationv1.TokenReviewStatus {
	u := authenticationv1.UserInfo{Username: token}
	switch {
	case strings.HasPrefix(token, "bad"):
		return authenticationv1.TokenReviewStatus{}
	case token == "expired":
		return authenticationv1.TokenReviewStatus{Error: "token has expired"}
	case token == "extra":
		u.UID, u.Groups = "1234", []string{"a b", "a", "system:authenticated"}
		u.Extra = map[string]authenticationv1.ExtraValue{"k": {"v", "w"}, "example.com/pod": {"p"}}
	case token == "masters":
		u.Groups = []string{"system:masters"}
	case token == "anonymous":
		u.Username, u.Groups = "system:anonymous", []string{"system:unauthenticated"}
	}
	status := authenticationv1.TokenReviewStatus{Authenticated: true, User: u}
	if token == "audience" {
		status.Audiences = []string{"https://kubernetes.default.svc"}
	}
	return status
}

// library is the same guard made of k8s.io/apiserver, as its delegated options have it.
func library(t *testing.T, api *reviews, ca, proxyCA []byte, timeout time.Duration, backoff wait.Backoff) http.Handler {
	t.Helper()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	clients, err := dynamiccertificates.NewStaticCAContent("clients", ca)
	fail(err)
	proxies, err := dynamiccertificates.NewStaticCAContent("proxies", proxyCA)
	fail(err)
	header := func(names ...string) headerrequest.StringSliceProvider { return headerrequest.StaticStringSlice(names) }
	proxy := &authenticatorfactory.RequestHeaderConfig{
		UsernameHeaders: header("X-Remote-User"), UIDHeaders: header("X-Remote-Uid"), GroupHeaders: header("X-Remote-Group"),
		ExtraHeaderPrefixes: header("X-Remote-Extra-"), CAContentProvider: proxies, AllowedClientNames: header("proxy"),
	}
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:               &apiserver.AnonymousAuthConfig{Enabled: true},
		TokenAccessReviewClient: api.client.AuthenticationV1(), TokenAccessReviewTimeout: timeout, WebhookRetryBackoff: &backoff,
		CacheTTL: 10 * time.Second, ClientCertificateCAContentProvider: clients, RequestHeaderConfig: proxy,
	}.New()
	fail(err)
	paths, err := authpath.NewAuthorizer([]string{"/healthz", "/open/*"})
	fail(err)
	delegated, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: api.client.AuthorizationV1(), AllowCacheTTL: 10 * time.Second, DenyCacheTTL: 10 * time.Second, WebhookRetryBackoff: &backoff,
	}.New()
	fail(err)
	codecs := serializer.NewCodecFactory(runtime.NewScheme())
	authz, err := authunion.New(
		authunion.NamedAuthorizer{AuthorizerName: "groups", Authorizer: authorizerfactory.NewPrivilegedGroups("system:masters")},
		authunion.NamedAuthorizer{AuthorizerName: "paths", Authorizer: paths},
		authunion.NamedAuthorizer{AuthorizerName: "reviews", Authorizer: delegated},
	)
	fail(err)
	h := filters.WithAuthorization(teapot(), authz, codecs)
	h = filters.WithAuthentication(h, authn, filters.Unauthorized(codecs), nil, proxy)
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("apis", "api"), GrouplessAPIPrefixes: sets.NewString("api")}
	return filters.WithRequestInfo(h, resolver)
}

func teapot() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
}

// attempt is one request.
type attempt struct {
	method, path string
	header       map[string]string
	chain        []*x509.Certificate
	http2        bool
}

// outcome is what it led to, twice in a row.
type outcome struct {
	Status [2]int
	Asked  [2][]string
	Close  bool
}

func (a attempt) send(t *testing.T, h http.Handler, api *reviews) outcome {
	t.Helper()
	var out outcome
	for i := range 2 {
		r := httptest.NewRequestWithContext(t.Context(), a.method, "https://x"+a.path, nil)
		for k, v := range a.header {
			r.Header.Set(k, v)
		}
		r.TLS = &tls.ConnectionState{PeerCertificates: a.chain}
		if a.http2 {
			r.ProtoMajor, r.ProtoMinor = 2, 0
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		out.Status[i], out.Asked[i], out.Close = w.Code, api.take(), w.Header().Get("Connection") == "close"
	}
	return out
}

// certificates are those of the attempts.
type certificates struct {
	ca, proxyCA []byte
	chains      map[string][]*x509.Certificate
}

func newCertificates(t *testing.T) certificates {
	t.Helper()
	ca, caKey := testCA(t, "ca")
	proxyCA, proxyKey := testCA(t, "proxies")
	stranger, strangerKey := testCA(t, "stranger")
	uid := func(value string) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: []int{1, 3, 6, 1, 4, 1, 57683, 2}, Value: value}
	}
	leaf := func(by *x509.Certificate, key *ecdsa.PrivateKey, change func(*x509.Certificate)) []*x509.Certificate {
		c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "root", Organization: []string{"admins", "g"}},
			NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if change != nil {
			change(c)
		}
		return []*x509.Certificate{signed(t, c, by, caKey, key)}
	}
	middleTemplate := &x509.Certificate{SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "middle"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	middle := signed(t, middleTemplate, ca, strangerKey, caKey)
	encode := func(c *x509.Certificate) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	return certificates{encode(ca), encode(proxyCA), map[string][]*x509.Certificate{
		"good": leaf(ca, caKey, nil), "through another": append(leaf(middle, strangerKey, nil), middle),
		"stranger": leaf(stranger, strangerKey, nil), "self-signed": {stranger},
		"expired":    leaf(ca, caKey, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"not yet":    leaf(ca, caKey, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }),
		"of servers": leaf(ca, caKey, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"nameless":   leaf(ca, caKey, func(c *x509.Certificate) { c.Subject.CommonName = "" }),
		"masters":    leaf(ca, caKey, func(c *x509.Certificate) { c.Subject.Organization = []string{"system:masters"} }),
		"uid":        leaf(ca, caKey, func(c *x509.Certificate) { c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{uid("4711")} }),
		"two uids":   leaf(ca, caKey, func(c *x509.Certificate) { c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{uid("1"), uid("2")} }),
		"empty uid":  leaf(ca, caKey, func(c *x509.Certificate) { c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{uid("")} }),
		"proxy":      leaf(proxyCA, proxyKey, func(c *x509.Certificate) { c.Subject.CommonName = "proxy" }),
	}}
}

// attempts are tokens, certificates, headers, paths and verbs.
func attempts(certs certificates) map[string]attempt {
	all := map[string]attempt{}
	bearer := func(value string) map[string]string { return map[string]string{"Authorization": value} }
	for _, value := range []string{
		"", "Bearer", "Bearer ", "Bearer  good", "Bearer good", "bearer good", "BEARER good", " Bearer good ", "Bearer good more", "Bearer\tgood", "Basic good",
		"Bearer bad", "Bearer expired", "Bearer extra", "Bearer masters", "Bearer anonymous", "Bearer audience", "Bearer slip", "Bearer away", "Bearer slow",
	} {
		all["token "+value] = attempt{method: "GET", path: "/metrics", header: bearer(value)}
	}
	for name, chain := range certs.chains {
		all["certificate "+name] = attempt{method: "GET", path: "/metrics", chain: chain}
		all["certificate "+name+" with a good token"] = attempt{method: "GET", path: "/metrics", chain: chain, header: bearer("Bearer extra")}
	}
	for _, path := range []string{"/", "/metrics", "/metrics/", "/metrics/a%2fb", "/metrics/%2e%2e/x", "/metrics?x=1", "//metrics", "/healthz", "/healthz/", "/open/", "/open", "/open/x/y", "/configz", "/both", "/metrics/slip", "/debug/away", "/api", "/apis/apps/v1"} {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			all[method+" "+path] = attempt{method: method, path: path, header: bearer("Bearer good")}
		}
	}
	all["open to strangers"] = attempt{method: "GET", path: "/healthz"}
	all["open to bad tokens"] = attempt{method: "GET", path: "/healthz", header: bearer("Bearer bad")}
	all["bad token by HTTP/2"] = attempt{method: "GET", path: "/metrics", header: bearer("Bearer bad"), http2: true}
	all["good token by HTTP/2"] = attempt{method: "GET", path: "/metrics", header: bearer("Bearer good"), http2: true}
	remote := map[string]string{"X-Remote-User": "root", "X-Remote-Group": "system:masters", "X-Remote-Extra-K": "v"}
	all["a user's name from nobody"] = attempt{method: "GET", path: "/metrics", header: remote}
	all["a user's name from a client"] = attempt{method: "GET", path: "/metrics", header: remote, chain: certs.chains["good"]}
	all["a user's name from the proxy"] = attempt{method: "GET", path: "/metrics", header: remote, chain: certs.chains["proxy"]}
	all["websocket"] = attempt{method: "GET", path: "/metrics", header: map[string]string{"Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.Z29vZA, x"}}
	all["an API"] = attempt{method: "GET", path: "/api/v1/pods", header: bearer("Bearer good")}
	return all
}

// The reasons why the guard does something else than the library.
const (
	nobody   = "who says nothing of himself may read nothing, and asks the API server nothing: the library asks about system:anonymous, and refuses with 403"
	openPath = "a path that is open to all takes no look at what the client says of itself"
	outage   = "500 says that it is not the client's fault, as the library does for permissions but not for tokens"
	both     = "allowed and denied at once is a refusal, and no error"
	noProxy  = "no front proxy sends clients here: its certificate is none of a client's"
	noSocket = "nothing here speaks WebSocket"
	noAPI    = "no API is served here: all paths are paths"
)

// differences are the attempts whose outcome is not the library's, and why.
func differences() map[string]string {
	all := map[string]string{
		"open to bad tokens": openPath, "token Bearer away": outage, "token Bearer slow": outage,
		"a user's name from nobody": nobody, "a user's name from the proxy": noProxy, "websocket": noSocket, "an API": noAPI, "GET /both": both,
	}
	for _, path := range []string{"/healthz", "/open/", "/open/x/y"} {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			all[method+" "+path] = openPath
		}
	}
	for _, value := range []string{"", "Bearer", "Bearer ", "Bearer  good", "Bearer\tgood", "Basic good"} {
		all["token "+value] = nobody
	}
	return all
}

// The guard does what k8s.io/apiserver's delegated authentication and authorization do: the same status, the
// same questions to the API server, nothing asked twice that the library remembers.
func TestGuardIsTheLibrarys(t *testing.T) {
	certs := newCertificates(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, certs.ca, 0o600); err != nil {
		t.Fatal(err)
	}
	const timeout = 3 * time.Second
	backoff := wait.Backoff{Duration: time.Millisecond, Factor: 1.5, Steps: 5}
	reasons := differences()
	for name, a := range attempts(certs) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine, theirs := newReviews(t), newReviews(t)
			g, err := newGuard(options.Auth{ClientCAFile: file, TokenTTL: 10 * time.Second, AllowTTL: 10 * time.Second, DenyTTL: 10 * time.Second, RequestTimeout: timeout,
				AlwaysAllowPaths: []string{"/healthz", "/open/*"}}, mine.client.AuthenticationV1().TokenReviews(), mine.client.AuthorizationV1().SubjectAccessReviews())
			if err != nil {
				t.Fatal(err)
			}
			g.backoff = backoff
			got := a.send(t, g.wrap(teapot()), mine)
			want := a.send(t, library(t, theirs, certs.ca, certs.proxyCA, timeout, backoff), theirs)
			diff := cmp.Diff(want, got)
			if reason, known := reasons[name]; known && diff == "" {
				t.Errorf("it is as the library's (%v), but listed as different: %s", got.Status, reason)
			} else if known && reason != openPath && got.Status[0] == http.StatusTeapot && want.Status[0] != http.StatusTeapot {
				t.Errorf("it passes here alone, the library answers %v: %s", want.Status, reason)
			} else if !known && diff != "" {
				t.Errorf("it differs from the library's (-library +guard):\n%s", diff)
			}
		})
	}
	if named := slices.Collect(func(yield func(string) bool) {
		for name := range reasons {
			if _, ok := attempts(certs)[name]; !ok && !yield(name) {
				return
			}
		}
	}); len(named) > 0 {
		t.Errorf("listed, but not tried: %v", named)
	}
}
