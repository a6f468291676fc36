package aws

import (
	"encoding/xml"
	"net/http"
	"slices"
	"strings"
	"time"
)

type xmlCredentials struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string `xml:"SecretAccessKey"`
	SessionToken    string `xml:"SessionToken"`
	Expiration      string `xml:"Expiration"`
}

type xmlAssumed struct {
	Credentials xmlCredentials `xml:"Credentials"`
	ARN         string         `xml:"AssumedRoleUser>Arn"`
	RoleID      string         `xml:"AssumedRoleUser>AssumedRoleId"`
}

type xmlAssumeRole struct {
	XMLName xml.Name   `xml:"https://sts.amazonaws.com/doc/2011-06-15/ AssumeRoleResponse"`
	Result  xmlAssumed `xml:"AssumeRoleResult"`
}

type xmlAssumeRoleWithWebIdentity struct {
	XMLName xml.Name   `xml:"https://sts.amazonaws.com/doc/2011-06-15/ AssumeRoleWithWebIdentityResponse"`
	Result  xmlAssumed `xml:"AssumeRoleWithWebIdentityResult"`
}

type xmlCallerIdentity struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ GetCallerIdentityResponse"`
	ARN     string   `xml:"GetCallerIdentityResult>Arn"`
	Account string   `xml:"GetCallerIdentityResult>Account"`
}

// assumeRole is STS' AssumeRole: the caller's policy and the role's trust policy decide.
func (s *Sim) assumeRole(c *call) (*reply, error) {
	arn, name := c.form.Get("RoleArn"), c.form.Get("RoleSessionName")
	if err := c.partition(c.caller.region); err != nil {
		return nil, err
	}
	id := c.caller.identity
	role := s.iam.roles[arn]
	denied := errorf(http.StatusForbidden, "AccessDenied", "User: %s is not authorized to perform: sts:AssumeRole on resource: %s", id.arn, arn)
	if role == nil || c.allow("sts:AssumeRole", arn) != nil || len(name) < 2 {
		return nil, denied
	}
	t := role.Trust
	own := id.arn
	if strings.Contains(own, ":assumed-role/") {
		own = roleARNOf(id.principal)
	}
	if !slices.Contains(t.Principals, own) || t.ExternalID != c.form.Get("ExternalId") ||
		t.SourceARN != "" && t.SourceARN != c.r.Header.Get("X-Amz-Source-Arn") ||
		t.SourceAccount != "" && t.SourceAccount != c.r.Header.Get("X-Amz-Source-Account") {
		return nil, denied
	}
	return xmlReply(http.StatusOK, xmlAssumeRole{Result: s.assumedResult(role, name)}), nil
}

// assumeRoleWithWebIdentity is STS' operation of this name; the request is not signed.
func (s *Sim) assumeRoleWithWebIdentity(c *call) (*reply, error) {
	if c.r.Header.Get("Authorization") != "" {
		return nil, errorf(http.StatusForbidden, "SignatureDoesNotMatch", "AssumeRoleWithWebIdentity is not signed")
	}
	claims, err := s.webIdentity(c.form.Get("WebIdentityToken"))
	if err != nil {
		return nil, err
	}
	role := s.iam.roles[c.form.Get("RoleArn")]
	if role != nil && c.endpoint.region != "" && role.partitionOf() != partitionOf(c.endpoint.region) {
		role = nil // another partition's STS knows nothing of it
	}
	if role == nil || !slices.Contains(role.Trust.Subjects, claims.Subject) || role.Trust.Audience != "" && !slices.Contains(claims.Audience, role.Trust.Audience) || len(c.form.Get("RoleSessionName")) < 2 {
		return nil, errorf(http.StatusForbidden, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
	}
	return xmlReply(http.StatusOK, xmlAssumeRoleWithWebIdentity{Result: s.assumedResult(role, c.form.Get("RoleSessionName"))}), nil
}

func (s *Sim) assumedResult(role *Principal, name string) xmlAssumed {
	keys, arn, expires := s.session(role, name)
	return xmlAssumed{
		Credentials: xmlCredentials{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken, Expiration: expires.Format(time.RFC3339)},
		ARN:         arn, RoleID: "AROA" + strings.ToUpper(randomText(16)) + ":" + name,
	}
}

func (s *Sim) callerIdentity(c *call) (*reply, error) {
	if err := c.partition(c.caller.region); err != nil {
		return nil, err
	}
	return xmlReply(http.StatusOK, xmlCallerIdentity{ARN: c.caller.identity.arn, Account: c.caller.identity.principal.Account}), nil
}
