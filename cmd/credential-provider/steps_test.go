package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// step is a service on the way to credentials, of those that combinations have.
type step struct {
	with combination
	// hang lets a service answer nothing more, and asked is how often it was asked.
	hang  func(service string)
	asked func(service string) int
	front *cloudsim.Front // nil for OpenStack
}

func ofFront(with combination, sim *cloudsim.Front) step {
	return step{with, func(service string) { sim.AddFault(cloudsim.Fault{Service: service, Hang: true}) }, func(service string) int {
		n := 0
		for _, r := range sim.Requests() {
			if r.Service == service {
				n++
			}
		}
		return n
	}, sim}
}

// awsStep is a request as the node with credentials of its environment, or as a pod.
func awsStep(env func(*testing.T, *awsWorld) []string) func(*testing.T) step {
	return func(t *testing.T) step {
		w := startAWS(t)
		c := combination{section: "ecr: {}", image: ownRegistry + "/app", env: append(w.Env(), "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_REGION=eu-central-1")}
		if env == nil {
			c.section, c.token, c.annotations = "ecr: {identity: serviceAccount}", w.token(t, "app", time.Hour), map[string]string{ownKey: w.pod}
			return ofFront(c, w.Front)
		}
		c.env = append(c.env, env(t, w)...)
		return ofFront(c, w.Front)
	}
}

func azureStep(pod bool) func(*testing.T) step {
	return func(t *testing.T) step {
		w := startAzure(t, "public")
		w.systemAssigned()
		w.addRegistries()
		c := combination{section: "acr: {}", image: acrPublic + "/app", env: w.Env()}
		if pod {
			c.section, c.token, c.annotations = "acr: {identity: serviceAccount}", w.token(t, "team", "app", time.Hour), map[string]string{acrOwnClient: w.pod.ClientID, acrOwnTenant: azureTenant}
		}
		return ofFront(c, w.Front)
	}
}

func gcpStep(annotations map[string]string, pod bool) func(*testing.T) step {
	return func(t *testing.T) step {
		w := startGCP(t)
		c := combination{section: "artifactregistry: {}", image: arImage, env: w.Env()}
		if pod {
			c.section, c.token, c.annotations = "artifactregistry: {identity: serviceAccount, workloadIdentityProvider: "+poolProvider+"}", w.token(t, "app", w.audience, time.Hour), annotations
		}
		return ofFront(c, w.Front)
	}
}

func openstackStep(t *testing.T) step {
	f := startFederation(t)
	c := combination{section: "openstack: {cloudConfig: " + writeConf(t, f.conf("")) + "}", image: "registry.example.com:5000/app"}
	return step{c, func(service string) { f.AddFault(ossim.Fault{Service: service, Hang: true}) }, func(service string) int { return f.Count(service, "") }, nil}
}

// A service that does not answer is asked once, and named before all else: with a third of the time for each request
// (TestProvidersGetAThirdOfTheTime) it takes no more of it.
func TestHangingStep(t *testing.T) {
	container := func(_ *testing.T, w *awsWorld) []string {
		return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + w.SetContainer(w.node, "t"), "AWS_CONTAINER_AUTHORIZATION_TOKEN=t"}
	}
	keys := func(_ *testing.T, w *awsWorld) []string { return w.keysOf("aws") }
	instance := func(*testing.T, *awsWorld) []string { return nil }
	webIdentity := func(t *testing.T, w *awsWorld) []string {
		return []string{"AWS_ROLE_ARN=" + w.pod, "AWS_WEB_IDENTITY_TOKEN_FILE=" + w.file(t, "token", w.token(t, "app", time.Hour))}
	}
	for name, tt := range map[string]struct {
		start   func(*testing.T) step
		service string
		want    string
		most    int // requests; 0 is one
	}{
		// The SDK gives each request half a second.
		"AWS: instance metadata": {awsStep(instance), "imds", "the instance metadata service (IMDSv2) gives no role: it does not answer;", 3},
		"AWS: container":         {awsStep(container), "container", "the container credentials endpoint at 127.0.0.1:", 0},
		"AWS: web identity":      {awsStep(webIdentity), "sts", "AWS STS (AssumeRoleWithWebIdentity) at sts.eu-central-1.amazonaws.com does not answer in time;", 0},
		"AWS: STS":               {awsStep(nil), "sts", "AWS STS (AssumeRoleWithWebIdentity) at sts.eu-central-1.amazonaws.com does not answer in time;", 0},
		"AWS: ECR":               {awsStep(keys), "ecr", "AWS ECR (GetAuthorizationToken) at api.ecr.eu-central-1.amazonaws.com does not answer in time;", 0},
		"Azure: metadata":        {azureStep(false), "imds", "the instance metadata service at 127.0.0.1:", 0},
		"Azure: Entra ID":        {azureStep(true), "entra", "Entra ID at login.microsoftonline.com does not answer in time;", 0},
		"Azure: registry":        {azureStep(true), "acr", "registry " + acrPublic + " does not answer in time;", 0},
		"GCP: metadata":          {gcpStep(nil, false), "metadata", "the metadata server at 127.0.0.1:", 0},
		"GCP: STS":               {gcpStep(nil, true), "sts", "Google STS at sts.googleapis.com does not answer in time;", 0},
		"GCP: IAM":               {gcpStep(map[string]string{ownAccountKey: pullAccount}, true), "iamcredentials", "Google IAM at iamcredentials.googleapis.com does not answer in time;", 0},
		"OpenStack: Keystone":    {openstackStep, "identity", "Keystone at http://127.0.0.1:", 0},
		"OpenStack: Barbican":    {openstackStep, "key-manager", "Barbican at 127.0.0.1:", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tt.start(t)
			before := s.asked(tt.service)
			s.hang(tt.service)
			stdin := request("v1", s.with.image)
			if s.with.token != "" {
				stdin = podRequest(t, s.with.image, s.with.token, s.with.annotations)
			}
			options := newNode(t).write(t, "options.yaml", configHead+s.with.section+"\n")
			got := executeEnv(t, s.with.env, stdin, "--config="+options, "--timeout=9s")
			checkOutcome(t, got)
			_, cause, _ := strings.Cut(got.stderr, "image "+s.with.image+": ")
			if got.code != 1 || !strings.HasPrefix(cause, tt.want) || !strings.Contains(cause, " answer") {
				t.Errorf("exit %d, %q, want %q first", got.code, got.stderr, tt.want)
			}
			if n := s.asked(tt.service) - before; n < 1 || n > max(tt.most, 1) {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

// How long an answer is kept goes by the clock of the service that gives it: a node's may be wrong, most of all at its
// boot, and what is kept for too long fails pulls for as long.
func TestCacheDurationGoesByTheServersClock(t *testing.T) {
	for name, tt := range map[string]struct {
		start   func(*testing.T) step
		service string
	}{
		"ecr":                               {awsStep(func(_ *testing.T, w *awsWorld) []string { return w.keysOf("aws") }), "ecr"},
		"ecr, the pod's token":              {awsStep(nil), "ecr"},
		"acr":                               {azureStep(false), "acr"},
		"artifactregistry, as somebody":     {gcpStep(map[string]string{ownAccountKey: pullAccount}, true), "iamcredentials"},
		"artifactregistry, the pod's token": {gcpStep(nil, true), "sts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tt.start(t)
			options := newNode(t).write(t, "options.yaml", configHead+s.with.section+"\n")
			keep := func() time.Duration {
				t.Helper()
				stdin := request("v1", s.with.image)
				if s.with.token != "" {
					stdin = podRequest(t, s.with.image, s.with.token, s.with.annotations)
				}
				got := executeEnv(t, s.with.env, stdin, "--config="+options)
				var answer struct{ CacheDuration string }
				if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
					t.Fatalf("exit %d, %s", got.code, got.stderr)
				}
				d, err := time.ParseDuration(answer.CacheDuration)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			before := keep()
			s.front.AddFault(cloudsim.Fault{Service: tt.service, Header: http.Header{"Date": {time.Now().Add(30 * time.Minute).UTC().Format(http.TimeFormat)}}})
			if after := keep(); before-after < 20*time.Minute || before-after > 31*time.Minute {
				t.Errorf("it is kept for %s, and for %s where the service's clock is half an hour ahead", before, after)
			}
		})
	}
}
