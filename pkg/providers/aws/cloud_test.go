package aws

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

func provider(t *testing.T, conf string) *cloud.Provider {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	p, warnings, err := New(t.Context(), file, cloud.Options{UserAgent: "test/v1"})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%q, %v", warnings, err)
	}
	return p
}

func TestProviderCallsNobodyAtStart(t *testing.T) {
	c := apitest.Start(t)
	p, warnings, err := New(t.Context(), "", cloud.Options{UserAgent: "test/v1"})
	if err != nil || len(warnings) > 0 || len(c.Requests()) > 0 {
		t.Fatalf("%q, %v", warnings, err)
	}
	if p.Name != "aws" || p.Instances == nil || p.Volumes == nil || p.Routes == nil || p.Owns == nil || p.Identify == nil || p.Newborn != 5*time.Minute {
		t.Errorf("%+v", p)
	}
	if p.GivesPodCIDRs {
		t.Errorf("it claims what it has not: %+v", p)
	}
	c.Fail("DescribeInstances", apitest.Fault{Status: http.StatusUnauthorized, Code: "AuthFailure", Message: "m"})
	if err := p.Ready(t.Context()); cloud.KindOf(err) != cloud.KindDenied {
		t.Errorf("refused, but ready: %v", err)
	}
	for range 3 {
		if err := p.Ready(t.Context()); err != nil {
			t.Errorf("not ready: %v", err)
		}
	}
	if n := len(c.Requests()); n != 2 {
		t.Errorf("%d requests, want 2: success is remembered", n)
	}
	if err := p.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestIdentify(t *testing.T) {
	const owned = "kubernetes.io/cluster/of-tags"
	for name, tt := range map[string]struct {
		conf     string
		tags     map[string]string
		want     string
		err      string
		requests int
	}{
		"ID of cloud.conf":  {"[Global]\nKubernetesClusterID = c\n", map[string]string{owned: "owned"}, "c", "", 0},
		"tag of cloud.conf": {"[Global]\nKubernetesClusterTag = c\n", map[string]string{owned: "owned"}, "c", "", 0},
		"tags":              {"", map[string]string{owned: "owned", "Name": "n"}, "of-tags", "", 1},
		"no tags":           {"", nil, "", "find the cluster's ID: instance i-0123456789abcdef0, which this machine is, does not tell: it has no tag kubernetes.io/cluster/<ID>; set KubernetesClusterID in [Global] of cloud.conf", 2},
		"two clusters":      {"", map[string]string{owned: "owned", "kubernetes.io/cluster/b": "shared"}, "", "its tags name 2 clusters (b, of-tags)", 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := apitest.Start(t)
			c.AddInstance(ec2.Instance{ID: apitest.Self, Tags: tt.tags})
			p := provider(t, tt.conf)
			for range 2 {
				got, err := p.Identify(t.Context(), cloud.Cluster{UID: "u"})
				if got != tt.want || (err == nil) != (tt.err == "") || err != nil && (!strings.Contains(err.Error(), tt.err) || cloud.KindOf(err) != cloud.KindInvalid) {
					t.Errorf("%q, %v, want %q, %s", got, err, tt.want, tt.err)
				}
			}
			if n := len(c.Requests()); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
			if i, err := p.Instances.Get(t.Context(), cloud.InstanceRef{ProviderID: apitest.Self}); err != nil || i.Marked != (tt.want == "of-tags") {
				t.Errorf("%+v, %v", i, err)
			}
		})
	}
}

func TestIdentifyOutsideOfEC2(t *testing.T) {
	c := apitest.Start(t)
	c.AddFault(apitest.Fault{Service: "imds", Status: http.StatusNotFound})
	p := provider(t, "[Global]\nRegion = eu-central-1\n")
	if _, err := p.Identify(t.Context(), cloud.Cluster{}); cloud.KindOf(err) != cloud.KindUnavailable || !strings.Contains(err.Error(), "set KubernetesClusterID in [Global] of cloud.conf") {
		t.Errorf("%s: %v", cloud.KindOf(err), err)
	}
}

func TestConfThatDidNotChangeIsTheSame(t *testing.T) {
	data, err := os.ReadFile("config/testdata/every-key.conf")
	if err != nil {
		t.Fatal(err)
	}
	f := conf("cloud.conf", &config.Config{})
	a, errA := f.Parse(data)
	b, errB := f.Parse(data)
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%v, %v: what is read twice differs", errA, errB)
	}
	var sections []string
	for n := range reflect.TypeFor[config.Config]().NumField() {
		sections = append(sections, f.Section(reflect.TypeFor[config.Config]().Field(n)))
	}
	if got := strings.Join(sections, " "); got != "[Global] [ServiceOverride]" {
		t.Errorf("sections %s", got)
	}
}
