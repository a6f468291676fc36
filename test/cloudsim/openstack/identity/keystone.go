package identity

import (
	"net/http"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// Names of what every simulator starts with.
const (
	Region       = "RegionOne"
	UserName     = "k8s"
	UserPassword = "secret"
	ProjectName  = "k8s"
	// AdminName and AdminPassword are a user with the role admin, in a project of the same name.
	AdminName     = "admin"
	AdminPassword = "admin-secret"
)

// domainID is the only domain's; its name is Default.
const domainID = "default"

type role struct{ id, name string }

type project struct{ id, name, description string }

type user struct {
	id, name, password string
	passwordExpires    *time.Time // nil for never
	defaultProject     string
	// roles are the user's in each project.
	roles map[string][]role
}

// token is immutable once made; it is valid while it is in Keystone.tokens.
type token struct {
	id        string
	methods   []string
	audit     []string
	user      *user
	projectID string // "" when unscoped
	roles     []role
	admin     bool
	issued    time.Time
	expires   time.Time
	appCred   string // id of the application credential it was made with
	trust     string // id of the trust it is scoped to
}

// User implements Caller, and so do the others.
func (t *token) User() string { return t.user.id }

// Project implements Caller.
func (t *token) Project() string { return t.projectID }

// Admin implements Caller.
func (t *token) Admin() bool { return t.admin }

type appCredential struct {
	id, name, secret, projectID string
	description                 *string
	user                        *user
	roles                       []role
	unrestricted                any
	expires                     *time.Time
}

// Keystone is the simulated service.
type Keystone struct {
	*core.Cloud
	region   string
	lifetime time.Duration // of tokens
	main     *Keystone     // the one that has the users and the tokens, of another region or itself

	projects []*project
	users    []*user
	roles    []role
	tokens   map[string]*token
	appCreds []*appCredential
	trusts   []*trust
	catalog  []catalogService
	further  []furtherRegion

	federations []Federation
}

// furtherRegion is another simulator in the catalog of this one.
type furtherRegion struct {
	name    string
	catalog []catalogService
}

type catalogService struct {
	id, typ, name string
	url           func(projectID string) string
	endpoints     [3]string // ids of public, internal, admin
}

var interfaces = [3]string{"public", "internal", "admin"}

// New makes Keystone with the users and projects that every simulator has, or, with a main one, those
// that the main one has, whose catalog then gets this region's endpoints.
func New(cloud *core.Cloud, main *Keystone, region string, lifetime time.Duration) *Keystone {
	s := &Keystone{Cloud: cloud, main: main, region: region, lifetime: lifetime}
	s.tokens = map[string]*token{}
	s.catalog = s.newCatalog()
	if main != nil {
		main.Lock()
		defer main.Unlock()
		s.roles, s.projects, s.users = main.roles, main.projects, main.users
		main.further = append(main.further, furtherRegion{region, s.catalog})
		return s
	}
	s.main = s
	for _, name := range []string{"admin", "member", "reader", "creator", "load-balancer_member"} {
		s.roles = append(s.roles, role{id: core.NewHex(), name: name})
	}
	k8s := &project{id: core.NewHex(), name: ProjectName}
	adm := &project{id: core.NewHex(), name: AdminName, description: "Bootstrap project for initializing the cloud."}
	s.projects = []*project{k8s, adm}
	s.users = []*user{
		{id: core.NewHex(), name: UserName, password: UserPassword, defaultProject: k8s.id,
			roles: map[string][]role{k8s.id: s.roles[1:]}},
		{id: core.NewHex(), name: AdminName, password: AdminPassword,
			roles: map[string][]role{adm.id: s.roles[:3], k8s.id: s.roles[:3]}},
	}
	return s
}

// Owner is the user, and its project, to whom belongs what tests make past the API.
func (s *Keystone) Owner() core.Owner {
	return core.Owner{UserID: s.users[0].id, ProjectID: s.users[0].defaultProject}
}

// ProjectIDs are the ids of all projects.
func (s *Keystone) ProjectIDs() []string {
	var out []string
	for _, p := range s.projects {
		out = append(out, p.id)
	}
	return out
}

// ProjectID is the id of the project with a name.
func (s *Keystone) ProjectID(name string) string {
	i := slices.IndexFunc(s.projects, func(p *project) bool { return p.name == name })
	return s.projects[i].id
}

// AuthURL is Keystone's address.
func (s *Keystone) AuthURL() string { return s.main.URL + "/identity/v3" }

func (s *Keystone) newCatalog() []catalogService {
	var catalog []catalogService
	at := func(path string) func(string) string { return func(string) string { return s.URL + path } }
	volume := func(project string) string { return s.URL + "/volume/v3/" + project }
	for _, c := range []catalogService{
		{typ: "compute", name: "nova", url: at("/compute/v2.1")},
		{typ: "image", name: "glance", url: at("/image")},
		{typ: "block-storage", name: "cinder", url: volume},
		{typ: "network", name: "neutron", url: at("/network")},
		{typ: "volumev3", name: "cinderv3", url: volume},
		{typ: "load-balancer", name: "octavia", url: at("/load-balancer")},
		{typ: "identity", name: "keystone", url: func(string) string { return s.AuthURL() }},
		{typ: "key-manager", name: "barbican", url: at("/key-manager")},
	} {
		c.id, c.endpoints = core.NewHex(), [3]string{core.NewHex(), core.NewHex(), core.NewHex()}
		catalog = append(catalog, c)
	}
	return catalog
}

// Service is Keystone's part of the API.
func (s *Keystone) Service() *core.Service {
	return &core.Service{Name: "identity", Prefix: "/identity", ErrorBody: s.identityError, Routes: s.routes, NoRoute: identityNoRoute()}
}

func (s *Keystone) routes(r *core.Router) {
	r.Open("GET /{$}", s.identityVersions)
	r.Open("GET /v3", s.identityVersion)
	r.Open("GET /v3/{$}", s.identityVersion)
	r.Open("POST /v3/auth/tokens", s.issueToken)
	r.Open("POST /v3/OS-FEDERATION/identity_providers/{idp}/protocols/{protocol}/auth", s.federate)
	r.Handle("GET /v3/auth/tokens", s.validateToken)
	r.Handle("DELETE /v3/auth/tokens", s.revokeToken)
	r.Handle("GET /v3/auth/catalog", s.showCatalog)
	r.Handle("GET /v3/auth/projects", s.listOwnProjects)
	r.Handle("GET /v3/auth/domains", s.listOwnDomains)
	r.Handle("GET /v3/auth/system", s.listOwnSystem)
	r.Handle("GET /v3/projects", s.adminOnly("identity:list_projects", s.listProjects))
	r.Handle("GET /v3/projects/{id}", s.showProject)
	r.Handle("GET /v3/users", s.adminOnly("identity:list_users", s.listUsers))
	r.Handle("GET /v3/users/{user}", s.showUser)
	r.Handle("GET /v3/users/{user}/projects", s.listUserProjects)
	r.Handle("GET /v3/domains", s.adminOnly("identity:list_domains", s.listDomains))
	r.Handle("GET /v3/domains/{id}", s.showDomain)
	r.Handle("GET /v3/roles", s.adminOnly("identity:list_roles", s.listRoles))
	r.Handle("GET /v3/regions", s.listRegions)
	r.Handle("GET /v3/services", s.adminOnly("identity:list_services", s.listServices))
	r.Handle("GET /v3/services/{id}", s.adminOnly("identity:get_service", s.showService))
	r.Handle("GET /v3/endpoints", s.adminOnly("identity:list_endpoints", s.listEndpoints))
	r.Handle("GET /v3/OS-TRUST/trusts", s.listTrusts)
	r.Handle("POST /v3/OS-TRUST/trusts", s.createTrust)
	r.Handle("GET /v3/OS-TRUST/trusts/{id}", s.showTrust)
	r.Handle("DELETE /v3/OS-TRUST/trusts/{id}", s.deleteTrust)
	r.Handle("GET /v3/users/{user}/application_credentials", s.listAppCredentials)
	r.Handle("POST /v3/users/{user}/application_credentials", s.createAppCredential)
	r.Handle("GET /v3/users/{user}/application_credentials/{id}", s.showAppCredential)
	r.Handle("DELETE /v3/users/{user}/application_credentials/{id}", s.deleteAppCredential)
}

// identityError is Keystone's error body.
func (s *Keystone) identityError(_ *core.Call, e *core.Error) (string, any) {
	if e.Status == http.StatusUnauthorized {
		e.Header = http.Header{"Www-Authenticate": {`Keystone uri="` + s.AuthURL() + `"`}}
		if e.Message == http.StatusText(e.Status) {
			e.Message = core.AuthenticationRequired
		}
	}
	return "", core.Object{"error": core.Object{"code": e.Status, "message": e.Message, "title": http.StatusText(e.Status)}}
}

// malformedRequest is Keystone's 400.
func malformedRequest(what string) *core.Error {
	return core.Errorf(http.StatusBadRequest, "", "%s The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.", what)
}

func identityNoRoute() *core.Error {
	return &core.Error{
		Status:      http.StatusNotFound,
		ContentType: "text/html; charset=utf-8",
		Body: []byte("<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n" +
			"<p>The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again.</p>\n"),
	}
}

func forbiddenAction(action string) *core.Error {
	return core.Errorf(http.StatusForbidden, "", "You are not authorized to perform the requested action: %s.", action)
}

func (s *Keystone) adminOnly(action string, h core.HandlerFunc) core.HandlerFunc {
	return func(c *core.Call) (*core.Reply, error) {
		if !c.Admin() {
			return nil, forbiddenAction(action)
		}
		return h(c)
	}
}

// Caller is whom a token of the Keystone that is in charge stands for; the lock is not held.
func (s *Keystone) Caller(id string) (core.Caller, bool) {
	s.main.Lock()
	defer s.main.Unlock()
	t := s.main.validToken(id)
	return t, t != nil
}

// tokenOf is the token that a call came with.
func tokenOf(c *core.Call) *token { return c.Caller.(*token) }

// validToken returns the token with the id while it is valid, nil otherwise; lock held.
func (s *Keystone) validToken(id string) *token {
	t := s.tokens[id]
	if t == nil || !time.Now().Before(t.expires) {
		return nil
	}
	if t.appCred != "" && s.liveAppCredential(t.appCred) == nil || t.trust != "" && s.findTrust(t.trust) == nil {
		return nil
	}
	return t
}

// liveAppCredential returns the application credential if it exists and has not expired; lock held.
func (s *Keystone) liveAppCredential(id string) *appCredential {
	i := slices.IndexFunc(s.appCreds, func(a *appCredential) bool { return a.id == id })
	if i < 0 {
		return nil
	}
	a := s.appCreds[i]
	if a.expires != nil && !time.Now().Before(*a.expires) {
		return nil
	}
	return a
}
