package openstack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/identity"
)

// CloudConf is the text of a cloud.conf for this simulator: password authentication as the
// user k8s, subnet, floating network and router.
func (s *Sim) CloudConf() string {
	return s.cloudConf(fmt.Sprintf("username = %s\npassword = %s\ntenant-name = %s\ntenant-domain-name = Default\nuser-domain-name = Default\n",
		identity.UserName, identity.UserPassword, identity.ProjectName))
}

// CloudConfWith is CloudConf with an application credential in place of the user's password.
func (s *Sim) CloudConfWith(c AppCredential) string {
	return s.cloudConf(fmt.Sprintf("application-credential-id = %s\napplication-credential-secret = %q\n", c.ID, c.Secret))
}

func (s *Sim) cloudConf(login string) string {
	d := s.Defaults()
	var b strings.Builder
	fmt.Fprintf(&b, "[Global]\nauth-url = %s\n%sregion = %s\n", s.AuthURL(), login, s.region)
	if s.CAFile() != "" {
		fmt.Fprintf(&b, "ca-file = %s\n", s.CAFile())
	}
	fmt.Fprintf(&b, "\n[LoadBalancer]\nsubnet-id = %s\nfloating-network-id = %s\n\n[Route]\nrouter-id = %s\n",
		d.SubnetID, d.ExternalNetworkID, d.RouterID)
	return b.String()
}

// ConfFile writes CloudConf, and more, to a file of the test's, and returns its name.
func (s *Sim) ConfFile(t testing.TB, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(s.CloudConf()+more), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// CloudsYAML is the text of a clouds.yaml with the clouds sim (the user k8s) and sim-admin.
func (s *Sim) CloudsYAML() string {
	var b strings.Builder
	b.WriteString("clouds:\n")
	for _, c := range []struct{ name, user, password, project string }{
		{"sim", identity.UserName, identity.UserPassword, identity.ProjectName},
		{"sim-admin", identity.AdminName, identity.AdminPassword, identity.AdminName},
	} {
		fmt.Fprintf(&b, "  %s:\n    auth_type: password\n    auth:\n      auth_url: %s\n      username: %s\n      password: %s\n      project_name: %s\n"+
			"      user_domain_name: Default\n      project_domain_name: Default\n    region_name: %s\n    identity_api_version: \"3\"\n",
			c.name, s.AuthURL(), c.user, c.password, c.project, s.region)
		if s.CAFile() != "" {
			fmt.Fprintf(&b, "    cacert: %s\n", s.CAFile())
		}
	}
	return b.String()
}
