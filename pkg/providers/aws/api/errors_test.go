package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

// codes has a row for each code that is mapped.
var codes = map[cloud.Kind][]string{
	cloud.KindNotFound: {"InvalidInstanceID.NotFound", "InvalidVolume.NotFound", "InvalidGroup.NotFound", "InvalidNetworkInterfaceID.NotFound",
		"InvalidPermission.NotFound", "InvalidRoute.NotFound", "InvalidRouteTableID.NotFound", "InvalidSubnetID.NotFound", "InvalidVpcID.NotFound",
		"ListenerNotFound", "LoadBalancerNotFound", "PolicyNotFound", "TargetGroupNotFound"},
	cloud.KindThrottled: {"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"TooManyRequestsException", "EC2ThrottledException", "BandwidthLimitExceeded", "PriorRequestNotComplete", "SlowDown"},
	cloud.KindDenied: {"UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException", "Blocked", "ExpiredToken", "ExpiredTokenException",
		"IncompleteSignature", "InvalidClientTokenId", "InvalidSignatureException", "MissingAuthenticationToken", "NotAuthorized", "OptInRequired",
		"PendingVerification", "RequestExpired", "SignatureDoesNotMatch", "UnrecognizedClientException"},
	cloud.KindUnsupported: {"UnsupportedOperation", "Unsupported", "InvalidAction", "UnknownParameter"},
	cloud.KindInvalid: {"InvalidInstanceID.Malformed", "InvalidVolumeID.Malformed", "InvalidID", "InvalidFilter", "FilterLimitExceeded", "InvalidParameter",
		"InvalidParameterCombination", "InvalidParameterValue", "MalformedQueryString", "MissingParameter", "ValidationError",
		"AllocationIdNotFound", "CertificateNotFound", "DuplicateTagKeys", "IncompatibleProtocols", "InvalidConfigurationRequest", "InvalidLoadBalancerAction",
		"InvalidScheme", "InvalidSecurityGroup", "InvalidSubnet", "SSLPolicyNotFound", "SubnetNotFound", "UnsupportedProtocol"},
	cloud.KindConflict: {"DependencyViolation", "InvalidGroup.InUse", "InvalidIPAddress.InUse", "InvalidNetworkInterface.InUse", "Resource.AlreadyAssociated", "OperationNotPermitted",
		"TargetGroupAssociationLimit"},
	cloud.KindStale: {"IncorrectState", "IncorrectInstanceState", "InvalidGroup.Duplicate", "InvalidPermission.Duplicate", "RouteAlreadyExists", "InvalidNextToken",
		"InvalidPaginationToken", "ConcurrentTagAccess", "DuplicateListener", "DuplicatePolicyName", "InvalidInstance", "DuplicateLoadBalancerName", "DuplicateTargetGroupName", "InvalidTarget", "ResourceInUse"},
	cloud.KindQuota: {"AddressLimitExceeded", "InsufficientFreeAddressesInSubnet", "PrivateIpAddressLimitExceeded", "ResourceLimitExceeded", "RouteLimitExceeded",
		"RulesPerSecurityGroupLimitExceeded", "SecurityGroupLimitExceeded", "SecurityGroupsPerInstanceLimitExceeded", "SecurityGroupsPerInterfaceLimitExceeded", "TagLimitExceeded",
		"TooManyCertificates", "TooManyListeners", "TooManyPolicies", "TooManyLoadBalancers", "TooManyRegistrationsForTargetId", "TooManyTags", "TooManyTargetGroups", "TooManyTargets",
		"TooManyUniqueTargetGroupsPerLoadBalancer"},
	cloud.KindUnavailable: {"HealthUnavailable", "InternalError", "InternalFailure", "RequestTimeout", "ServerInternal", "ServiceUnavailable", "Unavailable"},
}

// server answers as EC2 would with an error, and is asked for one instance.
type server struct {
	*Client
	next atomic.Pointer[func(http.ResponseWriter)]
}

// answer says how the next requests are answered.
func (s *server) answer(how func(http.ResponseWriter)) { s.next.Store(&how) }

func newServer(t *testing.T, o cloud.Options) *server {
	t.Helper()
	s := &server{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-Requestid", "request-1")
		(*s.next.Load())(w)
	}))
	t.Cleanup(h.Close)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_SHARED_CREDENTIALS_FILE": empty, "AWS_CONFIG_FILE": empty, "AWS_ENDPOINT_URL": h.URL,
		"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "s3cret-key", "AWS_SESSION_TOKEN": "s3cret-token"} {
		t.Setenv(name, value)
	}
	cfg, _, err := config.Parse("cloud.conf", []byte("[Global]\nRegion = eu-central-1"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Client, err = New(t.Context(), cfg, o); err != nil {
		t.Fatal(err)
	}
	return s
}

func says(status int, code, message string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<Response><Errors><Error><Code>" + code + "</Code><Message>" + message + "</Message></Error></Errors><RequestID>r</RequestID></Response>"))
	}
}

func TestEachCodeHasItsKind(t *testing.T) {
	s := newServer(t, cloud.Options{})
	rows := 0
	for kind, all := range codes {
		for _, code := range all {
			rows++
			status := http.StatusBadRequest
			if kind == cloud.KindUnavailable || code == "RequestLimitExceeded" {
				status = http.StatusServiceUnavailable
			}
			s.answer(says(status, code, "about i-1"))
			_, err := s.Volume(t.Context(), "i-1")
			if got := cloud.KindOf(err); got != kind {
				t.Errorf("%s: %s, want %s: %v", code, got, kind, err)
			}
			if cloud.RequestIDOf(err) != "request-1" || !strings.HasPrefix(err.Error(), "get volume i-1: ") || !strings.Contains(err.Error(), code) && kind != cloud.KindDenied {
				t.Errorf("%s: request %q of %v", code, cloud.RequestIDOf(err), err)
			}
		}
	}
	if rows != len(kinds) {
		t.Errorf("%d codes have a row, of %d", rows, len(kinds))
	}
}

func TestOtherAnswers(t *testing.T) {
	s := newServer(t, cloud.Options{RequestTimeout: 5 * time.Second})
	plain := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(status); _, _ = w.Write([]byte(body)) }
	}
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter)
		kind   cloud.Kind
		want   string
	}{
		"a code that nobody knows":        {says(400, "Strange", "m"), cloud.KindUnknown, "Strange: m"},
		"the same of a server that fails": {says(500, "Strange", "m"), cloud.KindUnavailable, "Strange: m"},
		"too many requests":               {says(429, "Strange", "m"), cloud.KindThrottled, "Strange: m"},
		"not found, but something else":   {says(400, "InvalidVolume.NotFound", "The volume 'vol-2' does not exist"), cloud.KindUnknown, "'vol-2' does not exist"},
		"a 404 of somebody else":          {plain(404, "<html>nginx</html>"), cloud.KindUnknown, "answers 404 Not Found, and nothing that AWS says"},
		"a 502 of somebody else":          {plain(502, "bad gateway"), cloud.KindUnavailable, "502"},
		"no XML":                          {plain(200, "<html>login here</html>"), cloud.KindUnknown, ""},
		"XML that ends":                   {plain(200, "<DescribeVolumesResponse><volumeSet><item>"), cloud.KindUnknown, "something else than the service does"},
		"an empty answer":                 {plain(200, ""), cloud.KindUnknown, ""},
		"nobody":                          {func(w http.ResponseWriter) { hangUp(t, w) }, cloud.KindUnavailable, "127.0.0.1"},
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusFound)
		}, cloud.KindUnknown, "redirects to http://127.0.0.1:1"},
		"no permission":                     {says(403, "UnauthorizedOperation", "You are not authorized to perform this operation. Encoded authorization failure message: AbCdEf"), cloud.KindDenied, "not authorized to perform this operation.; allow ec2:DescribeVolumes in the IAM policy of the credentials of EnvConfigCredentials (access key AKIATEST)"},
		"a wrong signature":                 {says(403, "SignatureDoesNotMatch", "It does not match. The canonical string is s3cret-token"), cloud.KindDenied, "SignatureDoesNotMatch"},
		"no room":                           {says(400, "SecurityGroupLimitExceeded", "m"), cloud.KindQuota, "raise the account's quota"},
		"a message with a secret, too long": {says(400, "InvalidParameter", "s3cret-token "+strings.Repeat("x", 1000)), cloud.KindInvalid, "InvalidParameter"},
	} {
		s.answer(tt.answer)
		_, err := s.Volume(t.Context(), "vol-1")
		if cloud.KindOf(err) != tt.kind || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %s: %v, want %s: %s", name, cloud.KindOf(err), err, tt.kind, tt.want)
			continue
		}
		if len(err.Error()) > 700 || strings.Contains(err.Error(), "AbCdEf") || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func hangUp(t *testing.T, w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_ = conn.Close()
}

func TestCancelledCallProvesNothing(t *testing.T) {
	s := newServer(t, cloud.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	s.answer(func(w http.ResponseWriter) { cancel(); hangUp(t, w) })
	_, err := s.Volume(ctx, "vol-1")
	if cloud.KindOf(err) != cloud.KindUnknown || !errors.Is(err, context.Canceled) {
		t.Errorf("%s: %v", cloud.KindOf(err), err)
	}
}

func TestCredentialsErrorsHaveKinds(t *testing.T) {
	for reason, want := range map[cloudauth.Reason]cloud.Kind{
		cloudauth.Rejected: cloud.KindDenied, cloudauth.NoCredentials: cloud.KindDenied, cloudauth.Throttled: cloud.KindThrottled,
		cloudauth.Misconfigured: cloud.KindInvalid, cloudauth.Failed: cloud.KindUnavailable, cloudauth.Unreachable: cloud.KindUnavailable,
	} {
		err := authError("get x", cloudauth.NewError(reason, "why"))
		if cloud.KindOf(err) != want || err.Error() != "get x: why" {
			t.Errorf("%v: %s: %v", reason, cloud.KindOf(err), err)
		}
	}
	if err := authError("get x", errors.New("why")); cloud.KindOf(err) != cloud.KindUnknown {
		t.Errorf("%v", err)
	}
	inner := &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRole", Err: &smithy.GenericAPIError{Code: "InvalidInstanceID.NotFound"}}
	s := newServer(t, cloud.Options{})
	if err := wrap("get x", "", &smithy.OperationError{ServiceID: "EC2", OperationName: "DescribeInstances", Err: inner}, s.start); cloud.KindOf(err) != cloud.KindDenied {
		t.Errorf("what STS says is taken for EC2's word: %s: %v", cloud.KindOf(err), err)
	}
}

func TestDryRunSendsNoChange(t *testing.T) {
	s := newServer(t, cloud.Options{DryRun: true})
	asked := 0
	s.answer(func(w http.ResponseWriter) {
		asked++
		_, _ = w.Write([]byte("<DescribeVolumesResponse></DescribeVolumesResponse>"))
	})
	out, _, err := call(t.Context(), s.Client, "tag", "i-1", func(ctx context.Context, p *place) (*ec2.CreateTagsOutput, error) {
		return p.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{"i-1"}, Tags: nil})
	})
	if err != nil || out == nil || asked != 0 {
		t.Errorf("%v, %v, after %d requests", out, err, asked)
	}
	if _, err := s.Volumes(t.Context()); err != nil || asked != 1 {
		t.Errorf("a read: %v, %d requests", err, asked)
	}
	if got := parameters(&ec2.CreateTagsInput{Resources: []string{"i-1"}}); got != `{"Resources":["i-1"]}` {
		t.Errorf("parameters are logged as %s", got)
	}
}

// traffic notes what it is told.
type traffic struct {
	requests []cloud.Request
	outcomes []cloud.Outcome
	shut     error
}

func (t *traffic) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	t.requests = append(t.requests, r)
	return func(o cloud.Outcome) { t.outcomes = append(t.outcomes, o) }, t.shut
}

func TestTrafficIsToldOfEachRequest(t *testing.T) {
	seen := &traffic{}
	s := newServer(t, cloud.Options{Traffic: seen})
	read := func() error { _, err := s.Volume(t.Context(), "vol-1"); return err }
	write := func() error {
		_, _, err := call(t.Context(), s.Client, "tag", "i-1", func(ctx context.Context, p *place) (*ec2.DeleteSecurityGroupOutput, error) {
			return p.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: aws.String("sg-1")})
		})
		return err
	}
	for name, tt := range map[string]struct {
		do      func() error
		answer  func(http.ResponseWriter)
		request cloud.Request
		outcome cloud.Outcome
	}{
		"a read": {read, func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("<DescribeVolumesResponse><volumeSet><item><volumeId>vol-1</volumeId></item></volumeSet></DescribeVolumesResponse>"))
		}, cloud.Request{Family: "ec2/describe", Place: "eu-central-1", Op: "DescribeVolumes", Object: "vol-1"}, cloud.Outcome{Status: 200, RequestID: "request-1"}},
		"a change": {write, func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("<DeleteSecurityGroupResponse></DeleteSecurityGroupResponse>"))
		}, cloud.Request{Family: "ec2/change", Place: "eu-central-1", Op: "DeleteSecurityGroup", Object: "i-1", Mutates: true}, cloud.Outcome{Status: 200, RequestID: "request-1"}},
		"one too many": {read, says(503, "RequestLimitExceeded", "Request limit exceeded."),
			cloud.Request{Family: "ec2/describe", Place: "eu-central-1", Op: "DescribeVolumes", Object: "vol-1"}, cloud.Outcome{Status: 503, Throttled: true, RequestID: "request-1"}},
		"a wait that is asked for": {read, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "7")
			says(503, "RequestLimitExceeded", "m")(w)
		},
			cloud.Request{Family: "ec2/describe", Place: "eu-central-1", Op: "DescribeVolumes", Object: "vol-1"}, cloud.Outcome{Status: 503, Throttled: true, RetryAfter: 7 * time.Second, RequestID: "request-1"}},
		"an outage": {read, func(w http.ResponseWriter) { hangUp(t, w) },
			cloud.Request{Family: "ec2/describe", Place: "eu-central-1", Op: "DescribeVolumes", Object: "vol-1"}, cloud.Outcome{}},
	} {
		*seen = traffic{}
		s.answer(tt.answer)
		err := tt.do()
		if (err == nil) != (tt.outcome.Status == 200) {
			t.Errorf("%s: %v", name, err)
		}
		if len(seen.requests) != 1 || seen.requests[0] != tt.request {
			t.Errorf("%s: asked for %+v, want %+v once: the SDK must not try again", name, seen.requests, tt.request)
		}
		if len(seen.outcomes) != 1 || seen.outcomes[0] != tt.outcome {
			t.Errorf("%s: told %+v, want %+v", name, seen.outcomes, tt.outcome)
		}
	}
	s.answer(func(http.ResponseWriter) { t.Error("it is sent though it must not") })
	seen.shut = &cloud.Error{Kind: cloud.KindThrottled, RetryAfter: time.Minute, Err: errors.New("shut")}
	if err := read(); cloud.KindOf(err) != cloud.KindThrottled || cloud.RetryAfter(err) != time.Minute || !errors.Is(err, seen.shut) {
		t.Errorf("shut: %s, %v: %v", cloud.KindOf(err), cloud.RetryAfter(err), err)
	}
}
