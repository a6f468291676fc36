package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func environment(name string) string {
	if name == portVariable {
		return "6443"
	}
	return ""
}

func TestDefaultsAreThoseOfTheExistingManager(t *testing.T) {
	for _, text := range []string{"", "{}\n", "# nothing\n", "cluster:\n  clusterIPFamily: ' IPv4 '\n"} {
		got, err := Parse("cloud.yaml", []byte(text), environment)
		if err != nil {
			t.Fatal(err)
		}
		want := &Config{Supervisor: Supervisor{Server: "https://supervisor.default.svc:6443", CredentialsDirectory: "/etc/cloud/ccm-provider",
			OwnerReferenceFile: "/etc/kubernetes/guestclusters/cluster/ownerref.json", VMOperatorAPIVersion: "v1alpha2"}, Cluster: Cluster{ClusterIPFamily: "ipv4"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestEveryKey(t *testing.T) {
	got, err := Parse("cloud.yaml", []byte(`
supervisor:
  server: https://192.0.2.1:6443
  credentialsDirectory: /a
  ownerReferenceFile: /b
  vmOperatorAPIVersion: v1alpha6
cluster:
  clusterIPFamily: IPv6IPv4
  isLegacyParavirtual: true
  routes: true
  enableVPCMode: true
  podIPPoolType: Public
  enableServiceAnnotationPropagation: false
`), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{Supervisor: Supervisor{Server: "https://192.0.2.1:6443", CredentialsDirectory: "/a", OwnerReferenceFile: "/b", VMOperatorAPIVersion: "v1alpha6"},
		Cluster: Cluster{ClusterIPFamily: "ipv6ipv4", IsLegacyParavirtual: true, Routes: true, EnableVPCMode: true, PodIPPoolType: "Public"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each mistake is an error that names the file and the key, and several are told at once.
func TestMistakes(t *testing.T) {
	for text, want := range map[string][]string{
		"supervisor:\n  sever: https://a\n":                                 {"cloud.yaml", "sever", "server"},
		"global:\n  user: a\n":                                              {"cloud.yaml", "global"},
		"[Global]\nuser = a\n":                                              {"cloud.yaml", "YAML"},
		"supervisor: [":                                                     {"cloud.yaml", "YAML"},
		"supervisor:\n  server: http://a\n":                                 {"supervisor.server", "http://a"},
		"supervisor:\n  vmOperatorAPIVersion: v1\n":                         {"supervisor.vmOperatorAPIVersion", "v1alpha6"},
		"cluster:\n  clusterIPFamily: ipv5\n":                               {"cluster.clusterIPFamily", "ipv6ipv4"},
		"cluster:\n  clusterIPFamily: ipv6\n":                               {"cluster.clusterIPFamily", "v1alpha6"},
		"cluster:\n  podIPPoolType: Public\n":                               {"cluster.podIPPoolType", "enableVPCMode"},
		"cluster:\n  enableVPCMode: true\n":                                 {"cluster.podIPPoolType", "Private"},
		"cluster:\n  enableVPCMode: perhaps\n":                              {"cluster.enableVPCMode"},
		"cluster:\n  enableServiceAnnotationPropagation: true\n":            {"cluster.enableServiceAnnotationPropagation"},
		"supervisor:\n  vmOperatorAPIVersion: x\ncluster:\n  routes: maybe": {"cluster.routes"},
		"supervisor:\n  vmOperatorAPIVersion: v1alpha6\ncluster:\n  clusterIPFamily: ipv4ipv6\n  routes: true\n": {"cluster.clusterIPFamily", "cluster.enableVPCMode"},
		"supervisor:\n  vmOperatorAPIVersion: x\ncluster:\n  clusterIPFamily: y":                                 {"supervisor.vmOperatorAPIVersion", "cluster.clusterIPFamily"},
	} {
		_, err := Parse("cloud.yaml", []byte(text), environment)
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		for _, word := range want {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q: %v, want it to name %s", text, err, word)
			}
		}
	}
	if _, err := Parse("", nil, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), portVariable) {
		t.Errorf("without a port: %v", err)
	}
}
