package openstack

import "errors"

// networkState is Neutron's state; helper B replaces this file.
type networkState struct{ defaults Defaults }

// lbState is Octavia's state.
type lbState struct{}

func (s *Sim) seedNetwork()                      {}
func (s *Sim) seedOctavia()                      {}
func (s *Sim) networkRoutes(*router)             {}
func (s *Sim) octaviaRoutes(*router)             {}
func (s *Sim) snapshotNetwork(*Snapshot)         {}
func (s *Sim) snapshotOctavia(*Snapshot)         {}
func (s *Sim) portsOf(string) []portView         { return nil }
func (s *Sim) deletePortsOf(string)              {}
func (s *Sim) networkName(string) (string, bool) { return "", false }
func (s *Sim) createServerPort(portWish) (portView, error) {
	return portView{}, errors.New("no network yet")
}
func (s *Sim) bindPort(_, _, _ string) (portView, error) {
	return portView{}, errors.New("no network yet")
}

// networkError and octaviaError are the services' error bodies.
func networkError(*call, *apiError) (string, any) { return "", nil }
func octaviaError(*call, *apiError) (string, any) { return "", nil }

// Defaults returns the ids of what Start has made.
func (s *Sim) Defaults() Defaults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.network.defaults
}
