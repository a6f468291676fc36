package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	configv1 "k8s.io/kubelet/config/v1"

	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

// configHead begins a file for --config.
const configHead = "apiVersion: isthmus-cloud.github.io/v1\nkind: CredentialProviderOptions\n"

// writeOptions writes a file for --config.
func writeOptions(t *testing.T, sections string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "options.yaml")
	if err := os.WriteFile(file, []byte(configHead+sections), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const cloudConf = "[Global]\nauth-url = https://keystone.example/v3\napplication-credential-id = 0123abcd\napplication-credential-secret = s3cret\n" + registries

// What config writes is read by the kubelet's own types, strictly, and nothing in it is a finding.
func TestConfigCommand(t *testing.T) {
	conf := writeConf(t, cloudConf)
	mixed := writeOptions(t, "ecr: {identity: serviceAccount}\nopenstack: {cloudConfig: "+conf+"}\n")
	google := writeOptions(t, gcpPodIdentity)
	for name, args := range map[string][]string{
		"google":      {"--registries=artifactregistry"},
		"googlepod":   {"--config=" + google, "--node-config-path=/OPTIONS"},
		"ecr":         {"--registries=ecr"},
		"pod":         {"--registries=ecr", "--identity=serviceAccount", "--cache-type=Token", "--audience=sts.example"},
		"all":         {"--registries=ecr,openstack", "--cloud-config=" + conf, "--node-config-path=/CLOUD.CONF", "--cache-duration=1h", "--env=HTTPS_PROXY=http://proxy:3128", "--env=AWS_REGION=eu-central-1"},
		"perregistry": {"--config=" + mixed, "--node-config-path=/OPTIONS", "--entry-per-registry", "--name=icp"},
		"partition":   {"--registries=ecr", "--partition=aws,aws-cn"},
		"nodepath":    {"--config=" + mixed, "--entry-per-registry", "--node-config-path=/etc/isthmus/options.yaml"},
		"windows":     {"--cloud-config=" + conf, `--node-config-path=C:\etc\cloud.conf`},
		"images":      {"--registries=ecr", "--match-images=111122223333.dkr.ecr.eu-central-1.amazonaws.com,public.ecr.aws"},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, "", append([]string{"config"}, args...)...)
			if got.code != 0 || got.stderr != "" {
				t.Fatalf("exit %d: %s", got.code, got.stderr)
			}
			checkConfig(t, []byte(got.stdout))
			golden.Compare(t, filepath.Join("testdata", "config", name+".golden"), got.stdout)
		})
	}
}

func checkConfig(t *testing.T, data []byte) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	obj, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		t.Fatalf("the kubelet does not take it: %v", err)
	}
	if c := obj.(*configv1.CredentialProviderConfig); len(c.Providers) == 0 || c.Providers[0].DefaultCacheDuration == nil {
		t.Errorf("it has no provider: %+v", c)
	}
	c, findings := kubelet.Decode("out", data)
	for _, f := range append(findings, kubelet.Validate(c.Providers, "")...) {
		t.Error(f)
	}
}

func TestConfigCommandRBAC(t *testing.T) {
	got := execute(t, "", "config", "--registries=ecr", "--identity=serviceAccount", "--rbac")
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var role *rbacv1.ClusterRole
	var binding *rbacv1.ClusterRoleBinding
	for _, doc := range strings.Split(strings.TrimPrefix(got.stdout, "---\n"), "---\n") {
		obj, _, err := decoder.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Fatalf("%v: %s", err, doc)
		}
		switch o := obj.(type) {
		case *rbacv1.ClusterRole:
			role = o
		case *rbacv1.ClusterRoleBinding:
			binding = o
		}
	}
	if role == nil || binding == nil || binding.RoleRef.Name != role.Name || binding.Subjects[0].Kind != "Group" || binding.Subjects[0].Name != "system:nodes" {
		t.Fatalf("%+v, %+v", role, binding)
	}
	rule := role.Rules[0]
	if !slices.Equal(rule.APIGroups, []string{""}) || !slices.Equal(rule.Resources, []string{"sts.amazonaws.com"}) || !slices.Equal(rule.Verbs, []string{"request-serviceaccounts-token-audience"}) {
		t.Errorf("%+v", rule)
	}
}

func TestConfigCommandRefusals(t *testing.T) {
	conf := writeConf(t, cloudConf)
	mixed := writeOptions(t, "ecr: {identity: serviceAccount}\nopenstack: {cloudConfig: "+conf+"}\n")
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":        {nil, 2, "nothing says which registries to serve"},
		"flag":           {[]string{"--registry=ecr"}, 2, "unknown flag --registry; see isthmus-credential-provider config --help"},
		"argument":       {[]string{"ecr"}, 2, `unexpected argument "ecr"`},
		"kind":           {[]string{"--registries=ecs"}, 2, `--registries: "ecs" is not known`},
		"cache type":     {[]string{"--registries=ecr", "--cache-type=Pod"}, 2, "--cache-type has to be ServiceAccount or Token"},
		"env":            {[]string{"--registries=ecr", "--env=A"}, 2, "it has to be NAME=VALUE"},
		"env twice":      {[]string{"--registries=ecr", "--env=A=b", "--env=A=c"}, 2, "A is there twice"},
		"two identities": {[]string{"--config=" + mixed, "--node-config-path=/etc/options.yaml"}, 1, "openstack has the node's identity and ecr that of service accounts, but the kubelet sends tokens to all of an entry or to none; give --entry-per-registry"},
		"no tokens":      {[]string{"--registries=ecr", "--audience=x"}, 1, "--audience is for --identity=serviceAccount"},
		"no RBAC":        {[]string{"--registries=ecr", "--rbac"}, 1, "the nodes need no RBAC"},
		"no cloud.conf":  {[]string{"--registries=openstack", "--cloud-config=/etc/nowhere/cloud.conf"}, 1, "where it is on the nodes alone, name the registries with --match-images"},
		"no registries":  {[]string{"--registries=openstack", "--cloud-config=" + writeConf(t, "[Global]\nauth-url = https://keystone.example/v3\nusername = a\npassword = s3cret\ntenant-id = c\nuser-domain-name = d\n"), "--node-config-path=/etc/cloud.conf"}, 1, "openstack serves no registry: cloud.conf has no [Registry"},
		"bad pattern":    {[]string{"--registries=ecr", "--match-images=public.ecr.aws/*"}, 1, "its path has a wildcard"},
		"partition":      {[]string{"--registries=ecr", "--partition=aws,china"}, 1, `--partition: "china" is no partition; known are aws, aws-cn, aws-eusc`},
		"partition too":  {[]string{"--registries=ecr", "--partition=aws", "--match-images=public.ecr.aws"}, 2, "remove one"},
		"own path":       {[]string{"--config=options.yaml"}, 2, `"options.yaml" is a path of this machine; give --node-config-path with that on the nodes, such as /etc/isthmus/credential-provider/options.yaml`},
		"own cloud.conf": {[]string{"--cloud-config=../cloud.conf"}, 2, `"../cloud.conf" is a path of this machine`},
		"own absolute":   {[]string{"--config=" + mixed}, 2, `options.yaml" is a path of this machine; give --node-config-path`},
		"own by way of":  {[]string{"--config=/etc/.." + mixed}, 2, `options.yaml" is a path of this machine`},
		"own home":       {[]string{"--cloud-config=/home/me/cloud.conf", "--match-images=a.example"}, 2, `"/home/me/cloud.conf" is a path of this machine`},
		"own user":       {[]string{`--cloud-config=C:\Users\me\cloud.conf`, "--match-images=a.example"}, 2, "is a path of this machine"},
		"node path":      {[]string{"--config=" + mixed, "--node-config-path=etc/options.yaml"}, 2, `--node-config-path "etc/options.yaml" has to be absolute`},
		"path of what":   {[]string{"--registries=ecr", "--node-config-path=/etc/options.yaml"}, 2, "--node-config-path is for --config and --cloud-config"},
		"bad name":       {[]string{"--registries=ecr", "--name=a/b"}, 1, `"a/b" is no name of a program`},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, "", append([]string{"config"}, tt.args...)...)
			if got.code != tt.code || !strings.Contains(got.stderr, tt.want) || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" || strings.Contains(got.stderr, "s3cret") {
				t.Errorf("exit %d, %q, %q; want %d, %q", got.code, got.stdout, got.stderr, tt.code, tt.want)
			}
		})
	}
}

// What is written is the node's path, never this machine's.
func TestConfigCommandRelativePath(t *testing.T) {
	file := writeOptions(t, "ecr: {}\n")
	t.Chdir(filepath.Dir(file))
	got := execute(t, "", "config", "--config=options.yaml", "--node-config-path=/etc/isthmus/options.yaml")
	if got.code != 0 || !strings.Contains(got.stdout, "- --config=/etc/isthmus/options.yaml\n") || strings.Contains(got.stdout, filepath.Dir(file)) {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
}

// The RBAC is for somebody who applies it, on whose machine the nodes' files are not.
func TestConfigCommandRBACWithoutFiles(t *testing.T) {
	got := execute(t, "", "config", "--cloud-config=/nowhere/cloud.conf", "--identity=serviceAccount", "--audience=keystone", "--rbac")
	if got.code != 0 || !strings.Contains(got.stdout, "- keystone\n") {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
}

// A file with other content is replaced only if that is asked for, and at once.
func TestConfigCommandOutput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "credential-provider.yaml")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) outcome {
		t.Helper()
		got := execute(t, "", append([]string{"config", "--registries=ecr"}, args...)...)
		if got.code != want {
			t.Fatalf("%v: exit %d, want %d: %s", args, got.code, want, got.stderr)
		}
		return got
	}
	content := func() string {
		t.Helper()
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	run(0, "--output="+file)
	first := content()
	if first != run(0).stdout {
		t.Error("the file is not what stdout gets")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got := run(0, "--output="+file); !strings.Contains(got.stdout, "is as it should be") {
		t.Errorf("the same once more: %s", got.stdout)
	}
	if got := run(1, "--output="+file, "--cache-duration=1h"); !strings.Contains(got.stderr, "it is there already with other content; look at it, and give --force to replace it") || content() != first {
		t.Errorf("other content: %s", got.stderr)
	}
	run(0, "--output="+link, "--cache-duration=1h", "--force")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 || !strings.Contains(content(), "1h0m0s") {
		t.Errorf("through a link: %v, %v, %s", info, err, content())
	}
	run(1, "--output="+filepath.Join(dir, "nowhere", "x"))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
