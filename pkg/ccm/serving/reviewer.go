package serving

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// New returns what runs the secure port, on which checks and status, at /status, are served. Clients are asked about at api, unless the options
// name others.
func New(ctx context.Context, o *options.Options, api *rest.Config, status http.Handler, checks ...*Checks) ([]manager.Runnable, error) {
	mux, err := secureMux(o, status, checks)
	if err != nil {
		return nil, err
	}
	authn, err := reviewer(api, "authentication-kubeconfig", o.Auth.AuthenticationKubeconfig)
	if err != nil {
		return nil, err
	}
	authz, err := reviewer(api, "authorization-kubeconfig", o.Auth.AuthorizationKubeconfig)
	if err != nil {
		return nil, err
	}
	g, err := newGuard(o.Auth, authn.AuthenticationV1().TokenReviews(), authz.AuthorizationV1().SubjectAccessReviews())
	if err != nil {
		return nil, err
	}
	server, more, err := secureServer(ctx, o.Serving, g.wrap(mux))
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
func reviewer(api *rest.Config, flag, kubeconfig string) (kubernetes.Interface, error) {
	config := api
	if kubeconfig != "" {
		other, err := apiclient.Config(flag, kubeconfig, "")
		if err != nil {
			return nil, err
		}
		other.QPS, other.Burst = config.QPS, config.Burst
		config = other
	}
	config = apiclient.Named(config, "secure-port")
	if config.QPS <= 0 {
		config.QPS, config.Burst = reviewRate, reviewBurst
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the senders to the secure port: %w", err)
	}
	return client, nil
}
