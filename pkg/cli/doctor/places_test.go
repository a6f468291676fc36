package doctor

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cli/clitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// wrongPassword is one that each cloud refuses, and nobody is to be told.
const wrongPassword = "pa55-of-nobody"

// place is a simulated cloud, and what goes wrong there.
type place struct {
	*clitest.Cloud
	// key is what begins a key of its cloud.conf, to be misspelled.
	key string
	// deny makes of a configuration one with credentials that the cloud refuses.
	deny func(t *testing.T, conf string) string
	// away puts an address where nobody answers in the place of the cloud's, in conf or in the environment.
	away func(t *testing.T, conf string) string
	// dir has the files of the Supervisor's cloud.conf.
	dir string
	// refuse has a service refuse the user all below a path, until the test ends; nil where there is no such thing.
	refuse func(t *testing.T, service, path string)
}

func openStack(t *testing.T) *place {
	c := clitest.NewOpenStack(t, ossim.Options{})
	sim := c.OpenStack
	return &place{
		Cloud: c, key: "tenant-name",
		deny: func(_ *testing.T, conf string) string {
			return strings.Replace(conf, "password = "+ossim.UserPassword, "password = "+wrongPassword, 1)
		},
		away: func(_ *testing.T, conf string) string {
			return strings.Replace(conf, sim.AuthURL(), "http://127.0.0.1:1/v3", 1)
		},
		refuse: func(t *testing.T, service, path string) {
			t.Cleanup(sim.AddFault(core.Fault{Service: service, Path: path, Status: http.StatusForbidden}))
		},
	}
}

func amazon(t *testing.T) *place {
	c := clitest.NewAWS(t, awssim.Options{})
	c.Conf += "NodeIPFamilies = ipv4\nNodeIPFamilies = ipv6\n"
	return &place{
		Cloud: c, key: "Region",
		deny: func(t *testing.T, conf string) string {
			t.Setenv("AWS_SECRET_ACCESS_KEY", wrongPassword)
			return conf
		},
		away: func(t *testing.T, conf string) string {
			t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
			return conf
		},
	}
}

func vCenter(t *testing.T) *place {
	c := clitest.NewVSphere(t)
	v := c.VSphere
	return &place{
		Cloud: c, key: "ipFamily",
		deny: func(_ *testing.T, conf string) string { return strings.Replace(conf, v.Password(), wrongPassword, 1) },
		away: func(_ *testing.T, conf string) string { return strings.Replace(conf, v.Host(), "127.0.0.2", 1) },
	}
}

// superVisor is one that is the cluster's own API server.
func superVisor(t *testing.T) *place {
	dir := t.TempDir()
	return &place{
		Cloud: clitest.NewSupervisor(t, shared.Plane(t), dir), key: "clusterIPFamily", dir: dir,
		deny: func(_ *testing.T, conf string) string {
			return strings.Replace(conf, "credentialsDirectory: "+dir, "credentialsDirectory: "+filepath.Join(dir, "denied"), 1)
		},
		away: func(t *testing.T, conf string) string {
			return instead("server: https://", "server: https://127.0.0.1:1/")(&set{t: t}, conf)
		},
	}
}
