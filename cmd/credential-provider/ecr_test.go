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

	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

// The accounts of the simulated AWS: the cluster's, and one whose registry others may use.
const ownAccount, otherAccount = "111122223333", "444455556666"

const (
	ownRegistry   = ownAccount + ".dkr.ecr.eu-central-1.amazonaws.com"
	otherRegistry = otherAccount + ".dkr.ecr.us-west-2.amazonaws.com"
	clusterARN    = "arn:aws:eks:eu-central-1:" + ownAccount + ":cluster/c"
)

// awsWorld is a simulated AWS as a node of a cluster sees it. The binary speaks TLS to AWS' real
// names; a name that AWS does not have is refused.
type awsWorld struct {
	*awssim.Sim
	dir                  string
	node, pull, pod, bad string // ARNs of roles
}

func startAWS(t *testing.T) *awsWorld {
	t.Helper()
	sim, err := awssim.Start(awssim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &awsWorld{Sim: sim, dir: t.TempDir()}
	all := []string{"ecr:*", "ecr-public:*", "sts:*"}
	w.node = sim.AddRole(awssim.Principal{Account: ownAccount, Name: "node", Actions: all})
	w.pull = sim.AddRole(awssim.Principal{Account: otherAccount, Name: "pull", Actions: all, Trust: awssim.Trust{
		Principals: []string{w.node, "arn:aws:iam::" + ownAccount + ":role/pod"}, ExternalID: "cluster-c", SourceARN: clusterARN, SourceAccount: ownAccount,
	}})
	w.pod = sim.AddRole(awssim.Principal{Account: ownAccount, Name: "pod", Actions: all, Trust: awssim.Trust{Subjects: []string{"system:serviceaccount:team:app"}}})
	w.bad = sim.AddRole(awssim.Principal{Account: ownAccount, Name: "powerless", Trust: awssim.Trust{Subjects: []string{"system:serviceaccount:team:app"}}})
	sim.SetInstanceRole(w.node)
	return w
}

func (w *awsWorld) file(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (w *awsWorld) token(t *testing.T, name string, lifetime time.Duration) string {
	t.Helper()
	token, err := w.ServiceAccountToken(awssim.TokenClaims{Namespace: "team", Name: name, Audience: []string{awssim.Audience}, Lifetime: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// keysOf are the environment variables of a user in a partition.
func (w *awsWorld) keysOf(partition string) []string {
	k := w.AddUser(awssim.Principal{Partition: partition, Account: ownAccount, Name: "u", Actions: []string{"ecr:*", "ecr-public:*", "sts:*"}})
	return []string{"AWS_ACCESS_KEY_ID=" + k.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + k.SecretAccessKey}
}

// awsCase is one request: as whom, for which registry.
type awsCase struct {
	image string
	// config is the section ecr; "" is --registries=ecr.
	config string
	// env gives more variables, and request, if set, the request in place of the plain one.
	env     func(*testing.T, *awsWorld) []string
	request func(*testing.T, *awsWorld, string) string
	// opens is the account and region whose registry the answer opens, "" where there has to be none;
	// "public" is ECR Public.
	opens, region string
}

func asPod(name string, annotations func(*awsWorld) map[string]string) func(*testing.T, *awsWorld, string) string {
	return func(t *testing.T, w *awsWorld, image string) string {
		return podRequest(t, image, w.token(t, name, time.Hour), annotations(w))
	}
}

func none(*awsWorld) map[string]string { return nil }

func annotated(key string) func(*awsWorld) map[string]string {
	return func(w *awsWorld) map[string]string { return map[string]string{key: w.pod} }
}

const (
	podIdentity  = "ecr:\n  identity: serviceAccount\n"
	ownKey       = "isthmus-cloud.github.io/ecr-role-arn"
	peersKey     = "eks.amazonaws.com/ecr-role-arn"
	crossAccount = "  accounts:\n    \"" + otherAccount + "\": {roleARN: \"arn:aws:iam::" + otherAccount + ":role/pull\", externalID: cluster-c, sourceARN: \"" + clusterARN + "\"}\n"
)

// awsNodeCases are those with the node's identity.
func awsNodeCases() map[string]awsCase {
	partition := func(name string) func(*testing.T, *awsWorld) []string {
		return func(_ *testing.T, w *awsWorld) []string { return w.keysOf(name) }
	}
	return map[string]awsCase{
		"instance-private":       {image: ownRegistry + "/team/app", opens: ownAccount, region: "eu-central-1"},
		"instance-port":          {image: ownRegistry + ":443/team/app", opens: ownAccount, region: "eu-central-1"},
		"instance-fips":          {image: ownAccount + ".dkr.ecr-fips.us-east-1.amazonaws.com/app", opens: ownAccount, region: "us-east-1"},
		"instance-dualstack":     {image: ownAccount + ".dkr-ecr.eu-central-1.on.aws/app", opens: ownAccount, region: "eu-central-1"},
		"instance-dualstackfips": {image: ownAccount + ".dkr-ecr-fips.us-west-2.on.aws/app", opens: ownAccount, region: "us-west-2"},
		"instance-public":        {image: "public.ecr.aws/docker/library/busybox", opens: "public"},
		"instance-publicdual":    {image: "ecr-public.aws.com/docker/library/busybox", opens: "public"},
		"instance-crossaccount":  {image: otherRegistry + "/app", config: "ecr:\n" + crossAccount, opens: otherAccount, region: "us-west-2"},
		"instance-mirror":        {image: "mirror.example:5000/library/nginx", config: "ecr:\n  mirrors:\n  - {upstream: 'mirror.example:5000', registry: " + ownRegistry + "}\n", opens: ownAccount, region: "eu-central-1"},
		"instance-fipsenv": {image: ownRegistry + "/app", opens: ownAccount, region: "eu-central-1",
			env: func(*testing.T, *awsWorld) []string { return []string{"AWS_USE_FIPS_ENDPOINT=true"} }},
		"env-china":     {image: ownAccount + ".dkr.ecr.cn-north-1.amazonaws.com.cn/app", env: partition("aws-cn"), opens: ownAccount, region: "cn-north-1"},
		"env-chinadual": {image: ownAccount + ".dkr-ecr.cn-northwest-1.on.amazonwebservices.com.cn/app", env: partition("aws-cn"), opens: ownAccount, region: "cn-northwest-1"},
		"env-sovereign": {image: ownAccount + ".dkr.ecr.eusc-de-east-1.amazonaws.eu/app", env: partition("aws-eusc"), opens: ownAccount, region: "eusc-de-east-1"},
		"env-iso":       {image: ownAccount + ".dkr.ecr.us-iso-east-1.c2s.ic.gov/app", env: partition("aws-iso"), opens: ownAccount, region: "us-iso-east-1"},
		"env-gov":       {image: ownAccount + ".dkr.ecr-fips.us-gov-west-1.amazonaws.com/app", env: partition("aws-us-gov"), opens: ownAccount, region: "us-gov-west-1"},
		"env-private":   {image: ownRegistry + "/app", env: partition("aws"), opens: ownAccount, region: "eu-central-1"},
		"env-wrongpartition": {image: ownAccount + ".dkr.ecr.cn-north-1.amazonaws.com.cn/app",
			env: func(_ *testing.T, w *awsWorld) []string { return w.keysOf("aws")[:2] }},
		"profile-private": {image: ownRegistry + "/app", config: "ecr: {profile: node}\n", opens: ownAccount, region: "eu-central-1",
			env: func(t *testing.T, w *awsWorld) []string {
				keys := strings.NewReplacer("AWS_ACCESS_KEY_ID=", "aws_access_key_id=", "AWS_SECRET_ACCESS_KEY=", "aws_secret_access_key=").Replace(strings.Join(w.keysOf("aws"), "\n"))
				return []string{"AWS_CONFIG_FILE=" + w.file(t, "config", "[profile node]\n"+keys+"\n")}
			}},
		"webidentity-private": {image: ownRegistry + "/app", opens: ownAccount, region: "eu-central-1",
			env: func(t *testing.T, w *awsWorld) []string {
				return []string{"AWS_ROLE_ARN=" + w.pod, "AWS_ROLE_SESSION_NAME=irsa", "AWS_WEB_IDENTITY_TOKEN_FILE=" + w.file(t, "token", w.token(t, "app", time.Hour))}
			}},
		"container-public": {image: "public.ecr.aws/a/b", opens: "public",
			env: func(t *testing.T, w *awsWorld) []string {
				return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + w.SetContainer(w.node, "pod-token"), "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=" + w.file(t, "eks", "pod-token")}
			}},
		"refused-role":        {image: otherRegistry + "/app", config: "ecr:\n" + strings.Replace(crossAccount, "cluster-c", "wrong", 1)},
		"refused-nocreds":     {image: ownRegistry + "/app", env: func(_ *testing.T, w *awsWorld) []string { w.SetInstanceRole(""); return nil }},
		"refused-action":      {image: ownRegistry + "/app", env: func(_ *testing.T, w *awsWorld) []string { w.SetInstanceRole(w.bad); return nil }},
		"refused-halfenv":     {image: ownRegistry + "/app", env: func(_ *testing.T, w *awsWorld) []string { return w.keysOf("aws")[:1] }},
		"refused-lookalike":   {image: ownRegistry + ".evil.example/app"},
		"refused-mirrorport":  {image: "mirror.example:5001/app", config: "ecr:\n  mirrors:\n  - {upstream: 'mirror.example:5000', registry: " + ownRegistry + "}\n"},
		"refused-token":       {image: ownRegistry + "/app", request: asPod("app", annotated(ownKey))},
		"refused-badconfig":   {image: ownRegistry + "/app", config: "ecr: {roleARN: admin, region: x}\n"},
		"anonymous-public":    {image: "public.ecr.aws/a/b", config: "anonymousRegistries: [public.ecr.aws]\necr: {}\n"},
		"anonymous-notothers": {image: ownRegistry + "/a/b", config: "anonymousRegistries: [public.ecr.aws]\necr: {}\n", opens: ownAccount, region: "eu-central-1"},
	}
}

// awsPodCases are those with the identity of service accounts. The instance has a role that could do
// everything: it must not be used.
func awsPodCases() map[string]awsCase {
	config := func(*testing.T, *awsWorld) []string { return nil }
	return map[string]awsCase{
		"pod-annotation":    {image: ownRegistry + "/app", config: podIdentity, request: asPod("app", annotated(ownKey)), opens: ownAccount, region: "eu-central-1"},
		"pod-peerskey":      {image: ownRegistry + "/app", config: podIdentity, request: asPod("app", annotated(peersKey)), opens: ownAccount, region: "eu-central-1"},
		"pod-configrole":    {image: ownRegistry + "/app", config: podIdentity + "  roleARN: arn:aws:iam::" + ownAccount + ":role/pod\n", request: asPod("app", none), opens: ownAccount, region: "eu-central-1"},
		"pod-envrole":       {image: ownRegistry + "/app", config: podIdentity, request: asPod("app", none), opens: ownAccount, region: "eu-central-1", env: func(_ *testing.T, w *awsWorld) []string { return []string{"AWS_ECR_ROLE_ARN=" + w.pod} }},
		"pod-keysonnode":    {image: ownRegistry + "/app", config: podIdentity, request: asPod("app", annotated(ownKey)), opens: ownAccount, region: "eu-central-1", env: func(_ *testing.T, w *awsWorld) []string { return w.keysOf("aws") }},
		"pod-fips":          {image: ownAccount + ".dkr.ecr-fips.us-east-1.amazonaws.com/app", config: podIdentity, request: asPod("app", annotated(ownKey)), opens: ownAccount, region: "us-east-1"},
		"pod-dualstack":     {image: ownAccount + ".dkr-ecr.us-east-1.on.aws/app", config: podIdentity, request: asPod("app", annotated(ownKey)), opens: ownAccount, region: "us-east-1"},
		"pod-fipsdualcross": {image: otherAccount + ".dkr-ecr-fips.us-west-2.on.aws/app", config: podIdentity + crossAccount, request: asPod("app", annotated(ownKey)), opens: otherAccount, region: "us-west-2"},
		"pod-public":        {image: "public.ecr.aws/a/b", config: podIdentity, request: asPod("app", annotated(ownKey)), opens: "public"},
		"pod-cross":         {image: otherRegistry + "/app", config: podIdentity + crossAccount, request: asPod("app", annotated(ownKey)), opens: otherAccount, region: "us-west-2"},
		"pod-mirror":        {image: "docker.io/library/nginx", config: podIdentity + "  mirrors: [{upstream: docker.io, registry: " + ownRegistry + "}]\n", request: asPod("app", annotated(ownKey)), opens: ownAccount, region: "eu-central-1"},
		"pod-stsregion":     {image: otherRegistry + "/app", config: podIdentity + "  stsRegion: eu-central-1\n" + crossAccount, request: asPod("app", annotated(ownKey)), opens: otherAccount, region: "us-west-2"},
		"pod-refusednone":   {image: ownRegistry + "/app", config: podIdentity, request: asPod("app", none), env: config},
		"pod-refusedtwo": {image: ownRegistry + "/app", config: podIdentity, request: asPod("app", func(w *awsWorld) map[string]string {
			return map[string]string{ownKey: w.pod, peersKey: w.bad}
		})},
		"pod-refusedarn": {image: ownRegistry + "/app", config: podIdentity, request: asPod("app", func(*awsWorld) map[string]string {
			return map[string]string{ownKey: "pod"}
		})},
		"pod-refusedsubject": {image: ownRegistry + "/app", config: podIdentity, request: asPod("evil", annotated(ownKey))},
		"pod-refusedaction": {image: ownRegistry + "/app", config: podIdentity, request: asPod("app", func(w *awsWorld) map[string]string {
			return map[string]string{ownKey: w.bad}
		})},
		"pod-refusedexpired": {image: ownRegistry + "/app", config: podIdentity, request: func(t *testing.T, w *awsWorld, image string) string {
			return podRequest(t, image, w.token(t, "app", -time.Hour), map[string]string{ownKey: w.pod})
		}},
		"pod-refusednotoken": {image: ownRegistry + "/app", config: podIdentity},
	}
}

// The peer's endpoint does not depend on the host (cloud-provider-aws#1330, #1332).
func TestComplaint1330HostDecidesOnEndpoint(t *testing.T) {
	runCases(t, isEndpointCase)
}

// The peer gives a token of its default region to whatever host is asked for (#668): here what is
// mirrored through ECR is configured, with its port.
func TestComplaint668PullThroughMirrors(t *testing.T) {
	runCases(t, isMirrorCase)
}

// Without a role the peer uses the node's credentials (#1280).
func TestComplaint1280PodsNeverUseTheNode(t *testing.T) {
	runCases(t, func(name string) bool { return isPodCase(name) && !isMirrorCase(name) && !isEndpointCase(name) })
}

// The other cases: every identity of a node × every kind of registry.
func TestExecECR(t *testing.T) {
	runCases(t, func(name string) bool { return !isPodCase(name) && !isMirrorCase(name) && !isEndpointCase(name) })
}

func isPodCase(name string) bool    { return strings.HasPrefix(name, "pod-") }
func isMirrorCase(name string) bool { return strings.Contains(name, "mirror") }
func isEndpointCase(name string) bool {
	return strings.Contains(name, "fips") || strings.Contains(name, "dual")
}

// runCases runs cases through the binary. The golden files are transcripts, with the names it spoke to.
func runCases(t *testing.T, chosen func(name string) bool) {
	cases := awsNodeCases()
	for name, tt := range awsPodCases() {
		cases[name] = tt
	}
	ran := 0
	for name, tt := range cases {
		if !chosen(name) {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runAWS(t, name, tt)
		})
	}
	if ran == 0 {
		t.Error("no case")
	}
}

func runAWS(t *testing.T, name string, tt awsCase) {
	w := startAWS(t)
	env := append(w.Env(), "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null")
	if tt.env != nil {
		env = append(env, tt.env(t, w)...)
	}
	args := []string{"--registries=ecr"}
	if tt.config != "" {
		args = []string{"--config", w.file(t, "options.yaml", configHead+tt.config)}
	}
	stdin := request("v1", tt.image)
	if tt.request != nil {
		stdin = tt.request(t, w, tt.image)
	}
	got := executeEnv(t, env, stdin, args...)
	checkOutcome(t, got)
	var spoken []string
	for _, r := range w.Requests() {
		where := r.Service
		if r.Host != "" {
			where = r.Host
		}
		if line := fmt.Sprintf("%s %s %d", where, r.Action, r.Status); !slices.Contains(spoken, line) {
			spoken = append(spoken, line)
		}
		if strings.HasPrefix(name, "pod-") && r.Service == "imds" {
			t.Errorf("the node's identity is asked for: %+v", r)
		}
		if r.Host != "" && !strings.Contains(r.UserAgent, "isthmus-credential-provider/"+versionSet) {
			t.Errorf("user agent %q", r.UserAgent)
		}
	}
	if hosts := w.Refused(); len(hosts) != 0 {
		t.Errorf("it speaks to %v, which AWS does not have", hosts)
	}
	password := w.checkOpens(t, got, tt)
	transcript := fmt.Sprintf("image: %s\noptions: %s\nspoken to:\n  %s\nexit: %d\nstdout: %s\nstderr: %s\n", tt.image, strings.ReplaceAll(strings.TrimSpace(tt.config), "\n", "\n  "),
		strings.Join(spoken, "\n  "), got.code, strings.TrimSpace(got.stdout), strings.TrimSpace(got.stderr))
	if password != "" {
		transcript = strings.ReplaceAll(transcript, password, "PASSWORD")
	}
	transcript = strings.ReplaceAll(transcript, w.dir, "DIR")
	for pattern, with := range map[string]string{`(11h44m|53m)[0-9]+s`: "${1}…s", `AKIA[0-9A-F]{16}`: "AKIA…", `at 20[0-9T:-]+Z`: "at TIME"} {
		transcript = regexp.MustCompile(pattern).ReplaceAllString(transcript, with)
	}
	golden.Compare(t, filepath.Join("testdata", "ecr", name+".golden"), transcript)
}

// checkOpens checks that the answer opens the registry it is for and no other, and returns the
// password in it.
func (w *awsWorld) checkOpens(t *testing.T, got outcome, tt awsCase) string {
	t.Helper()
	if tt.opens == "" {
		if strings.Contains(got.stdout, "password") {
			t.Error("it gives credentials")
		}
		return ""
	}
	var response struct {
		Auth map[string]struct{ Username, Password string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &response); err != nil {
		t.Errorf("no answer: %v, %s", err, got.stderr)
		return ""
	}
	host, _, _ := strings.Cut(tt.image, "/")
	login := response.Auth[host]
	if len(response.Auth) != 1 || login.Username == "" {
		t.Errorf("the answer is not for %s alone: %d entries", host, len(response.Auth))
	}
	account := tt.opens
	if account == "public" {
		account = ""
	}
	if err := w.Pull(login.Username, login.Password, account, tt.region); err != nil {
		t.Errorf("the registry refuses: %v", err)
	}
	if w.Pull(login.Username, login.Password, "999999999999", tt.region) == nil {
		t.Error("the credentials open the registry of an account that nobody allowed")
	}
	return login.Password
}

// The service's failures are told as they are; what can pass is tried again.
func TestExecECRFaults(t *testing.T) {
	html, endless := "<html>a captive portal</html>", strings.Repeat(" ", 2<<20)
	for name, tt := range map[string]struct {
		fault awssim.Fault
		want  string // "" is success
	}{
		"throttled":      {awssim.Fault{Service: "ecr", Status: 400, Code: "ThrottlingException", Message: "Rate exceeded"}, "AWS ECR (GetAuthorizationToken) asks to slow down (ThrottlingException: Rate exceeded); it is asked again later"},
		"throttled once": {awssim.Fault{Service: "ecr", Times: 1, Status: 400, Code: "ThrottlingException"}, ""},
		"broken":         {awssim.Fault{Service: "ecr", Status: 503, Code: "ServerException", Message: "oops"}, "AWS ECR (GetAuthorizationToken) does not work (503 ServerException: oops)"},
		"no JSON":        {awssim.Fault{Service: "ecr", Body: &html}, "AWS ECR (GetAuthorizationToken) answers with something else than the service does; is a proxy or another service in between?"},
		"hangs":          {awssim.Fault{Service: "ecr", Hang: true}, "AWS ECR (GetAuthorizationToken) at api.ecr.eu-central-1.amazonaws.com does not answer in time"},
		"slow metadata":  {awssim.Fault{Service: "imds", Times: 1, Status: 500}, ""},
		"redirects":      {awssim.Fault{Service: "ecr", Status: 307, Code: "x", Header: http.Header{"Location": {"https://evil.example/"}}}, "redirects to https://evil.example, which is not followed"},
		"endless":        {awssim.Fault{Service: "ecr", Body: &endless}, "AWS ECR (GetAuthorizationToken) answers with more than 1024 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startAWS(t)
			w.AddFault(tt.fault)
			env := append(w.Env(), "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null")
			timeout := "20s"
			if tt.fault.Hang {
				timeout = "9s"
			}
			got := executeEnv(t, env, request("v1", ownRegistry+"/app"), "--registries=ecr", "--timeout="+timeout)
			checkOutcome(t, got)
			if (got.code == 0) != (tt.want == "") || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("exit %d, %q, want %q", got.code, got.stderr, tt.want)
			}
			if hosts := w.Refused(); len(hosts) != 0 {
				t.Errorf("it speaks to %v", hosts)
			}
		})
	}
}

// An image of a mirror is pulled with the credentials of the ECR registry behind it, and with the
// service account's, not the node's.
func TestPullThroughECRMirror(t *testing.T) {
	w := startAWS(t)
	opens := w.Registry(ownAccount, "eu-central-1")
	host := privateRegistry(t, func(user, password string) bool { return opens(user, password) || user == "owner" })
	reference := host + "/team/app:v1"
	push(t, reference, "owner", "x")
	for _, identity := range []string{"node", "serviceAccount"} {
		stdin := request("v1", reference)
		if identity != "node" {
			stdin = podRequest(t, reference, w.token(t, "app", time.Hour), map[string]string{ownKey: w.pod})
		}
		config := fmt.Sprintf("%secr:\n  identity: %s\n  mirrors: [{upstream: %q, registry: %s}]\n", configHead, identity, host, ownRegistry)
		got := executeEnv(t, w.Env(), stdin, "--config", w.file(t, "options.yaml", config))
		if err := pullWith(t, got, reference); err != nil {
			t.Errorf("%s: %v", identity, err)
		}
	}
}
