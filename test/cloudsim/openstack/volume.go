package openstack

type volumeState struct{}

func (s *Sim) seedVolume()              {}
func (s *Sim) volumeRoutes(*router)     {}
func (s *Sim) snapshotVolume(*Snapshot) {}
func volumeMicro() *microRange          { return nil }
