package openstack

// lbState is Octavia's state.
type lbState struct{}

func (s *Sim) seedOctavia()                           {}
func (s *Sim) octaviaRoutes(*router)                  {}
func (s *Sim) snapshotOctavia(*Snapshot)              {}
func octaviaError(_ *call, _ *apiError) (string, any) { return "", nil }

func (s *Sim) forwardPort(string) {}
