package openstack

type keyState struct{}

func (s *Sim) seedKeys()                       {}
func (s *Sim) keysRoutes(*router)              {}
func (s *Sim) snapshotKeys(*Snapshot)          {}
func keysError(*call, *apiError) (string, any) { return "", nil }

func keysMicro() *microRange { return nil }
