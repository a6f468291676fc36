package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	azuresim "github.com/isthmus-cloud/isthmus/test/cloudsim/azure"
)

// acrFault runs the binary with the machine's identity while something is wrong.
func acrFault(t *testing.T, fault azuresim.Fault, timeout string) (*azureWorld, outcome) {
	t.Helper()
	w := startAzure(t, "public")
	w.systemAssigned()
	w.addRegistries()
	w.AddFault(fault)
	got := executeEnv(t, w.Env(), request("v1", acrPublic+"/app"), "--registries=acr", "--timeout="+timeout)
	checkOutcome(t, got)
	if hosts := w.Refused(); len(hosts) != 0 {
		t.Errorf("it speaks to %v", hosts)
	}
	return w, got
}

// services are what was spoken to, in order.
func (w *azureWorld) services() []string {
	var all []string
	for _, r := range w.Requests() {
		all = append(all, r.Service+r.Action)
	}
	return all
}

// The services' failures are told as they are; what can pass is tried again.
func TestExecACRFaults(t *testing.T) {
	html, huge, nothing := "<html>a captive portal s3cret</html>", strings.Repeat("x", 2<<20), "{}"
	exchange := func(f azuresim.Fault) azuresim.Fault { f.Service, f.Action = "acr", "/oauth2/exchange"; return f }
	root := func(f azuresim.Fault) azuresim.Fault { f.Service, f.Action = "acr", "/v2/"; return f }
	for name, tt := range map[string]struct {
		fault azuresim.Fault
		want  string // "" is success
	}{
		"throttled once":     {exchange(azuresim.Fault{Times: 1, Status: 429, Code: "TOOMANYREQUESTS"}), ""},
		"throttled":          {exchange(azuresim.Fault{Status: 429, Code: "TOOMANYREQUESTS", Message: "toomanyrequests"}), "registry contoso.azurecr.io (exchange) asks to slow down (TOOMANYREQUESTS: toomanyrequests); it is asked again later"},
		"firewall":           {root(azuresim.Fault{Status: 403, Code: "DENIED", Message: "client with IP '203.0.113.7' is not allowed access. Refer https://aka.ms/acr/firewall to grant access."}), "refuses to be spoken to (403 DENIED: client with IP '203.0.113.7' is not allowed access. Refer https://aka.ms/acr/firewall to grant access.); the registry's network rules do not let this machine in"},
		"firewall later":     {exchange(azuresim.Fault{Status: 403, Code: "DENIED", Message: "x"}), "the registry's network rules do not let this machine in"},
		"no registry":        {root(azuresim.Fault{Status: 404, Code: "x"}), "check the registry's name; is it a registry of ACR?"},
		"open to everybody":  {root(azuresim.Fault{Status: 200, Code: "x"}), "registry contoso.azurecr.io lets everybody in or is none of ACR"},
		"portal":             {exchange(azuresim.Fault{Body: &html}), "answers without a usable token; is a proxy or another registry in between?"},
		"nothing in it":      {exchange(azuresim.Fault{Body: &nothing}), "answers without a usable token"},
		"huge challenge":     {root(azuresim.Fault{Body: &huge}), "registry contoso.azurecr.io answers with more than 1024 KiB"},
		"huge token":         {exchange(azuresim.Fault{Body: &huge}), "answers with more than 1024 KiB"},
		"registry hangs":     {root(azuresim.Fault{Hang: true}), "registry contoso.azurecr.io does not answer in time"},
		"metadata hangs":     {azuresim.Fault{Service: "imds", Hang: true}, "the instance metadata service at"},
		"slow":               {azuresim.Fault{Latency: 200 * time.Millisecond}, ""},
		"cut once":           {root(azuresim.Fault{Times: 1, Reset: true}), ""},
		"metadata once down": {azuresim.Fault{Service: "imds", Times: 1, Status: 500, Code: "unknown"}, ""},
		"metadata is html":   {azuresim.Fault{Service: "imds", Body: &html}, "the instance metadata service answers without a usable token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := "20s"
			if tt.fault.Hang {
				timeout = "1s"
			}
			_, got := acrFault(t, tt.fault, timeout)
			if (got.code == 0) != (tt.want == "") || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("exit %d, %q, want %q", got.code, got.stderr, tt.want)
			}
		})
	}
}

// What is no challenge of the registry itself ends there: no token is got, and none is sent. The peer panics on some of
// these, and sends the node's token to whatever host another one names.
func TestDefectACRChallenges(t *testing.T) {
	for name, headers := range map[string][]string{
		"unquoted last, cut": {`Bearer realm="https://contoso.azurecr.io/oauth2/token",service=`},
		"scheme alone":       {`Bearer`},
		"empty":              {``},
		"not closed":         {`Bearer realm="https://contoso.azurecr.io/oauth2/token`},
		"twice":              {`Bearer realm="https://contoso.azurecr.io/oauth2/token",service="contoso.azurecr.io"`, `Bearer realm="https://evil.example/oauth2/token",service="x"`},
		"another kind":       {`Basic realm="contoso.azurecr.io"`},
		"foreign realm":      {`Bearer realm="https://evil.example/oauth2/token",service="contoso.azurecr.io"`},
		"realm of another":   {`Bearer realm="https://fabrikam.azurecr.io/oauth2/token",service="fabrikam.azurecr.io"`},
		"unencrypted realm":  {`Bearer realm="http://contoso.azurecr.io/oauth2/token",service="contoso.azurecr.io"`},
		"foreign service":    {`Bearer realm="https://contoso.azurecr.io/oauth2/token",service="evil.example"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, got := acrFault(t, azuresim.Fault{Service: "acr", Action: "/v2/", Status: 401, Code: "UNAUTHORIZED", Header: http.Header{"Www-Authenticate": headers}}, "20s")
			if got.code != 1 || !strings.Contains(got.stderr, "registry contoso.azurecr.io ") || strings.Contains(got.stderr, "panic") {
				t.Errorf("exit %d, %q", got.code, got.stderr)
			}
			if all := w.services(); !slices.Equal(all, []string{"acr/v2/"}) {
				t.Errorf("it goes on to %v", all)
			}
		})
	}
	// What the peer panics on, though it is right.
	w, got := acrFault(t, azuresim.Fault{
		Service: "acr", Action: "/v2/", Status: 401, Code: "UNAUTHORIZED",
		Header: http.Header{"Www-Authenticate": {`Bearer realm="https://contoso.azurecr.io/oauth2/token" , SERVICE=contoso.azurecr.io`}},
	}, "20s")
	w.opens(t, got, acrPublic+"/app", acrPublic, w.system.ClientID)
}

// The token of Entra ID is sent to the registry that was asked, wherever that one wants to have it.
func TestDefectACRRedirects(t *testing.T) {
	for _, action := range []string{"/v2/", "/oauth2/exchange"} {
		for _, status := range []int{301, 302, 307, 308} {
			fault := azuresim.Fault{Service: "acr", Action: action, Status: status, Code: "x", Header: http.Header{"Location": {"https://fabrikam.azurecr.io" + action}}}
			w, got := acrFault(t, fault, "20s")
			if got.code != 1 || !strings.Contains(got.stderr, fmt.Sprintf("redirects to another address (%d), which is not followed", status)) {
				t.Errorf("%s %d: exit %d, %q", action, status, got.code, got.stderr)
			}
			for _, r := range w.Requests() {
				if r.Host == acrForeign {
					t.Errorf("%s %d: it is followed: %+v", action, status, r)
				}
			}
		}
	}
}

// The peer repeats an answer that it does not understand, with the token in it.
func TestDefectACRTokenInError(t *testing.T) {
	for _, body := range []string{`{"refresh_token":"s3cret-token"`, `{"refresh_token":["s3cret-token"]}`, `{"access_token":"s3cret-token"}`, `s3cret-token`} {
		for _, service := range []string{"imds", "acr"} {
			fault := azuresim.Fault{Service: service, Body: &body}
			if service == "acr" {
				fault.Action = "/oauth2/exchange"
			}
			if _, got := acrFault(t, fault, "20s"); service == "acr" && got.code != 1 {
				t.Errorf("%s: exit %d", body, got.code)
			}
		}
	}
}

// The peer answers with the application's secret itself, for all registries of four domains, and an empty entry for
// others.
func TestDefectACRSecretHandedOut(t *testing.T) {
	for _, name := range []string{"secret", "secretenv", "jsonsecret"} {
		w := startAzure(t, "public")
		section, env := azureIdentities()[name](t, w)
		w.addRegistries()
		got, _ := w.runACR(t, section, env, request("v1", acrPublic+"/app"))
		if strings.Contains(got.stdout+got.stderr, appSecret) || strings.Contains(got.stdout, "*") {
			t.Errorf("%s: %s", name, got.stdout)
		}
		w.opens(t, got, acrPublic+"/app", acrPublic, w.app.ClientID)
	}
}

// The peer lets the kubelet keep every token for five minutes, however long it lives.
func TestDefectACRExpiry(t *testing.T) {
	for life, want := range map[time.Duration]string{40 * time.Minute: "35m", 90 * time.Second: "2", 30 * time.Second: "0s"} {
		w := startAzureWith(t, azuresim.Options{RefreshLifetime: life}, "public")
		w.systemAssigned()
		w.addRegistries()
		got, _ := w.runACR(t, "", nil, request("v1", acrPublic+"/app"))
		var response struct{ CacheDuration string }
		if err := json.Unmarshal([]byte(got.stdout), &response); err != nil {
			t.Fatal(err, got.stderr)
		}
		if !strings.HasPrefix(response.CacheDuration, want) {
			t.Errorf("a token that lives %s is kept for %s, want %s…", life, response.CacheDuration, want)
		}
	}
}

// The peer drops the port of a registry. Here the one that is configured is spoken to at its port, and has to name itself
// with it.
func TestDefectACRPortDropped(t *testing.T) {
	var realm atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _ := realm.Load().(string)
		switch r.URL.Path {
		case "/v2/":
			w.Header().Set("Www-Authenticate", fmt.Sprintf("Bearer realm=%q,service=%q", "https://"+host+"/oauth2/token", host))
			w.WriteHeader(http.StatusUnauthorized)
		case "/oauth2/exchange":
			if r.FormValue("service") != host || r.FormValue("access_token") == "" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			claims := fmt.Sprintf(`{"aud":%q,"exp":%d}`, host, time.Now().Add(time.Hour).Unix())
			_, _ = fmt.Fprintf(w, `{"refresh_token":"e30.%s.c2ln"}`, base64.RawURLEncoding.EncodeToString([]byte(claims)))
		}
	}))
	t.Cleanup(server.Close)
	host := server.Listener.Addr().String()
	bare, _, _ := strings.Cut(host, ":")
	w := startAzure(t, "public")
	w.systemAssigned()
	env := []string{"NO_PROXY=" + host, "SSL_CERT_FILE=" + w.file(t, "registry.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))}
	for named, want := range map[string]string{host: "", bare: "as the place for its tokens", bare + ":1": "as the place for its tokens"} {
		realm.Store(named)
		got, _ := w.runACR(t, fmt.Sprintf("  registries: [%q]\n", host), env, request("v1", host+"/app"))
		if (got.code == 0) != (want == "") || !strings.Contains(got.stderr, want) {
			t.Errorf("a registry at %s that names itself %s: exit %d, %s", host, named, got.code, got.stderr)
		}
		if want == "" && !strings.Contains(got.stdout, fmt.Sprintf(`"auth":{%q:`, host)) {
			t.Errorf("the answer is not for %s: %s", host, got.stdout)
		}
	}
}

// Tokens of Entra ID that would open all of Azure are not asked for: those for registries are enough.
func TestDefectACRWideScope(t *testing.T) {
	w := startAzure(t, "public")
	section, env := azureIdentities()["secret"](t, w)
	w.addRegistries()
	w.runACR(t, section, env, request("v1", acrPublic+"/app"))
	if all := w.Audiences(); !slices.Equal(all, []string{"https://containerregistry.azure.net"}) {
		t.Errorf("tokens are asked for %v", all)
	}
}

// An image of a mirror is pulled with the credentials of the registry behind it, and with the service
// account's, not the node's.
func TestPullThroughACRMirror(t *testing.T) {
	w := startAzure(t, "public")
	w.systemAssigned()
	w.addRegistries()
	host := privateRegistry(t, func(user, password string) bool {
		return w.Login(user, password, "mirrored.azurecr.io") == nil || user == "owner"
	})
	reference := host + "/team/app:v1"
	push(t, reference, "owner", "x")
	for _, identity := range []string{"node", "serviceAccount"} {
		stdin := request("v1", reference)
		if identity != "node" {
			stdin = podRequest(t, reference, w.token(t, "team", "app", time.Hour), map[string]string{acrPeerClient: w.pod.ClientID, acrPeerTenant: azureTenant})
		}
		config := fmt.Sprintf("%sacr:\n  identity: %s\n  mirrors: [{upstream: %q, registry: mirrored.azurecr.io}]\n", configHead, identity, host)
		got := executeEnv(t, w.Env(), stdin, "--config", w.file(t, "options.yaml", config))
		if err := pullWith(t, got, reference); err != nil {
			t.Errorf("%s: %v", identity, err)
		}
	}
}

// What the program writes for the kubelet is what it finds nothing wrong with, dry run included.
func TestACRConfigIsGood(t *testing.T) {
	for _, identity := range []string{"node", "serviceAccount"} {
		w, n := startAzure(t, "public"), newNode(t)
		w.systemAssigned()
		w.addRegistries()
		got := executeEnv(t, nil, "", "config", "--registries=acr", "--identity="+identity)
		if got.code != 0 {
			t.Fatal(got.stderr)
		}
		args := []string{"--image=" + acrPublic + "/app:v1"}
		if identity != "node" {
			if !strings.Contains(got.stdout, acrOwnClient) || !strings.Contains(got.stdout, "api://AzureADTokenExchange") {
				t.Errorf("written for %s:\n%s", identity, got.stdout)
			}
			args = append(args, "--service-account-token-file="+w.file(t, "pod", w.token(t, "team", "app", time.Hour)),
				"--annotation="+acrOwnClient+"="+w.pod.ClientID, "--annotation="+acrOwnTenant+"="+azureTenant)
		}
		got = n.check(t, w.Env(), n.write(t, "credential-provider.yaml", got.stdout), args...)
		if got.code != 0 || !strings.Contains(got.stdout, acrPublic) {
			t.Errorf("%s: exit %d\n%s%s", identity, got.code, got.stdout, got.stderr)
		}
	}
}

// The user and password are what ACR's own token endpoint takes from a container runtime.
func TestACRTokenIsALogin(t *testing.T) {
	w := startAzure(t, "public")
	w.systemAssigned()
	w.addRegistries()
	got, _ := w.runACR(t, "", nil, request("v1", acrPublic+"/app"))
	password := w.opens(t, got, acrPublic+"/app", acrPublic, w.system.ClientID)
	transport := &http.Transport{}
	if err := w.Intercept(transport); err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	for _, p := range []string{password, "wrong"} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+acrPublic+"/oauth2/token?service="+acrPublic+"&scope=repository:app:pull", nil)
		req.RequestURI = ""
		req.SetBasicAuth("00000000-0000-0000-0000-000000000000", p)
		response, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if (response.StatusCode == http.StatusOK) != (p == password) {
			t.Errorf("the token endpoint answers %d", response.StatusCode)
		}
	}
}
