package openstack

type computeState struct{}

func (s *Sim) seedCompute()                       {}
func (s *Sim) computeRoutes(*router)              {}
func (s *Sim) snapshotCompute(*Snapshot)          {}
func computeMicro() *microRange                   { return nil }
func computeError(*call, *apiError) (string, any) { return "", nil }
func (s *Sim) imageRoutes(*router)                {}
func imageError(*call, *apiError) (string, any)   { return "", nil }
