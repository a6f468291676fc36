package azure

import (
	"net/http"
	"strconv"
	"time"
)

// metadataToken is the instance metadata service's token endpoint.
func (s *Sim) metadataToken(c *call) (*reply, error) {
	q := c.r.URL.Query()
	switch {
	case c.r.Header.Get("Metadata") != "true" || c.r.Header.Get("X-Forwarded-For") != "":
		return nil, errorf(http.StatusBadRequest, "invalid_request", "Required metadata header not specified")
	case q.Get("api-version") < "2018-02-01":
		return nil, errorf(http.StatusBadRequest, "invalid_request", "Required query variable 'api-version' is missing or not supported")
	case q.Get("resource") == "":
		return nil, errorf(http.StatusBadRequest, "invalid_request", "Required query variable 'resource' is missing")
	}
	id, err := s.machineIdentity(q.Get("client_id"), q.Get("object_id"), q.Get("msi_res_id"))
	if err != nil {
		return nil, err
	}
	token, expires := s.issue(id, q.Get("resource"))
	left := strconv.Itoa(int(time.Until(expires).Seconds()))
	return jsonReply(http.StatusOK, map[string]string{
		"access_token": token, "client_id": id.ClientID, "expires_in": left, "ext_expires_in": left,
		"expires_on": strconv.FormatInt(expires.Unix(), 10), "not_before": strconv.FormatInt(time.Now().Unix(), 10),
		"resource": q.Get("resource"), "token_type": "Bearer",
	}), nil
}

// machineIdentity finds the identity that a request names. mu held.
func (s *Sim) machineIdentity(client, object, resource string) (*identity, error) {
	named := client != "" || object != "" || resource != ""
	users := 0
	for _, id := range s.machine {
		if named && (client == id.ClientID || object == id.ObjectID || resource != "" && resource == id.ResourceID) || !named && id.systemAssigned {
			return id, nil
		}
		if !id.systemAssigned {
			users++
		}
	}
	switch {
	case !named && users == 1:
		return s.machine[0], nil
	case !named && users > 1:
		return nil, errorf(http.StatusBadRequest, "invalid_request", "Multiple user assigned identities exist, please specify the clientId / resourceId of the identity in the token request")
	}
	return nil, errorf(http.StatusBadRequest, "invalid_request", "Identity not found")
}
