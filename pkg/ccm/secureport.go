package ccm

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// serving returns what runs the secure port.
func (m *Manager) serving(ctx context.Context) ([]manager.Runnable, error) {
	mux, err := secureMux(m.opts, m.health, m.live, m.ready)
	if err != nil {
		return nil, err
	}
	authn, authz := m.client, m.client
	if f := m.opts.Auth.AuthenticationKubeconfig; f != "" {
		if authn, err = clientOf(f); err != nil {
			return nil, fmt.Errorf("--authentication-kubeconfig: %w", err)
		}
	}
	if f := m.opts.Auth.AuthorizationKubeconfig; f != "" {
		if authz, err = clientOf(f); err != nil {
			return nil, fmt.Errorf("--authorization-kubeconfig: %w", err)
		}
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
