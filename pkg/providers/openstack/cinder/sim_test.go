package cinder

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

const (
	missingID = "00000000-0000-4000-8000-00000000dead"
	idA       = "aaaaaaaa-0000-4000-8000-000000000001"
)

// newProvider makes the provider's part of the simulator's cloud.conf with more appended.
func newProvider(t *testing.T, sim *ossim.Sim, more string) *cloud.Provider {
	t.Helper()
	c, cfg := apitest.Open(t, sim, sim.CloudConf()+"\n"+more)
	return &cloud.Provider{Volumes: New(c, cfg.BlockStorage.IgnoreVolumeAZ)}
}
