package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

const account, other = "111122223333", "444455556666"

// world is a simulated AWS and an environment that speaks to it and holds no credentials.
type world struct {
	*awssim.Sim
	dir      string
	user     awssim.Keys
	instance string // ARN of the instance's role
	target   string // ARN of a role of another account
	pod      string // ARN of a role for a service account
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sim, err := awssim.Start(awssim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &world{Sim: sim, dir: t.TempDir()}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", w.write(t, ".aws/credentials", ""))
	t.Setenv("AWS_CONFIG_FILE", w.write(t, ".aws/config", ""))
	t.Setenv("AWS_ENDPOINT_URL", sim.URL())
	t.Setenv("AWS_ENDPOINT_URL_STS", sim.URL())
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", sim.URL())
	t.Setenv("AWS_REGION", "eu-central-1")
	w.user = sim.AddUser(awssim.Principal{Account: account, Name: "node", Actions: []string{"sts:*"}})
	w.instance = sim.AddRole(awssim.Principal{Account: account, Name: "instance", Actions: []string{"sts:*"}})
	w.pod = sim.AddRole(awssim.Principal{Account: account, Name: "pod", Trust: awssim.Trust{Subjects: []string{"system:serviceaccount:team:app"}}})
	w.target = sim.AddRole(awssim.Principal{Account: other, Name: "target", Trust: awssim.Trust{
		Principals: []string{w.instance, "arn:aws:iam::" + account + ":user/node"}, ExternalID: "s3cret-id",
		SourceARN: "arn:aws:eks:eu-central-1:" + account + ":cluster/c", SourceAccount: account,
	}})
	return w
}

func (w *world) write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (w *world) token(t *testing.T, name string) string {
	t.Helper()
	token, err := w.ServiceAccountToken(awssim.TokenClaims{Namespace: "team", Name: name, Audience: []string{awssim.Audience}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (w *world) static() string {
	return fmt.Sprintf("aws_access_key_id = %s\naws_secret_access_key = %s\n", w.user.AccessKeyID, w.user.SecretAccessKey)
}

func (w *world) setUser(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", w.user.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", w.user.SecretAccessKey)
}

// targetRole is the role of the other account with all that its trust policy wants.
func (w *world) targetRole() *Role {
	return &Role{ARN: w.target, ExternalID: "s3cret-id", SourceARN: "arn:aws:eks:eu-central-1:" + account + ":cluster/c"}
}

const (
	userARN     = "arn:aws:iam::" + account + ":user/node"
	instanceARN = "arn:aws:sts::" + account + ":assumed-role/instance/i-0123456789abcdef0"
	targetARN   = "arn:aws:sts::" + other + ":assumed-role/target/isthmus"
)

func TestSources(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(*testing.T, *world) Config
		want    string
	}{
		"environment": {func(t *testing.T, w *world) Config { w.setUser(t); return Config{} }, userARN},
		"default profile": {func(t *testing.T, w *world) Config {
			w.write(t, ".aws/credentials", "[default]\n"+w.static())
			return Config{}
		}, userARN},
		"named profile": {func(t *testing.T, w *world) Config {
			w.write(t, ".aws/config", "[profile node]\n"+w.static())
			return Config{Profile: "node"}
		}, userARN},
		"profile that assumes a role": {func(t *testing.T, w *world) Config {
			open := w.AddRole(awssim.Principal{Account: other, Name: "open", Trust: awssim.Trust{Principals: []string{userARN}}})
			w.write(t, ".aws/config", "[profile base]\n"+w.static()+"[profile node]\nrole_arn = "+open+"\nsource_profile = base\nrole_session_name = s-name\n")
			t.Setenv("AWS_PROFILE", "node")
			return Config{}
		}, "arn:aws:sts::" + other + ":assumed-role/open/s-name"},
		"web identity of the environment": {func(t *testing.T, w *world) Config {
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", w.write(t, "token", w.token(t, "app")))
			t.Setenv("AWS_ROLE_ARN", w.pod)
			t.Setenv("AWS_ROLE_SESSION_NAME", "irsa")
			return Config{}
		}, "arn:aws:sts::" + account + ":assumed-role/pod/irsa"},
		"container endpoint with a token file": {func(t *testing.T, w *world) Config {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", w.SetContainer(w.instance, "pod-identity-token"))
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", w.write(t, "eks-token", "pod-identity-token"))
			return Config{}
		}, "arn:aws:sts::" + account + ":assumed-role/instance/container"},
		"instance": {func(_ *testing.T, w *world) Config { w.SetInstanceRole(w.instance); return Config{} }, instanceARN},
		"role assumed by the instance": {func(_ *testing.T, w *world) Config {
			w.SetInstanceRole(w.instance)
			return Config{Role: w.targetRole()}
		}, targetARN},
		"role assumed for another account than the source's": {func(t *testing.T, w *world) Config {
			w.setUser(t)
			return Config{Role: &Role{SourceAccount: other, SourceARN: w.targetRole().SourceARN, ARN: w.AddRole(awssim.Principal{Account: other, Name: "target",
				Trust: awssim.Trust{Principals: []string{userARN}, SourceAccount: other, SourceARN: w.targetRole().SourceARN}})}}
		}, targetARN},
		"role assumed by the environment": {func(t *testing.T, w *world) Config { w.setUser(t); return Config{Role: w.targetRole()} }, targetARN},
		"web identity that is given, before all others": {func(t *testing.T, w *world) Config {
			w.setUser(t)
			w.SetInstanceRole(w.instance)
			return Config{WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(w.token(t, "app")), RoleARN: w.pod, SessionName: "team/app: ü"}}
		}, "arn:aws:sts::" + account + ":assumed-role/pod/team.app."},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s, err := New(t.Context(), tt.prepare(t, w), Options{Program: "test", Version: "v1"})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(w.Requests()); n != 0 {
				t.Errorf("New made %d requests", n)
			}
			got, err := s.Check(t.Context())
			if err != nil || got != tt.want {
				t.Errorf("it is %q, %v, want %q", got, err, tt.want)
			}
			before := len(w.Requests())
			if _, err := s.Check(t.Context()); err != nil || len(w.Requests()) != before+1 {
				t.Errorf("the second call made %d requests, %v, want one: credentials are kept", len(w.Requests())-before, err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(*testing.T, *world) Config
		reason  cloudauth.Reason
		want    string
	}{
		"no source":       {func(*testing.T, *world) Config { return Config{} }, cloudauth.NoCredentials, "the instance metadata service (IMDSv2) gives no role: it answers 404; no AWS credentials are in the environment, the AWS config files and a container endpoint either; attach an instance profile"},
		"metadata is off": {func(t *testing.T, _ *world) Config { t.Setenv("AWS_EC2_METADATA_DISABLED", "true"); return Config{} }, cloudauth.NoCredentials, "turned off (AWS_EC2_METADATA_DISABLED)"},
		"unknown key": {func(t *testing.T, w *world) Config {
			w.setUser(t)
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIANOBODY")
			return Config{}
		}, cloudauth.Rejected, "AWS STS (GetCallerIdentity) refuses the credentials of"},
		"wrong secret": {func(t *testing.T, w *world) Config {
			w.setUser(t)
			t.Setenv("AWS_SECRET_ACCESS_KEY", "wr0ng-s3cret")
			return Config{}
		}, cloudauth.Rejected, "the secret access key is wrong"},
		"expired": {func(t *testing.T, w *world) Config {
			w.setUser(t)
			w.Expire(w.user.AccessKeyID)
			return Config{}
		}, cloudauth.Rejected, "they have expired; renew them"},
		"profile": {func(*testing.T, *world) Config { return Config{Profile: "nobody"} }, cloudauth.Misconfigured, `no profile "nobody"; correct the profile`},
		"role without the external id": {func(t *testing.T, w *world) Config {
			w.setUser(t)
			r := w.targetRole()
			r.ExternalID = ""
			return Config{Role: r}
		}, cloudauth.Rejected, "AWS STS (AssumeRole) refuses role arn:aws:iam::444455556666:role/target (AccessDenied: User: arn:aws:iam::111122223333:user/node is not authorized"},
		"role without the source": {func(t *testing.T, w *world) Config {
			w.setUser(t)
			r := w.targetRole()
			r.SourceARN = ""
			return Config{Role: r}
		}, cloudauth.Rejected, "external id and source account included"},
		"web identity of another subject": {func(t *testing.T, w *world) Config {
			return Config{WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(w.token(t, "evil")), RoleARN: w.pod}}
		}, cloudauth.Rejected, "let the role's trust policy allow sts:AssumeRoleWithWebIdentity"},
		"web identity that is forged": {func(t *testing.T, w *world) Config {
			token := w.token(t, "app")
			return Config{WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(token[:len(token)-4] + "AAAA"), RoleARN: w.pod}}
		}, cloudauth.Rejected, "InvalidIdentityToken: Couldn't verify signature"},
		"no token file": {func(t *testing.T, w *world) Config {
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token")
			t.Setenv("AWS_ROLE_ARN", w.pod)
			w.SetInstanceRole(w.instance) // must not be fallen back to
			return Config{}
		}, cloudauth.Failed, "/nowhere/token"},
		"container endpoint refuses": {func(t *testing.T, w *world) Config {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", w.SetContainer(w.instance, "right"))
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "wr0ng-s3cret")
			w.SetInstanceRole(w.instance)
			return Config{}
		}, cloudauth.Rejected, "AccessDeniedException: Unauthorized Exception!"},
		"bad role":   {func(*testing.T, *world) Config { return Config{Role: &Role{ARN: "admin", SourceARN: "x"}} }, cloudauth.Misconfigured, `roleARN: "admin" is no ARN of an IAM role`},
		"bad region": {func(*testing.T, *world) Config { return Config{Region: "evil.example"} }, cloudauth.Misconfigured, `"evil.example" is no AWS region`},
		"files that contradict": {func(t *testing.T, w *world) Config {
			w.write(t, ".aws/config", "[default]\nrole_arn = "+w.target+"\nsource_profile = s-nobody\n")
			return Config{}
		}, cloudauth.Misconfigured, `no profile "s-nobody"; correct the profile`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			err := check(t, tt.prepare(t, w))
			var own *cloudauth.Error
			if !errors.As(err, &own) || own.Reason != tt.reason || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), w.user.SecretAccessKey) || strings.ContainsAny(err.Error(), "\r\n") || len(err.Error()) > 700) {
				t.Errorf("the error is no short line without secrets: %v", err)
			}
		})
	}
}

func check(t *testing.T, cfg Config) error {
	t.Helper()
	s, err := New(t.Context(), cfg, Options{})
	if err != nil {
		return err
	}
	_, err = s.Check(t.Context())
	return err
}

// What AWS says of a wrong signature repeats the request with its session token.
func TestDefectSessionTokenInSignatureError(t *testing.T) {
	w := newWorld(t)
	w.SetInstanceRole(w.instance)
	leak := "The Canonical String for this request should have been 'POST\n\nx-amz-security-token:IQoJb3JpZ2luX2VjE-s3cret'"
	w.AddFault(awssim.Fault{Service: "sts", Status: http.StatusForbidden, Code: "SignatureDoesNotMatch", Message: "The request signature does not match. " + leak})
	err := check(t, Config{})
	if err == nil || strings.Contains(err.Error(), "IQoJ") || !strings.Contains(err.Error(), "SignatureDoesNotMatch: The request signature does not match") {
		t.Errorf("got %v", err)
	}
}

// Nor does an error show the session token of what is in use, whoever repeats it.
func TestDefectSessionTokenInError(t *testing.T) {
	w := newWorld(t)
	w.SetInstanceRole(w.instance)
	s, err := New(t.Context(), Config{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.AWS().Credentials.Retrieve(t.Context())
	if err != nil || c.SessionToken == "" {
		t.Fatalf("no session token: %v", err)
	}
	for _, secret := range []string{c.SessionToken, c.SecretAccessKey} {
		remove := w.AddFault(awssim.Fault{Service: "sts", Status: http.StatusForbidden, Code: "AccessDenied", Message: "with " + secret})
		if _, err := s.Check(t.Context()); err == nil || strings.Contains(err.Error(), secret[:20]) || !strings.Contains(err.Error(), "with [redacted]") {
			t.Errorf("got %v", err)
		}
		remove()
	}
}

// Every request of the SDK has an end.
func TestRequestTimeout(t *testing.T) {
	newWorld(t)
	for given, want := range map[time.Duration]time.Duration{0: defaultRequestTimeout, 7 * time.Second: 7 * time.Second} {
		s, err := New(t.Context(), Config{}, Options{RequestTimeout: given})
		if err != nil {
			t.Fatal(err)
		}
		client, ok := s.AWS().HTTPClient.(*awshttp.BuildableClient)
		if !ok || client.GetTimeout() != want {
			t.Errorf("%s: requests may take %s", given, client.GetTimeout())
		}
	}
}

// The innermost cause comes first, so that it is not what is cut.
func TestCauseFirst(t *testing.T) {
	cause := errors.New("FIPS and custom endpoint are not supported")
	long := fmt.Errorf("%s: %w", strings.Repeat("operation error ", 30), cause)
	if got := (&Session{seen: &seen{}}).Explain(long).Error(); !strings.HasPrefix(got, "AWS: FIPS and custom endpoint are not supported (operation error ") || !strings.Contains(got, "…; check") {
		t.Errorf("got %s", got)
	}
	if got := (&Session{seen: &seen{}}).Explain(cause).Error(); !strings.HasPrefix(got, "AWS: FIPS and custom endpoint are not supported; check") {
		t.Errorf("got %s", got)
	}
}

// IMDSv1 answers whoever can make this program send a GET request, so it is not used even where
// version 2 is refused.
func TestDefectFallbackToIMDSv1(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed} {
		w := newWorld(t)
		w.SetInstanceRole(w.instance)
		w.AddFault(awssim.Fault{Service: "imds", Action: "/latest/api/token", Status: status})
		if err := check(t, Config{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the instance metadata service (IMDSv2) gives no role: it answers %d; no AWS", status)) {
			t.Errorf("%d: got %v", status, err)
		}
		for _, r := range w.Requests() {
			if r.Action != "/latest/api/token" {
				t.Errorf("%d: it goes on without a token: %+v", status, r)
			}
		}
	}
}

// The authorization token goes to the container endpoint alone, and only to one that can be it.
func TestDefectForeignContainerEndpoint(t *testing.T) {
	w := newWorld(t)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/v1/credentials")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "s3cret")
	if err := check(t, Config{}); err == nil || !strings.Contains(err.Error(), "only loopback/ecs/eks hosts are allowed") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
	if n := len(w.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestDefectTokenSentUnencrypted(t *testing.T) {
	w := newWorld(t)
	t.Setenv("AWS_ENDPOINT_URL_STS", "http://sts.example.test")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", w.write(t, "token", w.token(t, "app")))
	t.Setenv("AWS_ROLE_ARN", w.pod)
	for _, cfg := range []Config{{}, {WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(w.token(t, "app")), RoleARN: w.pod}}} {
		if err := check(t, cfg); err == nil || !strings.Contains(err.Error(), "credentials are not sent unencrypted to sts.example.test; use https://") {
			t.Errorf("got %v", err)
		}
	}
}

// Neither the metadata service nor the container endpoint is spoken to through a proxy.
func TestDefectMetadataThroughProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.example:3128")
	client, ok := withoutProxy(newHTTPClient(Options{})).(*awshttp.BuildableClient)
	if !ok {
		t.Fatal("the client is another one")
	}
	for _, address := range []string{"http://169.254.169.254/", "https://pod-identity.example/"} {
		r := httptest.NewRequest(http.MethodGet, address, nil)
		if proxy, err := client.GetTransport().Proxy(r); proxy != nil || err != nil {
			t.Errorf("%s: through %v, %v", address, proxy, err)
		}
	}
}

// Credentials that change in the shared config files are taken over; while they are unusable,
// the ones of before go on.
func TestRotation(t *testing.T) {
	w := newWorld(t)
	w.write(t, ".aws/credentials", "[default]\n"+w.static())
	now := time.Now()
	s, err := New(t.Context(), Config{}, Options{now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if got, err := s.Check(t.Context()); err != nil || got != want {
			t.Errorf("it is %q, %v, want %q", got, err, want)
		}
		now = now.Add(5 * time.Second)
	}
	expect(userARN)
	w.SetInstanceRole(w.instance) // must not be fallen back to
	w.write(t, ".aws/credentials", "[default\nhalf written")
	expect(userARN)
	w.user = w.AddUser(awssim.Principal{Account: other, Name: "second"})
	w.write(t, ".aws/credentials", "[default]\n"+w.static())
	expect("arn:aws:iam::" + other + ":user/second")
	if who := s.Who(); !strings.Contains(who, "SharedConfigCredentials") || !strings.Contains(who, w.user.AccessKeyID) {
		t.Errorf("it is said to be %q", who)
	}
}

// A hundred callers of an STS that hangs wait together, for as long as one request; with credentials that are still good
// they do not wait at all.
func TestHundredCallersOfAHangingServer(t *testing.T) {
	w := newWorld(t)
	w.setUser(t)
	var offset atomic.Int64
	var observed atomic.Int32
	s, err := New(t.Context(), Config{Role: w.targetRole()}, Options{
		RequestTimeout: 300 * time.Millisecond, now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
		Observe: func(time.Duration, time.Time, error) { observed.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	hundred := func(want bool) {
		t.Helper()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if c, err := s.Credentials().Retrieve(t.Context()); (err == nil) != want || want && c.SessionToken == "" {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
	}
	remove := w.AddFault(awssim.Fault{Service: "sts", Hang: true})
	hundred(false)
	if n := len(w.Requests()); n > 2 { // who comes after the first failure asks once more
		t.Errorf("%d requests: they wait one after the other", n)
	}
	remove()
	offset.Add(int64(time.Minute))
	if _, err := s.Credentials().Retrieve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := observed.Load(); n < 3 {
		t.Errorf("%d requests for credentials observed", n)
	}
	w.AddFault(awssim.Fault{Service: "sts", Hang: true})
	offset.Add(int64(55 * time.Minute)) // of the hour
	w.ResetRequests()
	hundred(true)
	eventually.True(t, "new ones are asked for", func() bool { return len(w.Requests()) > 0 })
	if n := len(w.Requests()); n != 1 {
		t.Errorf("%d requests for credentials that are still good", n)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	offset.Add(int64(time.Hour))
	if _, err := s.Credentials().Retrieve(gone); err == nil || !strings.Contains(s.Explain(err).Error(), "the source of the AWS credentials: context canceled") {
		t.Errorf("who leaves: %v", err)
	}
}

// What the instance has is replaced before its end, as what is assumed is.
func TestInstanceCredentialsAreReplacedBeforeTheirEnd(t *testing.T) {
	w := newWorld(t)
	w.SetInstanceRole(w.instance)
	s, err := New(t.Context(), Config{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Credentials().Retrieve(t.Context())
	if left := time.Until(c.Expires); err != nil || left < 55*time.Minute || left > time.Hour {
		t.Errorf("they live for %s, %v", left, err)
	}
	again, err := s.Credentials().Retrieve(t.Context())
	if err != nil || again.AccessKeyID != c.AccessKeyID {
		t.Errorf("they are not kept: %v", err)
	}
}

func TestFaults(t *testing.T) {
	html := "<html>s3cret</html>"
	for name, tt := range map[string]struct {
		fault  awssim.Fault
		reason cloudauth.Reason
		want   string
	}{
		"throttled":   {awssim.Fault{Service: "sts", Status: 400, Code: "Throttling", Message: "Rate exceeded"}, cloudauth.Throttled, "AWS STS (GetCallerIdentity) asks to slow down (Throttling: Rate exceeded); it is asked again later"},
		"broken":      {awssim.Fault{Service: "sts", Status: 503, Code: "ServiceUnavailable"}, cloudauth.Failed, "does not work (503 ServiceUnavailable"},
		"no XML":      {awssim.Fault{Service: "sts", Status: 500, Code: "x", Body: &html}, cloudauth.Failed, ""},
		"cut":         {awssim.Fault{Service: "sts", Reset: true}, cloudauth.Unreachable, "cannot be reached"},
		"hangs":       {awssim.Fault{Service: "sts", Hang: true}, cloudauth.Unreachable, "does not answer in time"},
		"once broken": {awssim.Fault{Service: "sts", Times: 1, Status: 503, Code: "ServiceUnavailable"}, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setUser(t)
			w.AddFault(tt.fault)
			timeout := time.Minute
			if tt.fault.Hang {
				timeout = 300 * time.Millisecond
			}
			s, err := New(t.Context(), Config{}, Options{RequestTimeout: timeout, maxBackoff: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Check(t.Context())
			if tt.reason == -1 {
				if err != nil {
					t.Errorf("it does not try again: %v", err)
				}
				return
			}
			var own *cloudauth.Error
			if !errors.As(err, &own) || own.Reason != tt.reason || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestSessionName(t *testing.T) {
	for in, want := range map[string]string{"": "isthmus", "a": "isthmus", "team.app": "team.app", "a b/c": "a.b.c", strings.Repeat("x", 100): strings.Repeat("x", 64)} {
		if got := sessionName(in); got != want {
			t.Errorf("sessionName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, good := range []string{"arn:aws:iam::111122223333:role/a", "arn:aws-cn:iam::111122223333:role/path/to/a+=,.@_-b", "arn:aws-iso-b:iam::111122223333:role/x"} {
		if err := CheckRoleARN(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "a", "arn:aws:iam::111122223333:user/a", "arn:aws:iam::11112222333:role/a", "arn:aws:iam:x:111122223333:role/a", "arn:aws:sts::111122223333:role/a",
		"arn:evil:iam::111122223333:role/a", "arn:aws:iam::111122223333:role/a b", "arn:aws:iam::111122223333:role/a\r\nHost: x", "arn:aws:iam::111122223333:role/ü"} {
		if CheckRoleARN(bad) == nil {
			t.Errorf("%q is taken for a role", bad)
		}
	}
	for _, good := range []string{"us-east-1", "us-gov-west-1", "eusc-de-east-1", "us-isob-east-1", "ap-southeast-10"} {
		if err := CheckRegion(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "us-east", "us-east-1.evil.example", "us-east-1/x", "us--1", "US-EAST-1", "us-east-1-", "a@b-c-1"} {
		if CheckRegion(bad) == nil {
			t.Errorf("%q is taken for a region", bad)
		}
	}
}

func TestMetadataNeedsNoCredentials(t *testing.T) {
	w := newWorld(t)
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://192.0.2.1:1")
	s, err := New(t.Context(), Config{}, Options{Program: "test", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Metadata(w.URL()).GetInstanceIdentityDocument(t.Context(), &imds.GetInstanceIdentityDocumentInput{})
	if err != nil || got.Region != "us-east-1" || got.InstanceID != "i-0123456789abcdef0" {
		t.Errorf("%+v, %v", got, err)
	}
}
