package openstack

import "net/http"

// Names of what every simulator starts with; they are the ones of the project's OpenStack lab.
const (
	Region       = "RegionOne"
	UserName     = "k8s"
	UserPassword = "secret"
	ProjectName  = "k8s"
)

type identityState struct{}

type token struct {
	projectID string
	admin     bool
}

func (s *Sim) seedIdentity()              {}
func (s *Sim) identityRoutes(*router)     {}
func (s *Sim) snapshotIdentity(*Snapshot) {}
func (s *Sim) validToken(string) *token   { return nil }
func (s *Sim) unauthorized(*call) error {
	return errorf(http.StatusUnauthorized, "", "The request you have made requires authentication.")
}
func identityError(*call, *apiError) (string, any) { return "", nil }
