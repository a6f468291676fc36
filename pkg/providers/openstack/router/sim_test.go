package router

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// newProvider makes the provider's part of the simulator's cloud.conf with more appended.
func newProvider(t *testing.T, sim *ossim.Sim, more string) *cloud.Provider {
	t.Helper()
	return newProviderOf(t, sim, sim.CloudConf()+"\n"+more)
}

func newProviderOf(t *testing.T, sim *ossim.Sim, conf string) *cloud.Provider {
	t.Helper()
	c, cfg := apitest.Open(t, sim, conf)
	return &cloud.Provider{Routes: New(c, cfg.Route.RouterID)}
}
