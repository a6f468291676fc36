package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	gcpsim "github.com/isthmus-cloud/isthmus/test/cloudsim/gcp"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

// The accounts of the simulated Google Cloud.
const (
	nodeAccount = "node@project.iam.gserviceaccount.com"
	keyAccount  = "key@project.iam.gserviceaccount.com"
	pullAccount = "pull@project.iam.gserviceaccount.com"
	powerless   = "powerless@project.iam.gserviceaccount.com"
	person      = "jane@example.com"
)

const (
	arImage      = "europe-docker.pkg.dev/project/repo/app"
	poolProvider = "projects/123456/locations/global/workloadIdentityPools/nodes/providers/cluster"
	gkeProvider  = "identitynamespace:project.svc.id.goog:https://container.googleapis.com/v1/projects/project/locations/l/clusters/c"
	podSubject   = "system:serviceaccount:team:app"
)

// gcpWorld is a simulated Google Cloud as a node of a cluster sees it. The binary speaks TLS to Google's
// real names; a name that Google does not have is refused.
type gcpWorld struct {
	*gcpsim.Sim
	dir      string
	pool     gcpsim.Provider
	audience string
}

func startGCP(t *testing.T) *gcpWorld {
	t.Helper()
	return startGCPWith(t, gcpsim.Options{})
}

func startGCPWith(t *testing.T, o gcpsim.Options) *gcpWorld {
	t.Helper()
	sim, err := gcpsim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &gcpWorld{Sim: sim, dir: t.TempDir(), pool: gcpsim.Provider{Name: poolProvider, Subjects: []string{podSubject}}}
	for _, email := range []string{nodeAccount, keyAccount, pullAccount, powerless} {
		sim.AddAccount(email)
	}
	w.audience = sim.AddProvider(w.pool)
	gke := gcpsim.Provider{Name: gkeProvider}
	sim.AddProvider(gke)
	pod, fleetPod := w.pool.Principal(podSubject), gke.Principal(podSubject)
	for _, member := range []string{gcpsim.Account(nodeAccount), gcpsim.Account(keyAccount), gcpsim.Account(pullAccount), "user:" + person, pod, fleetPod} {
		sim.AllowPull("project", member)
	}
	for _, member := range []string{gcpsim.Account(nodeAccount), gcpsim.Account(keyAccount), "user:" + person, pod} {
		sim.AllowActAs(pullAccount, member)
	}
	sim.SetInstance(nodeAccount, gcpsim.ScopeStorage, "https://www.googleapis.com/auth/iam")
	return w
}

func (w *gcpWorld) file(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (w *gcpWorld) token(t *testing.T, subject string, audience string, lifetime time.Duration) string {
	t.Helper()
	token, err := w.ServiceAccountToken(cloudsim.TokenClaims{Namespace: "team", Name: subject, Audience: []string{audience}, Lifetime: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// edited is a credentials file with some fields replaced, or taken away (nil).
func edited(t *testing.T, file []byte, with map[string]any) []byte {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(file, &fields); err != nil {
		t.Fatal(err)
	}
	for k, v := range with {
		fields[k] = v
		if v == nil {
			delete(fields, k)
		}
	}
	out, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *gcpWorld) key(t *testing.T) []byte {
	t.Helper()
	key, err := w.AddKey(keyAccount)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (w *gcpWorld) user(t *testing.T) []byte {
	t.Helper()
	user, err := w.AddUser(person)
	if err != nil {
		t.Fatal(err)
	}
	return user
}

const impersonatePull = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/" + pullAccount + ":generateAccessToken"

// external is a file of workload identity federation; the pod's token is the node's, too.
func (w *gcpWorld) external(t *testing.T, with map[string]any) []byte {
	t.Helper()
	token := w.file(t, "subject", []byte(w.token(t, "app", w.audience, time.Hour)+"\n"))
	base := fmt.Sprintf(`{"type":"external_account","audience":%q,"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token","universe_domain":"googleapis.com","credential_source":{"file":%q}}`, w.audience, token)
	return edited(t, []byte(base), with)
}

func (w *gcpWorld) impersonated(t *testing.T, source []byte) []byte {
	t.Helper()
	return fmt.Appendf(nil, `{"type":"impersonated_service_account","service_account_impersonation_url":%q,"delegates":[],"source_credentials":%s}`, impersonatePull, source)
}

// gcpCase is one request: as whom, for which registry.
type gcpCase struct {
	image string
	// config is the section; "" is --registries=artifactregistry. POOL in it is the provider.
	config string
	// credentials, if set, make the file of GOOGLE_APPLICATION_CREDENTIALS; env gives more
	// variables, and request the request in place of the plain one.
	credentials func(*testing.T, *gcpWorld) []byte
	env         func(*testing.T, *gcpWorld) []string
	request     func(*testing.T, *gcpWorld, string) string
	// as is whose token the answer has, "" where there has to be none; scope is its scope.
	as    string
	scope string
}

func keyFile(t *testing.T, w *gcpWorld) []byte { return w.key(t) }

// keyWith is a key's file with a field changed.
func keyWith(name string, value any) func(*testing.T, *gcpWorld) []byte {
	return func(t *testing.T, w *gcpWorld) []byte { return edited(t, w.key(t), map[string]any{name: value}) }
}

func externalWith(with map[string]any) func(*testing.T, *gcpWorld) []byte {
	return func(t *testing.T, w *gcpWorld) []byte { return w.external(t, with) }
}

func gcpVariable(value string) func(*testing.T, *gcpWorld) []string {
	return func(*testing.T, *gcpWorld) []string { return []string{value} }
}

// gcpNodeCases are those with the node's identity that work.
func gcpNodeCases() map[string]gcpCase {
	node, key, pull, jane := gcpsim.Account(nodeAccount), gcpsim.Account(keyAccount), gcpsim.Account(pullAccount), "user:"+person
	pool := gcpsim.Provider{Name: poolProvider}
	pod := pool.Principal(podSubject)
	return map[string]gcpCase{
		"instance-ar":        {image: arImage, as: node},
		"instance-gcr":       {image: "gcr.io/project/app", as: node},
		"instance-regional":  {image: "eu.gcr.io/project/app", as: node},
		"instance-container": {image: "container.cloud.google.com/project/app", as: node},
		"instance-port":      {image: "europe-docker.pkg.dev:443/project/repo/app", as: node},
		"instance-mirror":    {image: "mirror.example:5000/library/nginx", as: node, config: "artifactregistry:\n  mirrors: [{upstream: 'mirror.example:5000', registry: europe-docker.pkg.dev}]\n"},
		"instance-named":     {image: arImage, as: node, config: "artifactregistry: {instanceAccount: " + nodeAccount + "}\n", credentials: keyFile},
		"instance-scope":     {image: arImage, as: node, scope: gcpsim.ScopeReadOnly, config: "artifactregistry: {scope: cloud-platform.read-only}\n", env: func(_ *testing.T, w *gcpWorld) []string { w.SetInstance(nodeAccount, gcpsim.ScopeReadOnly); return nil }},
		"instance-as":        {image: arImage, as: pull, config: "artifactregistry: {impersonate: " + pullAccount + "}\n"},
		"key-ar":             {image: arImage, as: key, credentials: keyFile},
		"key-oldurl":         {image: arImage, as: key, credentials: keyWith("token_uri", "https://accounts.google.com/o/oauth2/token")},
		"key-nourl":          {image: arImage, as: key, credentials: keyWith("token_uri", nil)},
		"key-gcloud": {image: arImage, as: key, env: func(t *testing.T, w *gcpWorld) []string {
			w.file(t, "application_default_credentials.json", w.key(t))
			return []string{"CLOUDSDK_CONFIG=" + w.dir}
		}},
		"key-configured": {image: arImage, as: key, config: "artifactregistry: {credentialsFile: DIR/key.json}\n", env: func(t *testing.T, w *gcpWorld) []string {
			w.file(t, "key.json", w.key(t))
			return []string{"GOOGLE_APPLICATION_CREDENTIALS=/nowhere"}
		}},
		"user-ar":       {image: arImage, as: jane, scope: gcpsim.ScopePlatform, credentials: func(t *testing.T, w *gcpWorld) []byte { return w.user(t) }},
		"external-file": {image: arImage, as: pod, credentials: externalWith(nil)},
		"external-json": {image: arImage, as: pod, credentials: func(t *testing.T, w *gcpWorld) []byte {
			token := w.file(t, "subject.json", fmt.Appendf(nil, `{"id_token":%q}`, w.token(t, "app", w.audience, time.Hour)))
			return w.external(t, map[string]any{"credential_source": map[string]any{"file": token, "format": map[string]any{"type": "json", "subject_token_field_name": "id_token"}}})
		}},
		"external-url": {image: arImage, as: pod, credentials: func(t *testing.T, w *gcpWorld) []byte {
			url := subjectServer(t, w.token(t, "app", w.audience, time.Hour))
			return w.external(t, map[string]any{"credential_source": map[string]any{"url": url, "headers": map[string]string{"Authorization": "s3cret-of-the-source"}}})
		}},
		"external-region":     {image: arImage, as: pod, credentials: externalWith(map[string]any{"token_url": "https://sts.europe-west1.rep.googleapis.com/v1/token"})},
		"external-as":         {image: arImage, as: pull, credentials: externalWith(map[string]any{"service_account_impersonation_url": impersonatePull, "service_account_impersonation": map[string]int{"token_lifetime_seconds": 1800}})},
		"impersonated":        {image: arImage, as: pull, credentials: func(t *testing.T, w *gcpWorld) []byte { return w.impersonated(t, w.key(t)) }},
		"impersonateduser":    {image: arImage, as: pull, credentials: func(t *testing.T, w *gcpWorld) []byte { return w.impersonated(t, w.user(t)) }},
		"anonymous-notothers": {image: arImage, as: node, config: "anonymousRegistries: [mirror.gcr.io]\nartifactregistry: {}\n"},
	}
}

// subjectServer serves a subject token to who has the password.
func subjectServer(t *testing.T, token string) string {
	t.Helper()
	host := serveLocally(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "s3cret-of-the-source" {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(token)) // the client may have gone
	})
	return "http://" + host + "/token"
}

// gcpRefusedCases are those with the node's identity that must not give anything.
func gcpRefusedCases() map[string]gcpCase {
	broken := func(text string) func(*testing.T, *gcpWorld) []byte {
		return func(*testing.T, *gcpWorld) []byte { return []byte(text) }
	}
	source := func(with map[string]any) func(*testing.T, *gcpWorld) []byte {
		return externalWith(map[string]any{"credential_source": with})
	}
	return map[string]gcpCase{
		"refused-noaccount":    {image: arImage, env: func(_ *testing.T, w *gcpWorld) []string { w.SetInstance(""); return nil }},
		"refused-otheraccount": {image: arImage, config: "artifactregistry: {instanceAccount: " + pullAccount + "}\n"},
		"refused-scope": {image: arImage, env: func(_ *testing.T, w *gcpWorld) []string {
			w.SetInstance(nodeAccount, "https://www.googleapis.com/auth/logging.write")
			return nil
		}},
		"refused-nometadata": {image: arImage, env: gcpVariable("GCE_METADATA_HOST=127.0.0.1:1")},
		"refused-iamscope": {image: arImage, config: "artifactregistry: {impersonate: " + pullAccount + "}\n", env: func(_ *testing.T, w *gcpWorld) []string {
			w.SetInstance(nodeAccount, gcpsim.ScopeStorage)
			return nil
		}},
		"refused-metadatahost":  {image: arImage, env: gcpVariable("GCE_METADATA_HOST=metadata.evil.example")},
		"refused-deletedkey":    {image: arImage, credentials: func(t *testing.T, w *gcpWorld) []byte { defer w.DeleteKeys(keyAccount); return w.key(t) }},
		"refused-keyhost":       {image: arImage, credentials: keyWith("token_uri", "https://oauth2.googleapis.com.evil.example/token")},
		"refused-keybucket":     {image: arImage, credentials: keyWith("token_uri", "https://storage.googleapis.com/upload/bucket")},
		"refused-keyhttp":       {image: arImage, credentials: keyWith("token_uri", "http://oauth2.googleapis.com/token")},
		"refused-keyuniverse":   {image: arImage, credentials: keyWith("universe_domain", "evil.example")},
		"refused-keypem":        {image: arImage, credentials: keyWith("private_key", "s3cret")},
		"refused-keyemail":      {image: arImage, credentials: keyWith("client_email", "key@evil.example")},
		"refused-keybroken":     {image: arImage, credentials: broken(`{"type":"service_account","private_key":"s3cret`)},
		"refused-keytype":       {image: arImage, credentials: keyWith("type", "gdch_service_account")},
		"refused-keymissing":    {image: arImage, env: gcpVariable("GOOGLE_APPLICATION_CREDENTIALS=/nowhere/key.json")},
		"refused-revokeduser":   {image: arImage, credentials: func(t *testing.T, w *gcpWorld) []byte { defer w.RevokeUsers(); return w.user(t) }},
		"refused-executable":    {image: arImage, credentials: source(map[string]any{"executable": map[string]any{"command": "/bin/sh -c s3cret"}})},
		"refused-aws":           {image: arImage, credentials: source(map[string]any{"environment_id": "aws1", "region_url": "http://169.254.169.254/latest"})},
		"refused-sourceurl":     {image: arImage, credentials: source(map[string]any{"url": "http://token.example/token"})},
		"refused-sourcefile":    {image: arImage, credentials: source(map[string]any{"file": "/nowhere/token"})},
		"refused-stshost":       {image: arImage, credentials: externalWith(map[string]any{"token_url": "https://sts.googleapis.com@evil.example/v1/token"})},
		"refused-stsbucket":     {image: arImage, credentials: externalWith(map[string]any{"token_url": "https://storage.googleapis.com/v1/token"})},
		"refused-iamhost":       {image: arImage, credentials: externalWith(map[string]any{"service_account_impersonation_url": strings.Replace(impersonatePull, "googleapis.com", "evil.example", 1)})},
		"refused-impersonate":   {image: arImage, config: "artifactregistry: {impersonate: " + powerless + "}\n"},
		"refused-lookalike":     {image: "gcr.io.evil.example/project/app"},
		"refused-lookalikehost": {image: "evilpkg.dev/project/app"},
		"refused-otherport":     {image: "europe-docker.pkg.dev:5000/project/app"},
		"refused-mirrorport":    {image: "mirror.example:5001/app", config: "artifactregistry:\n  mirrors: [{upstream: 'mirror.example:5000', registry: europe-docker.pkg.dev}]\n"},
		"refused-token":         {image: arImage, request: gcpPod("app", nil)},
		"refused-badconfig":     {image: arImage, config: "artifactregistry: {scope: admin, impersonate: me, workloadIdentityProvider: x, mirrors: [{upstream: gcr.io, registry: quay.io}]}\n"},
	}
}

func gcpPod(name string, annotations map[string]string) func(*testing.T, *gcpWorld, string) string {
	return func(t *testing.T, w *gcpWorld, image string) string {
		return podRequest(t, image, w.token(t, name, "https:"+w.audience, time.Hour), annotations)
	}
}

const (
	ownAccountKey  = "isthmus-cloud.github.io/gcp-service-account"
	peerAccountKey = "iam.gke.io/gcp-service-account"
	gcpPodIdentity = "artifactregistry:\n  identity: serviceAccount\n  workloadIdentityProvider: " + poolProvider + "\n"
)

// gcpPodCases are those with the identity of service accounts. The instance has an account that could do
// everything: it must not be used.
func gcpPodCases() map[string]gcpCase {
	pull := gcpsim.Account(pullAccount)
	pool, gke := gcpsim.Provider{Name: poolProvider}, gcpsim.Provider{Name: gkeProvider}
	pod := pool.Principal(podSubject)
	as := func(key, email string) func(*testing.T, *gcpWorld, string) string {
		return gcpPod("app", map[string]string{key: email})
	}
	tokenFor := func(audience string, life time.Duration) func(*testing.T, *gcpWorld, string) string {
		return func(t *testing.T, w *gcpWorld, image string) string {
			return podRequest(t, image, w.token(t, "app", audience, life), nil)
		}
	}
	return map[string]gcpCase{
		"pod-direct":       {image: arImage, config: gcpPodIdentity, request: gcpPod("app", nil), as: pod},
		"pod-gcr":          {image: "gcr.io/project/app", config: gcpPodIdentity, request: gcpPod("app", nil), as: pod},
		"pod-annotation":   {image: arImage, config: gcpPodIdentity, request: as(ownAccountKey, pullAccount), as: pull},
		"pod-peerskey":     {image: arImage, config: gcpPodIdentity, request: as(peerAccountKey, pullAccount), as: pull},
		"pod-peersoptin":   {image: arImage, config: gcpPodIdentity, request: as("iam.gke.io/enable-wi-image-pull", "true"), as: pod},
		"pod-configured":   {image: arImage, config: gcpPodIdentity + "  impersonate: " + pullAccount + "\n", request: gcpPod("app", nil), as: pull},
		"pod-httpsname":    {image: arImage, config: strings.Replace(gcpPodIdentity, "projects/", "https://iam.googleapis.com/projects/", 1), request: gcpPod("app", nil), as: pod},
		"pod-gke":          {image: arImage, config: strings.Replace(gcpPodIdentity, poolProvider, "'"+gkeProvider+"'", 1), request: tokenFor("project.svc.id.goog", time.Hour), as: gke.Principal(podSubject)},
		"pod-mirror":       {image: "docker.io/library/nginx", config: gcpPodIdentity + "  mirrors: [{upstream: docker.io, registry: europe-docker.pkg.dev}]\n", request: gcpPod("app", nil), as: pod},
		"pod-filesonnode":  {image: arImage, config: gcpPodIdentity, credentials: keyFile, request: gcpPod("app", nil), as: pod},
		"pod-refusedoptin": {image: arImage, config: gcpPodIdentity, request: as("iam.gke.io/enable-wi-image-pull", "false")},
		"pod-refusedtwo": {image: arImage, config: gcpPodIdentity, request: gcpPod("app", map[string]string{
			ownAccountKey: pullAccount, peerAccountKey: powerless})},
		"pod-refusedemail":      {image: arImage, config: gcpPodIdentity, request: as(ownAccountKey, "pull/../../x@evil.example")},
		"pod-refusedactas":      {image: arImage, config: gcpPodIdentity, request: as(ownAccountKey, powerless)},
		"pod-refusednoaccount":  {image: arImage, config: gcpPodIdentity, request: as(ownAccountKey, "gone@project.iam.gserviceaccount.com")},
		"pod-refusedsubject":    {image: arImage, config: gcpPodIdentity, request: gcpPod("evil", nil)},
		"pod-refusedaudience":   {image: arImage, config: gcpPodIdentity, request: tokenFor("sts.amazonaws.com", time.Hour)},
		"pod-refusedexpired":    {image: arImage, config: gcpPodIdentity, request: tokenFor("//iam.googleapis.com/"+poolProvider, -time.Hour)},
		"pod-refusedprovider":   {image: arImage, config: strings.Replace(gcpPodIdentity, "providers/cluster", "providers/gone", 1), request: gcpPod("app", nil)},
		"pod-refusednoprovider": {image: arImage, config: "artifactregistry: {identity: serviceAccount}\n", request: gcpPod("app", nil)},
		"pod-refusednodefiles":  {image: arImage, config: gcpPodIdentity + "  credentialsFile: /etc/key.json\n", request: gcpPod("app", nil)},
		"pod-refusednotoken":    {image: arImage, config: gcpPodIdentity},
	}
}

// Every identity of a node.
func TestExecArtifactRegistry(t *testing.T) { runGCPCases(t, gcpNodeCases()) }

// The peer answers with nothing, exit code 0, whatever goes wrong, and the kubelet keeps that. It
// also gives the node's token to whatever registry is asked for.
func TestDefectFailuresAreNoEmptyAnswers(t *testing.T) { runGCPCases(t, gcpRefusedCases()) }

// The peer uses the node's account for service accounts without the annotation.
func TestDefectGCPPodsNeverUseTheNode(t *testing.T) { runGCPCases(t, gcpPodCases()) }

// runGCPCases runs cases through the binary. The golden files are transcripts, with the names it spoke to.
func runGCPCases(t *testing.T, cases map[string]gcpCase) {
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runGCP(t, name, tt)
		})
	}
}

// execGCP runs the binary for a case.
func execGCP(t *testing.T, w *gcpWorld, tt gcpCase, more ...string) outcome {
	t.Helper()
	env := w.Env()
	if tt.credentials != nil {
		env = append(env, "GOOGLE_APPLICATION_CREDENTIALS="+w.file(t, "credentials.json", tt.credentials(t, w)))
	}
	if tt.env != nil {
		env = append(env, tt.env(t, w)...)
	}
	args := []string{"--registries=artifactregistry"}
	if tt.config != "" {
		args = []string{"--config", w.file(t, "options.yaml", []byte(configHead+strings.ReplaceAll(tt.config, "DIR", w.dir)))}
	}
	stdin := request("v1", tt.image)
	if tt.request != nil {
		stdin = tt.request(t, w, tt.image)
	}
	got := executeEnv(t, env, stdin, append(args, more...)...)
	checkOutcome(t, got)
	return got
}

func runGCP(t *testing.T, name string, tt gcpCase) {
	w := startGCP(t)
	got := execGCP(t, w, tt)
	var spoken []string
	for _, r := range w.Requests() {
		where := r.Service
		if r.Host != "" {
			where = r.Host
		}
		if line := fmt.Sprintf("%s %s %d", where, r.Action, r.Status); !slices.Contains(spoken, line) {
			spoken = append(spoken, line)
		}
		if strings.HasPrefix(name, "pod-") && r.Service == "metadata" {
			t.Errorf("the node's identity is asked for: %+v", r)
		}
		if r.UserAgent != "isthmus-credential-provider/"+versionSet {
			t.Errorf("user agent %q", r.UserAgent)
		}
	}
	if hosts := w.Refused(); len(hosts) != 0 {
		t.Errorf("it speaks to %v, which Google does not have", hosts)
	}
	password := w.checkOpens(t, got, tt)
	transcript := fmt.Sprintf("image: %s\noptions: %s\nspoken to:\n  %s\nexit: %d\nstdout: %s\nstderr: %s\n", tt.image, strings.ReplaceAll(strings.TrimSpace(tt.config), "\n", "\n  "),
		strings.Join(spoken, "\n  "), got.code, strings.TrimSpace(got.stdout), strings.TrimSpace(got.stderr))
	if password != "" {
		transcript = strings.ReplaceAll(transcript, password, "PASSWORD")
	}
	transcript = strings.ReplaceAll(transcript, w.dir, "DIR")
	for pattern, with := range map[string]string{`"(5[34]m|2[67]m)[0-9]+s"`: `"…m"`, `key [0-9a-f]{40}`: "key ID", `at [0-9]{10} is`: "at TIME is", `at 20[0-9T:-]+Z`: "at TIME"} {
		transcript = regexp.MustCompile(pattern).ReplaceAllString(transcript, with)
	}
	golden.Compare(t, filepath.Join("testdata", "artifactregistry", name+".golden"), transcript)
}

// checkOpens checks that the answer is for the image's registry alone, that its token is whose it has
// to be and has no wider scope, and returns the token.
func (w *gcpWorld) checkOpens(t *testing.T, got outcome, tt gcpCase) string {
	t.Helper()
	if tt.as == "" {
		if got.code == 0 || strings.Contains(got.stdout, "password") {
			t.Errorf("exit %d: %s", got.code, got.stdout)
		}
		return ""
	}
	login := loginOf(t, got, tt.image)
	scope := tt.scope
	if scope == "" {
		scope = gcpsim.ScopeStorage
	}
	if member, scopes := w.TokenInfo(login.Password); member != tt.as || !slices.Equal(scopes, []string{scope}) {
		t.Errorf("the token is that of %q with %v, want %s with %s", member, scopes, tt.as, scope)
	}
	if err := w.Pull(login.Username, login.Password, "project/repo/app"); err != nil {
		t.Errorf("the registry refuses: %v", err)
	}
	if w.Pull(login.Username, login.Password, "others/repo/app") == nil {
		t.Error("the token opens what nobody allowed")
	}
	return login.Password
}

type registryLogin struct{ Username, Password string }

// loginOf is the login in an answer, which has to be for the image's registry alone.
func loginOf(t *testing.T, got outcome, image string) registryLogin {
	t.Helper()
	var response struct {
		CacheKeyType string
		Auth         map[string]registryLogin
	}
	if err := json.Unmarshal([]byte(got.stdout), &response); err != nil {
		t.Fatalf("no answer: %v, %s", err, got.stderr)
	}
	host, _, _ := strings.Cut(image, "/")
	login := response.Auth[host]
	if len(response.Auth) != 1 || login.Username == "" || response.CacheKeyType != "Registry" {
		t.Fatalf("the answer is not for %s alone: %s", host, response.CacheKeyType)
	}
	return login
}
