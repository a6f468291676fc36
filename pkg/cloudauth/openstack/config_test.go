package openstack

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

// What is sent to Keystone for a cloud.conf.
func TestAuthRequest(t *testing.T) {
	const (
		user    = `"identity":{"methods":["password"],"password":{"user":`
		byName  = user + `{"domain":{"name":"U"},"name":"k8s","password":"pw"}}}`
		byID    = user + `{"id":"u1","password":"pw"}}}`
		project = `"scope":{"project":{"domain":{"name":"P"},"name":"prj"}}`
	)
	for name, tt := range map[string]struct{ conf, want string }{
		"names": {"username=k8s\nuser-domain-name=U\npassword=pw\ntenant-name=prj\ntenant-domain-name=P\n", byName + "," + project},
		"the project's id wins, as openrc files have both": {
			"username=k8s\nuser-domain-name=U\npassword=pw\ntenant-name=prj\ntenant-id=p1\ntenant-domain-name=P\n", byName + `,"scope":{"project":{"id":"p1"}}`},
		"the user's id wins": {"username=k8s\nuser-id=u1\nuser-domain-name=U\npassword=pw\ntenant-id=p1\n", byID + `,"scope":{"project":{"id":"p1"}}`},
		"one domain for both": {"username=k8s\ndomain-name=U\npassword=pw\ntenant-name=prj\n",
			byName + `,"scope":{"project":{"domain":{"name":"U"},"name":"prj"}}`},
		"the user's domain stands in for the project's": {"username=k8s\nuser-domain-name=U\npassword=pw\ntenant-name=prj\n",
			byName + `,"scope":{"project":{"domain":{"name":"U"},"name":"prj"}}`},
		"a domain's id goes before its name": {"username=k8s\nuser-domain-name=U\nuser-domain-id=d1\npassword=pw\ntenant-id=p1\n",
			user + `{"domain":{"id":"d1"},"name":"k8s","password":"pw"}}},"scope":{"project":{"id":"p1"}}`},
		"domain scope":              {"user-id=u1\npassword=pw\ndomain-name=D\n", byID + `,"scope":{"domain":{"name":"D"}}`},
		"the user's default scope":  {"user-id=u1\npassword=pw\n", byID},
		"trust":                     {"user-id=u1\npassword=pw\ntrust-id=t1\ntenant-id=p1\n", byID + `,"scope":{"OS-TRUST:trust":{"id":"t1"}}`},
		"trust with trustee":        {"username=k8s\npassword=no\ntrust-id=t1\ntrustee-id=u1\ntrustee-password=pw\n", byID + `,"scope":{"OS-TRUST:trust":{"id":"t1"}}`},
		"token for a project":       {"token=pw\ntenant-id=p1\n", `"identity":{"methods":["token"],"token":{"id":"pw"}},"scope":{"project":{"id":"p1"}}`},
		"application credential id": {"application-credential-id=a1\napplication-credential-secret=pw\nusername=k8s\ntenant-name=prj\n", `"identity":{"application_credential":{"id":"a1","secret":"pw"},"methods":["application_credential"]}`},
		"application credential name": {"application-credential-name=ccm\napplication-credential-secret=pw\nusername=k8s\nuser-domain-name=U\npassword=old\n",
			`"identity":{"application_credential":{"name":"ccm","secret":"pw","user":{"domain":{"name":"U"},"name":"k8s"}},"methods":["application_credential"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			var conf struct{ Global Config }
			if _, err := gcfg.Decode("c", []byte("[Global]\nauth-url=http://k/v3\n"+tt.conf), &conf); err != nil {
				t.Fatal(err)
			}
			ao, err := conf.Global.authOptions()
			if err != nil {
				t.Fatalf("authOptions: %v", err)
			}
			scope, err := ao.ToTokenV3ScopeMap()
			if err != nil {
				t.Fatalf("scope: %v", err)
			}
			body, err := ao.ToTokenV3CreateMap(scope)
			if err != nil {
				t.Fatalf("body: %v", err)
			}
			got, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(`{"auth":{`+tt.want+`}}`, string(got)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIdentityURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://k:5000": "https://k:5000/v3/", "https://k:5000/v3": "https://k:5000/v3/", "https://k/identity/v3/": "https://k/identity/v3/",
		"http://k/identity/v2.0/": "http://k/identity/v3/", "http://k/v3?x=y#z": "http://k/v3/", "http://k/a%2fb": "http://k/a/b/v3/",
	} {
		c := Config{AuthURL: in}
		if got, err := c.identityURL(); err != nil || got != want {
			t.Errorf("identityURL of %s = %s, %v, want %s", in, got, err, want)
		}
	}
}

func TestIncompleteConfigs(t *testing.T) {
	dir := t.TempDir()
	notPEM, broken, noAuth := filepath.Join(dir, "ca"), filepath.Join(dir, "broken.yaml"), filepath.Join(dir, "clouds.yaml")
	writeFile(t, notPEM, "hello")
	writeFile(t, broken, "clouds:\n  mine:\n    verify: s3cret-password\n    auth: [s3cret-password]\n")
	writeFile(t, noAuth, "clouds:\n  mine:\n    region_name: R\n  oidc:\n    auth_type: v3oidcpassword\n  pub:\n    profile: vendor\n")
	const login = "auth-url=https://k/v3\nuser-id=u\npassword=p\n"
	for name, tt := range map[string]struct {
		conf string
		want []string
	}{
		"empty":                             {"", []string{"auth-url is not set", "no credentials"}},
		"no URL":                            {"auth-url=keystone:5000\nuser-id=u\npassword=p\n", []string{"auth-url is no URL"}},
		"URL without host":                  {"auth-url=https:///v3\nuser-id=u\npassword=p\n", []string{"auth-url is no URL"}},
		"other scheme":                      {"auth-url=ftp://k/v3\nuser-id=u\npassword=p\n", []string{"auth-url is no URL"}},
		"URL with a bad escape":             {"auth-url=https://a:s3cret-password@k/%zz\nuser-id=u\npassword=p\n", []string{"auth-url is no URL"}},
		"password in the URL":               {"auth-url=http://a:s3cret-password@k\nuser-id=u\npassword=p\n", []string{"auth-url holds a user"}},
		"no password":                       {"auth-url=http://k\nusername=k8s\nuser-domain-id=d\n", []string{`password is not set for user "k8s"`}},
		"no domain":                         {"auth-url=http://k\nusername=k8s\npassword=p\ntenant-name=x\n", []string{"user-domain-name or user-domain-id is not set", "tenant-domain-name or tenant-domain-id is not set"}},
		"application credential, no secret": {"auth-url=http://k\napplication-credential-id=a\n", []string{"application-credential-secret is not set"}},
		"application credential, no user":   {"auth-url=http://k\napplication-credential-name=a\napplication-credential-secret=s\n", []string{"user-id or username is not set: application-credential-name needs one"}},
		"endpoint type":                     {login + "os-endpoint-type=pubic\n", []string{`os-endpoint-type is "pubic": it has to be public, internal or admin`}},
		"CA missing":                        {login + "ca-file=/nowhere/ca\n", []string{"ca-file cannot be read: open /nowhere/ca: no such file"}},
		"CA of another container":           {login + "ca-file=/etc/ssl/certs/keystone-ca.pem\n", []string{"under the key keystone-ca.pem, and write ca-file = /etc/kubernetes/keystone-ca.pem"}},
		"CA no PEM":                         {login + "ca-file=" + notPEM + "\n", []string{"holds no certificate in PEM form"}},
		"pair broken":                       {login + "cert-file=" + notPEM + "\nkey-file=" + notPEM + "\n", []string{"are no usable pair"}},
		"cloud not named":                   {"use-clouds=true\n", []string{"use-clouds is set, but cloud is not"}},
		"cloud mistyped":                    {"use-clouds=true\ncloud=mien\nclouds-file=" + noAuth + "\n", []string{`cloud "mien" is not in ` + noAuth + `; did you mean "mine"?`}},
		"cloud without auth":                {"use-clouds=true\ncloud=mine\nclouds-file=" + noAuth + "\n", []string{"auth-url is not set", "no credentials"}},
		"auth_type":                         {"use-clouds=true\ncloud=oidc\nclouds-file=" + noAuth + "\n", []string{`auth_type "v3oidcpassword" of cloud "oidc"`}},
		"profile":                           {"use-clouds=true\ncloud=pub\nclouds-file=" + noAuth + "\n", []string{`has the profile "vendor": found no clouds-public.yaml`}},
		"clouds file missing":               {"use-clouds=true\ncloud=mine\nclouds-file=/nowhere/clouds.yaml\n", []string{"/nowhere/clouds.yaml: no such file"}},
		"clouds file broken":                {"use-clouds=true\ncloud=mine\nclouds-file=" + broken + "\n", []string{broken + " is no valid clouds file", "line 3"}},
		"everything at once": {"auth-url=x\nusername=u\nos-endpoint-type=y\nca-file=/nowhere/ca\nkey-file=k\n",
			[]string{"auth-url is no URL", "user-domain-name", "password is not set", "os-endpoint-type", "ca-file"}},
	} {
		t.Run(name, func(t *testing.T) {
			var conf struct{ Global Config }
			if _, err := gcfg.Decode("c", []byte("[Global]\n"+tt.conf), &conf); err != nil {
				t.Fatal(err)
			}
			_, err := newSession(conf.Global, Options{ConfigFile: "/etc/kubernetes/cloud.conf"}, func(string) string { return "" })
			if err == nil {
				t.Fatal("New accepts it")
			}
			if e := AsError(err); e == nil || e.Reason != Misconfigured {
				t.Errorf("got %v, want the reason Misconfigured", err)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(tt.want) > len(lines) && name != "clouds file broken" {
				t.Errorf("%d errors, want %d: %v", len(lines), len(tt.want), err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			for _, l := range lines {
				if !strings.HasPrefix(l, "/etc/kubernetes/cloud.conf: [Global]: ") {
					t.Errorf("%q does not name file and section", l)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestSourcesInOrder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "clouds.yaml")
	writeFile(t, file, "clouds:\n  mine:\n    profile: vendor\n    region_name: yaml\n    cacert: /yaml/ca\n    verify: false\n    interface: internal\n    auth: {username: yaml, password: yaml, project_id: yaml, user_domain_id: yaml}\n")
	writeFile(t, filepath.Join(dir, "secure.yaml"), "clouds:\n  mine:\n    auth: {password: secure}\n")
	config := filepath.Join(dir, "config")
	if err := os.MkdirAll(filepath.Join(config, "openstack"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(config, "openstack", "clouds-public.yaml"), "public-clouds:\n  vendor:\n    region_name: public\n    auth: {auth_url: 'https://public/v3'}\n")
	env := map[string]string{
		"XDG_CONFIG_HOME": config, "OS_AUTH_URL": "https://env/v3", "OS_USERNAME": "env", "OS_PASSWORD": "env", "OS_REGION_NAME": "env",
		"OS_CLIENT_CONFIG_FILE": file, "OS_PROJECT_NAME": "env",
	}
	for name, tt := range map[string]struct {
		cfg, want Config
		cloud     string // OS_CLOUD
	}{
		"cloud.conf before clouds.yaml, key by key": {
			cfg: Config{UseClouds: true, Cloud: "mine", CloudsFile: file, Region: "conf", Username: "conf"},
			want: Config{UseClouds: true, Cloud: "mine", CloudsFile: file, Region: "conf", Username: "conf", AuthURL: "https://public/v3", Password: cloudauth.NewSecret("secure"),
				TenantID: "yaml", UserDomainID: "yaml", CAFile: "/yaml/ca", TLSInsecure: true, EndpointType: "internal"},
		},
		"the environment only when nobody is named": {
			cfg:  Config{AuthURL: "https://conf/v3"},
			want: Config{AuthURL: "https://conf/v3", Username: "env", Password: cloudauth.NewSecret("env"), Region: "env", TenantName: "env"},
		},
		"the environment never completes other credentials": {
			cfg:  Config{AuthURL: "https://conf/v3", Username: "conf"},
			want: Config{AuthURL: "https://conf/v3", Username: "conf"},
		},
		"OS_CLOUD before the other variables": {
			cloud: "mine",
			want: Config{UseClouds: true, Region: "yaml", Username: "yaml", AuthURL: "https://public/v3", Password: cloudauth.NewSecret("secure"),
				TenantID: "yaml", UserDomainID: "yaml", CAFile: "/yaml/ca", TLSInsecure: true, EndpointType: "internal"},
		},
		"OS_CLOUD does not touch a complete cloud.conf": {
			cloud: "mine",
			cfg:   Config{UserID: "u"}, want: Config{UserID: "u"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := complete(tt.cfg, func(key string) string {
				if key == "OS_CLOUD" {
					return tt.cloud
				}
				return env[key]
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("completed (-want +got):\n%s", diff)
			}
		})
	}
}
