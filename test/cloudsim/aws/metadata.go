package aws

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// metadataState is what one instance, and one container, sees of AWS.
type metadataState struct {
	region string
	role   *Principal // of the instance; nil for none
	// instance is the instance's ID, in an account.
	instance, account string
	tokens            map[string]time.Time

	containerRole  *Principal
	containerToken string
}

func newMetadata() metadataState {
	return metadataState{region: "us-east-1", instance: "i-0123456789abcdef0", account: "111122223333", tokens: map[string]time.Time{}}
}

// SetInstanceRole gives the instance a role by its ARN; "" takes it away.
func (s *Sim) SetInstanceRole(arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metadata.role = s.iam.roles[arn]
}

// SetInstance makes the metadata service that of an instance, as far as the paths go that are served. It need not exist.
func (s *Sim) SetInstance(account, region, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metadata.account, s.metadata.region, s.metadata.instance = account, region, id
}

// identity is the instance's identity document. mu held.
func (s *Sim) identity() map[string]string {
	m := s.metadata
	out := map[string]string{"region": m.region, "instanceId": m.instance, "accountId": m.account}
	if at := s.states[place{m.account, m.region}]; at != nil {
		if found, err := at.ec2.Instances([]string{m.instance}); err == nil {
			i := found[0]
			out["availabilityZone"], out["instanceType"], out["privateIp"] = i.Zone, i.Type, i.PrivateIP
		}
	}
	return out
}

// SetContainer gives a role to whoever asks the container endpoint with this authorization
// token. It returns the endpoint's URL, for AWS_CONTAINER_CREDENTIALS_FULL_URI.
func (s *Sim) SetContainer(arn, token string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metadata.containerRole, s.metadata.containerToken = s.iam.roles[arn], token
	return s.URL() + "/v1/credentials"
}

const credentialsPath = "/latest/meta-data/iam/security-credentials/"

// instanceMetadata is the instance metadata service, in version 2 only: without a token of its
// own it answers 401.
func (s *Sim) instanceMetadata(c *call) (*reply, error) {
	text := func(body string) (*reply, error) {
		return &reply{Status: http.StatusOK, ContentType: "text/plain", Body: []byte(body)}, nil
	}
	if c.r.Method == http.MethodPut && c.action == "/latest/api/token" {
		ttl, err := strconv.Atoi(c.r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
		if err != nil || ttl < 1 || ttl > 21600 || c.r.Header.Get("X-Forwarded-For") != "" {
			return nil, errorf(http.StatusBadRequest, "", "bad request")
		}
		token := randomText(56)
		s.metadata.tokens[token] = time.Now().Add(time.Duration(ttl) * time.Second)
		out, _ := text(token)
		out.Header = http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {strconv.Itoa(ttl)}}
		return out, nil
	}
	if end, ok := s.metadata.tokens[c.r.Header.Get("X-Aws-Ec2-Metadata-Token")]; !ok || time.Now().After(end) {
		return nil, errorf(http.StatusUnauthorized, "", "unauthorized")
	}
	role := s.metadata.role
	name, isRole := strings.CutPrefix(c.action, credentialsPath)
	switch {
	case c.action == "/latest/meta-data/placement/region":
		return text(s.metadata.region)
	case c.action == "/latest/dynamic/instance-identity/document":
		return jsonReply(http.StatusOK, "text/plain", s.identity()), nil
	case c.action == "/latest/meta-data/instance-id":
		return text(s.metadata.instance)
	case c.action == "/latest/meta-data/placement/availability-zone" && s.identity()["availabilityZone"] != "":
		return text(s.identity()["availabilityZone"])
	case isRole && role != nil && name == "":
		return text(role.Name)
	case isRole && role != nil && name == role.Name:
		keys, _, expires := s.session(role, s.metadata.instance)
		return jsonReply(http.StatusOK, "text/plain", map[string]string{
			"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": time.Now().UTC().Format(time.RFC3339),
			"AccessKeyId": keys.AccessKeyID, "SecretAccessKey": keys.SecretAccessKey, "Token": keys.SessionToken, "Expiration": expires.Format(time.RFC3339),
		}), nil
	}
	return nil, errorf(http.StatusNotFound, "", "not found")
}

// containerCredentials is the endpoint of ECS' agent and of EKS' Pod Identity agent.
func (s *Sim) containerCredentials(c *call) (*reply, error) {
	role := s.metadata.containerRole
	if role == nil || c.r.Header.Get("Authorization") != s.metadata.containerToken {
		return nil, errorf(http.StatusUnauthorized, "AccessDeniedException", "Unauthorized Exception! EKS does not have permissions to assume the associated role.")
	}
	keys, _, expires := s.session(role, "container")
	return jsonReply(http.StatusOK, "application/json", map[string]string{
		"AccessKeyId": keys.AccessKeyID, "SecretAccessKey": keys.SecretAccessKey, "Token": keys.SessionToken,
		"AccountId": role.Account, "Expiration": expires.Format(time.RFC3339),
	}), nil
}
