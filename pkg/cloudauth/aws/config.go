package aws

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Config says as whom to log in, and where.
type Config struct {
	// Region is where requests go that name no other region; empty takes the SDK's (AWS_REGION,
	// the profile), and without any DefaultRegion.
	Region string
	// DefaultRegion is used where nothing else says a region, and for a role where what says one says one of
	// another partition than the role's.
	DefaultRegion string
	// Profile is the profile of the shared config files; empty takes AWS_PROFILE or "default".
	Profile string
	// WebIdentity is used in place of all other sources.
	WebIdentity *WebIdentity
	// Role is assumed with what the sources give; nil for none.
	Role *Role
}

// WebIdentity is a token of an OIDC issuer that an IAM role trusts.
type WebIdentity struct {
	Token cloudauth.Secret
	// RoleARN is the role to get credentials of.
	RoleARN string
	// SessionName is seen in CloudTrail; what is not allowed in it is replaced.
	SessionName string
}

// Role is an IAM role to be assumed.
type Role struct {
	ARN string `yaml:"roleARN"`
	// ExternalID is what the role's owner wants to see, if anything.
	ExternalID string `yaml:"externalID"`
	// SourceARN is for whom this is done. It is sent as x-amz-source-arn, and its account as
	// x-amz-source-account, by which the role's trust policy keeps others from using this
	// program for their own ends (the confused deputy).
	SourceARN string `yaml:"sourceARN"`
	// SourceAccount is sent as x-amz-source-account in place of SourceARN's account, also without a SourceARN;
	// empty for none.
	SourceAccount string `yaml:"-"`
	// SessionName is seen in CloudTrail.
	SessionName string `yaml:"-"`
}

// Options are the parts of a Session that are the program's.
type Options struct {
	// Program and Version are sent as the user agent.
	Program, Version string
	// RequestTimeout bounds each HTTP request; 0 means 30 s.
	RequestTimeout time.Duration
	// Observe is told of all credentials that were asked for: how long it took, when they end, and the error. Nil is for
	// no one; it must not block.
	Observe func(took time.Duration, expires time.Time, err error)

	maxBackoff time.Duration    // between attempts; 0 means 2 s
	now        func() time.Time // nil means time.Now; for how long credentials are kept
}

const (
	defaultMaxBackoff     = 2 * time.Second
	defaultRequestTimeout = 30 * time.Second
	defaultSessionName    = "isthmus"
)

// CheckRoleARN says what is wrong with the ARN of a role, nil if nothing is.
func CheckRoleARN(arn string) error {
	parts := strings.SplitN(arn, ":", 6)
	if accountOf(arn) == "" || !strings.HasPrefix(parts[1], "aws") || parts[2] != "iam" || parts[3] != "" ||
		!strings.HasPrefix(parts[5], "role/") || len(arn) > 700 || onlyOf(strings.ReplaceAll(parts[5], "/", ""), sessionCharacters) != strings.ReplaceAll(parts[5], "/", "") {
		return fmt.Errorf("%q is no ARN of an IAM role, such as arn:aws:iam::123456789012:role/name", cloudauth.Excerpt(arn, 120))
	}
	return nil
}

// CheckRegion says what is wrong with the name of a region, nil if nothing is.
func CheckRegion(name string) error {
	parts := strings.Split(name, "-")
	valid := len(parts) >= 3 && len(parts) <= 5 && isNumber(parts[len(parts)-1]) && len(name) <= 30
	for i, part := range parts {
		valid = valid && part != "" && (i == len(parts)-1 || strings.Trim(part, lowerCase) == "")
	}
	if !valid {
		return fmt.Errorf("%q is no AWS region, such as eu-central-1", cloudauth.Excerpt(name, 60))
	}
	return nil
}

// Check returns all mistakes.
func (r Role) Check() error {
	var errs []error
	if err := CheckRoleARN(r.ARN); err != nil {
		errs = append(errs, fmt.Errorf("roleARN: %w", err))
	}
	if r.SourceARN != "" && accountOf(r.SourceARN) == "" {
		errs = append(errs, fmt.Errorf("sourceARN: %q is no ARN with an account, such as arn:aws:eks:eu-central-1:123456789012:cluster/name", cloudauth.Excerpt(r.SourceARN, 120)))
	}
	return errors.Join(errs...)
}

// partitions are the beginnings of the names of regions, by the partition in ARNs; all others are of "aws".
var partitions = []struct{ name, region string }{
	{"aws-cn", "cn-"}, {"aws-us-gov", "us-gov-"}, {"aws-eusc", "eusc-"},
	{"aws-iso", "us-iso-"}, {"aws-iso-b", "us-isob-"}, {"aws-iso-e", "eu-isoe-"}, {"aws-iso-f", "us-isof-"},
}

// partitionOf is the partition of a region.
func partitionOf(region string) string {
	for _, p := range partitions {
		if strings.HasPrefix(region, p.region) {
			return p.name
		}
	}
	return "aws"
}

// regionFor is where a role is asked for: where requests go, unless that is in another partition than the role,
// whose STS does not know it.
func (c Config) regionFor(region, roleARN string) string {
	_, rest, _ := strings.Cut(roleARN, ":")
	partition, _, _ := strings.Cut(rest, ":")
	if partitionOf(region) != partition && partitionOf(c.DefaultRegion) == partition && c.DefaultRegion != "" {
		return c.DefaultRegion
	}
	return region
}

func (c Config) check() error {
	var errs []error
	for _, r := range []string{c.Region, c.DefaultRegion} {
		if r == "" {
			continue
		}
		if err := CheckRegion(r); err != nil {
			errs = append(errs, fmt.Errorf("region: %w", err))
		}
	}
	if c.WebIdentity != nil {
		if err := CheckRoleARN(c.WebIdentity.RoleARN); err != nil {
			errs = append(errs, fmt.Errorf("role of the web identity: %w", err))
		}
		if c.WebIdentity.Token.IsEmpty() {
			errs = append(errs, errors.New("the web identity token is empty"))
		}
	}
	if c.Role != nil {
		errs = append(errs, c.Role.Check())
	}
	return errors.Join(errs...)
}

// accountOf returns the account of an ARN, "" if it has none.
func accountOf(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || len(parts[4]) != 12 || !isNumber(parts[4]) || strings.ContainsAny(arn, "\r\n ") {
		return ""
	}
	return parts[4]
}

const (
	digits            = "0123456789"
	lowerCase         = "abcdefghijklmnopqrstuvwxyz"
	sessionCharacters = digits + lowerCase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ_+=,.@-"
)

func isNumber(text string) bool { return text != "" && strings.Trim(text, digits) == "" }

// onlyOf replaces whatever is not among the characters, one dot for what stands together.
func onlyOf(text, characters string) string {
	var b strings.Builder
	replaced := false
	for _, r := range text {
		known := strings.ContainsRune(characters, r)
		switch {
		case known:
			b.WriteRune(r)
		case !replaced:
			b.WriteByte('.')
		}
		replaced = !known
	}
	return b.String()
}

// sessionName makes a valid name of a session: 2 to 64 characters of a small set.
func sessionName(name string) string {
	name = onlyOf(name, sessionCharacters)
	if len(name) > 64 {
		name = name[:64]
	}
	if len(name) < 2 {
		return defaultSessionName
	}
	return name
}
