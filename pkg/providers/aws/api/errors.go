package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
)

// kinds are what AWS' error codes mean. All others are judged by the HTTP status, see kindOf.
var kinds = map[string]cloud.Kind{
	"InvalidInstanceID.NotFound":         cloud.KindNotFound,
	"InvalidVolume.NotFound":             cloud.KindNotFound,
	"InvalidGroup.NotFound":              cloud.KindNotFound,
	"InvalidNetworkInterfaceID.NotFound": cloud.KindNotFound,
	"InvalidPermission.NotFound":         cloud.KindNotFound,
	"InvalidRoute.NotFound":              cloud.KindNotFound,
	"InvalidRouteTableID.NotFound":       cloud.KindNotFound,
	"InvalidSubnetID.NotFound":           cloud.KindNotFound,
	"InvalidVpcID.NotFound":              cloud.KindNotFound,
	"ListenerNotFound":                   cloud.KindNotFound,
	"LoadBalancerNotFound":               cloud.KindNotFound,
	"PolicyNotFound":                     cloud.KindNotFound,
	"TargetGroupNotFound":                cloud.KindNotFound,

	"RequestLimitExceeded":      cloud.KindThrottled,
	"Throttling":                cloud.KindThrottled,
	"ThrottlingException":       cloud.KindThrottled,
	"ThrottledException":        cloud.KindThrottled,
	"RequestThrottled":          cloud.KindThrottled,
	"RequestThrottledException": cloud.KindThrottled,
	"TooManyRequestsException":  cloud.KindThrottled,
	"EC2ThrottledException":     cloud.KindThrottled,
	"BandwidthLimitExceeded":    cloud.KindThrottled,
	"PriorRequestNotComplete":   cloud.KindThrottled,
	"SlowDown":                  cloud.KindThrottled,

	"UnauthorizedOperation":       cloud.KindDenied,
	"AuthFailure":                 cloud.KindDenied,
	"AccessDenied":                cloud.KindDenied,
	"AccessDeniedException":       cloud.KindDenied,
	"Blocked":                     cloud.KindDenied,
	"ExpiredToken":                cloud.KindDenied,
	"ExpiredTokenException":       cloud.KindDenied,
	"IncompleteSignature":         cloud.KindDenied,
	"InvalidClientTokenId":        cloud.KindDenied,
	"InvalidSignatureException":   cloud.KindDenied,
	"MissingAuthenticationToken":  cloud.KindDenied,
	"NotAuthorized":               cloud.KindDenied,
	"OptInRequired":               cloud.KindDenied,
	"PendingVerification":         cloud.KindDenied,
	"RequestExpired":              cloud.KindDenied,
	"SignatureDoesNotMatch":       cloud.KindDenied,
	"UnrecognizedClientException": cloud.KindDenied,

	"UnsupportedOperation": cloud.KindUnsupported,
	"Unsupported":          cloud.KindUnsupported,
	"InvalidAction":        cloud.KindUnsupported,
	"UnknownParameter":     cloud.KindUnsupported,

	"InvalidInstanceID.Malformed": cloud.KindInvalid,
	"InvalidVolumeID.Malformed":   cloud.KindInvalid,
	"InvalidID":                   cloud.KindInvalid,
	"InvalidFilter":               cloud.KindInvalid,
	"FilterLimitExceeded":         cloud.KindInvalid,
	"InvalidParameter":            cloud.KindInvalid,
	"InvalidParameterCombination": cloud.KindInvalid,
	"InvalidParameterValue":       cloud.KindInvalid,
	"MalformedQueryString":        cloud.KindInvalid,
	"MissingParameter":            cloud.KindInvalid,
	"ValidationError":             cloud.KindInvalid,
	"AllocationIdNotFound":        cloud.KindInvalid,
	"CertificateNotFound":         cloud.KindInvalid,
	"DuplicateTagKeys":            cloud.KindInvalid,
	"IncompatibleProtocols":       cloud.KindInvalid,
	"InvalidConfigurationRequest": cloud.KindInvalid,
	"InvalidLoadBalancerAction":   cloud.KindInvalid,
	"InvalidScheme":               cloud.KindInvalid,
	"InvalidSecurityGroup":        cloud.KindInvalid,
	"InvalidSubnet":               cloud.KindInvalid,
	"SSLPolicyNotFound":           cloud.KindInvalid,
	"SubnetNotFound":              cloud.KindInvalid,
	"UnsupportedProtocol":         cloud.KindInvalid,

	"DependencyViolation":           cloud.KindConflict,
	"InvalidGroup.InUse":            cloud.KindConflict,
	"InvalidIPAddress.InUse":        cloud.KindConflict,
	"InvalidNetworkInterface.InUse": cloud.KindConflict,
	"Resource.AlreadyAssociated":    cloud.KindConflict,
	"OperationNotPermitted":         cloud.KindConflict,
	"TargetGroupAssociationLimit":   cloud.KindConflict,

	"IncorrectState":              cloud.KindStale,
	"IncorrectInstanceState":      cloud.KindStale,
	"InvalidGroup.Duplicate":      cloud.KindStale,
	"InvalidPermission.Duplicate": cloud.KindStale,
	"RouteAlreadyExists":          cloud.KindStale,
	"InvalidNextToken":            cloud.KindStale,
	"InvalidPaginationToken":      cloud.KindStale,
	"ConcurrentTagAccess":         cloud.KindStale,
	"DuplicateListener":           cloud.KindStale,
	"DuplicatePolicyName":         cloud.KindStale,
	"InvalidInstance":             cloud.KindStale,
	"DuplicateLoadBalancerName":   cloud.KindStale,
	"DuplicateTargetGroupName":    cloud.KindStale,
	"InvalidTarget":               cloud.KindStale,
	"ResourceInUse":               cloud.KindStale,

	"AddressLimitExceeded":                     cloud.KindQuota,
	"InsufficientFreeAddressesInSubnet":        cloud.KindQuota,
	"PrivateIpAddressLimitExceeded":            cloud.KindQuota,
	"ResourceLimitExceeded":                    cloud.KindQuota,
	"RouteLimitExceeded":                       cloud.KindQuota,
	"RulesPerSecurityGroupLimitExceeded":       cloud.KindQuota,
	"SecurityGroupLimitExceeded":               cloud.KindQuota,
	"SecurityGroupsPerInstanceLimitExceeded":   cloud.KindQuota,
	"SecurityGroupsPerInterfaceLimitExceeded":  cloud.KindQuota,
	"TagLimitExceeded":                         cloud.KindQuota,
	"TooManyCertificates":                      cloud.KindQuota,
	"TooManyListeners":                         cloud.KindQuota,
	"TooManyPolicies":                          cloud.KindQuota,
	"TooManyLoadBalancers":                     cloud.KindQuota,
	"TooManyRegistrationsForTargetId":          cloud.KindQuota,
	"TooManyTags":                              cloud.KindQuota,
	"TooManyTargetGroups":                      cloud.KindQuota,
	"TooManyTargets":                           cloud.KindQuota,
	"TooManyUniqueTargetGroupsPerLoadBalancer": cloud.KindQuota,

	"HealthUnavailable":  cloud.KindUnavailable,
	"InternalError":      cloud.KindUnavailable,
	"InternalFailure":    cloud.KindUnavailable,
	"RequestTimeout":     cloud.KindUnavailable,
	"ServerInternal":     cloud.KindUnavailable,
	"ServiceUnavailable": cloud.KindUnavailable,
	"Unavailable":        cloud.KindUnavailable,
}

var errNoID = errors.New("the answer has no ID")

// unknownCode is the SDK's word for an answer that has no code, and so is not one of AWS'.
const unknownCode = "UnknownError"

// codeOf is the error code of an answer of AWS', "" for what is none.
func codeOf(err error) string {
	var answer smithy.APIError
	if !errors.As(err, &answer) || answer.ErrorCode() == unknownCode {
		return ""
	}
	return answer.ErrorCode()
}

// statusOf is the HTTP status of an answer, 0 where there was none.
func statusOf(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil && response.Response.Response != nil {
		return response.HTTPStatusCode()
	}
	return 0
}

func requestID(err error) string {
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		return response.ServiceRequestID()
	}
	return ""
}

// kindOf is the kind of a call's error: by the code of AWS' answer, and where that is not known by the status. A 404 of
// somebody else is never "not found": it has no code.
func kindOf(err error) cloud.Kind {
	code, status := codeOf(err), statusOf(err)
	if kind, ok := kinds[code]; ok {
		return kind
	}
	var sent *smithyhttp.RequestSendError
	var network *url.Error
	switch {
	case errors.Is(err, context.Canceled): // by us, which says nothing about the service
		return cloud.KindUnknown
	case status == http.StatusTooManyRequests:
		return cloud.KindThrottled
	case status >= http.StatusInternalServerError:
		return cloud.KindUnavailable
	case status != 0:
		return cloud.KindUnknown
	case errors.As(err, &sent), errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return cloud.KindUnavailable
	}
	return cloud.KindUnknown
}

// anonymous are the codes of "not found" whose messages do not name the object: what it is says the code. Requests that
// can be answered with them are about one object of that sort.
var anonymous = map[string]bool{"ListenerNotFound": true, "LoadBalancerNotFound": true, "PolicyNotFound": true, "TargetGroupNotFound": true}

// wrap turns an error of the SDK's into a *cloud.Error of the right kind for the operation name ("get instance i-1"). One that
// has a kind already keeps it. object is the ID of what the operation is about: "not found" that does not name it is about
// something else, and proves nothing.
func wrap(name, object string, err error, s *auth.Session) error {
	var known *cloud.Error
	if errors.As(err, &known) {
		return &cloud.Error{Kind: known.Kind, Op: name, RetryAfter: known.RetryAfter, RequestID: known.RequestID, Err: known}
	}
	if isCredentials(err) {
		return authError(name, s.Explain(err))
	}
	e := &cloud.Error{Kind: kindOf(err), Op: name, RequestID: requestID(err), Err: s.Explain(err)}
	code := codeOf(err)
	if code == "" || e.Kind == cloud.KindDenied && code != unauthorized {
		return e // what Explain says of networks and logins is all there is to say
	}
	message := messageOf(err)
	if e.Kind == cloud.KindNotFound && object != "" && !strings.Contains(message, object) && !anonymous[code] {
		e.Kind = cloud.KindUnknown
	}
	e.Err = &cloudauth.Error{Text: s.Excerpt(code+": "+message) + hint(code, e.Kind, operationOf(err), s), Cause: err}
	return e
}

const unauthorized = "UnauthorizedOperation"

// messageOf is AWS' message without what nobody can read.
func messageOf(err error) string {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return ""
	}
	message, _, _ := strings.Cut(answer.ErrorMessage(), "Encoded authorization failure message")
	return strings.TrimSpace(message)
}

// hint says what to do about an answer.
func hint(code string, kind cloud.Kind, operation string, s *auth.Session) string {
	switch {
	case code == unauthorized:
		return fmt.Sprintf("; allow %s in the IAM policy of %s", operation, s.Who())
	case code == "RulesPerSecurityGroupLimitExceeded":
		return "; raise the quota of inbound rules per security group, or let fewer Services, ports or source ranges in"
	case kind == cloud.KindQuota:
		return "; raise the account's quota or extend the subnet, or delete what is not used any more"
	}
	return ""
}

// operationOf is the operation as IAM calls it: "ec2:DescribeInstances".
func operationOf(err error) string {
	var op *smithy.OperationError
	if !errors.As(err, &op) {
		return "the operation"
	}
	service := strings.ToLower(op.Service())
	if strings.HasPrefix(service, "elastic load balancing") {
		service = "elasticloadbalancing"
	}
	return service + ":" + op.Operation()
}

// isCredentials reports whether err is that of a call for credentials, which the SDK has made within another.
func isCredentials(err error) bool {
	var outer, inner *smithy.OperationError
	if !errors.As(err, &outer) {
		return false
	}
	return errors.As(outer.Err, &inner)
}

// authError is the error of an operation for which there are no credentials.
func authError(name string, err error) error {
	e := &cloud.Error{Op: name, Err: err}
	var a *cloudauth.Error
	if !errors.As(err, &a) || errors.Is(err, context.Canceled) {
		return e
	}
	switch a.Reason {
	case cloudauth.Rejected, cloudauth.NoCredentials:
		e.Kind = cloud.KindDenied
	case cloudauth.Throttled:
		e.Kind = cloud.KindThrottled
	case cloudauth.Misconfigured:
		e.Kind = cloud.KindInvalid
	case cloudauth.Failed, cloudauth.Unreachable:
		e.Kind = cloud.KindUnavailable
	}
	return e
}

// brief is an error's innermost cause, on one line.
func brief(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return cloudauth.Excerpt(err.Error(), 120)
}
