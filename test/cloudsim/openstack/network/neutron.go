package network

import (
	"net/http"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/network/resource"
)

func (s *Neutron) netKinds() []*resource.Kind {
	kinds := []*resource.Kind{
		s.networkKind(), s.subnetKind(), s.portKind(), s.routerKind(), s.floatingIPKind(), s.securityGroupKind(), s.securityRuleKind(),
	}
	if s.opts.Trunks {
		kinds = append(kinds, s.trunkKind())
	}
	return kinds
}

// Service is Neutron's part of the API.
func (s *Neutron) Service() *core.Service {
	return &core.Service{Name: "network", Prefix: "/network", ErrorBody: networkError, Routes: s.routes, NoRoute: core.Errorf(http.StatusNotFound, "HTTPNotFound", "The resource could not be found.")}
}

func (s *Neutron) routes(r *core.Router) {
	r.Open("GET /{$}", networkVersions)
	r.Handle("GET /v2.0/{$}", networkResources)
	r.Handle("GET /v2.0/extensions", s.listExtensions)
	r.Handle("GET /v2.0/extensions/{alias}", s.showExtension)
	s.quotaRoutes(r)
	for _, path := range []string{"subnetpools", "agents", "availability_zones", "address-groups", "address-scopes"} {
		key := strings.ReplaceAll(path, "-", "_")
		r.Handle("GET /v2.0/"+path, func(*core.Call) (*core.Reply, error) { return core.OK(core.Object{key: []any{}}) })
	}
	for _, k := range s.netKinds() {
		k.Routes(r)
	}
	s.routerActions(r)
	if s.opts.Trunks {
		s.trunkRoutes(r)
	}
}

// networkError is Neutron's error body.
func networkError(_ *core.Call, e *core.Error) (string, any) {
	kind := e.Kind
	if kind == "" {
		kind = "HTTP" + strings.ReplaceAll(http.StatusText(e.Status), " ", "")
	}
	return "", core.Object{"NeutronError": core.Object{"type": kind, "message": e.Message, "detail": ""}}
}
