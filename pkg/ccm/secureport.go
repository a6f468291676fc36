package ccm

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// serving returns what runs the secure port.
func (m *Manager) serving(ctx context.Context) ([]manager.Runnable, error) {
	mux, err := secureMux(m.opts, m.health, m.live, m.ready)
	if err != nil {
		return nil, err
	}
	authn, err := m.reviewer("authentication-kubeconfig", m.opts.Auth.AuthenticationKubeconfig)
	if err != nil {
		return nil, err
	}
	authz, err := m.reviewer("authorization-kubeconfig", m.opts.Auth.AuthorizationKubeconfig)
	if err != nil {
		return nil, err
	}
	g, err := newGuard(m.opts.Auth, authn.AuthenticationV1().TokenReviews(), authz.AuthorizationV1().SubjectAccessReviews())
	if err != nil {
		return nil, err
	}
	server, more, err := secureServer(ctx, m.opts.Serving, g.wrap(mux))
	if err != nil {
		return nil, err
	}
	return append(more, server), nil
}

// reviewRate and reviewBurst limit the questions about senders where nothing else does: anyone who
// reaches the port can cause them. They are those of the API server's own delegated checks.
const (
	reviewRate  = 200
	reviewBurst = 400
)

// reviewer returns the client with which senders are checked, of the flag's kubeconfig or of
// our own. Its rate limit is its own: whoever sends tokens that nobody knows must not hold
// up the controllers.
func (m *Manager) reviewer(flag, kubeconfig string) (kubernetes.Interface, error) {
	config := m.config
	if kubeconfig != "" {
		other, err := clientConfig(flag, kubeconfig, "")
		if err != nil {
			return nil, err
		}
		other.QPS, other.Burst = config.QPS, config.Burst
		config = other
	}
	config = named(config, "secure-port")
	if config.QPS <= 0 {
		config.QPS, config.Burst = reviewRate, reviewBurst
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the senders to the secure port: %w", err)
	}
	return client, nil
}
