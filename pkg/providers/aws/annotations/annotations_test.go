package annotations

import (
	"reflect"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

func TestValuesAreTakenAsTheExistingManagerTakesThem(t *testing.T) {
	for name, values := range map[string]map[string]bool{
		CrossZone:      {"true": true, "1": true, "T": true, "": true, "yes": false},
		CheckInterval:  {"30": true, "": false, "1.5": false, "-1": false, "10s": false},
		CheckPort:      {"traffic-port": true, "80": true, "": false, "0": false, "70000": false},
		Subnets:        {"subnet-1, main": true, "": false, ",": false},
		Internal:       {"": true, "false": true, "0.0.0.0/0": true},
		NodeLabels:     {"disk=ssd,gpu": true, "a b": false},
		sourceRanges:   {"10.0.0.0/8,192.0.2.0/24": true, "10.0.0.1": false},
		Tags:           {"a=b,c": true, "": true},
		EIPAllocations: {"eipalloc-1,eipalloc-2": true},
	} {
		for value, ok := range values {
			settings, problems, warnings := lb.Check(map[string]string{name: value}, Table())
			if (len(problems) == 0) != ok || len(warnings) > 0 || ok != settings.Has(name) {
				t.Errorf("%s: %q: %v, %v, taken %t", name, value, problems, warnings, settings.Has(name))
			}
		}
	}
	if _, _, warnings := lb.Check(map[string]string{prefix + "sbunets": "a"}, Table()); len(warnings) != 1 {
		t.Errorf("a spelling mistake is not told: %q", warnings)
	}
}

// TestOnlyClassicLoadBalancersReadThem: a network load balancer with the same values is served.
func TestOnlyClassicLoadBalancersReadThem(t *testing.T) {
	for name, values := range map[string]map[string]bool{
		ProxyProtocol:       {"*": true, "": true, "80": false, "v2": false},
		IdleTimeout:         {"60": true, "": true, "1h": false},
		DrainingTimeout:     {"60": true, "": true, "-1": false},
		LogInterval:         {"5": true, "": true, "5m": false},
		DrainingEnabled:     {"T": true, "": true, "yes": false},
		SecurityGroups:      {"sg-0123, sg-4": true, "0.0.0.0/0": false, "::/0": false, "pl-1234": false, "sg-1,web": false, "sg-1/0": false},
		ExtraSecurityGroups: {"sg-1": true, "sg-x": false},
	} {
		for value, ok := range values {
			settings, problems, _ := lb.Check(map[string]string{name: value}, Table())
			if len(problems) > 0 || !settings.Has(name) {
				t.Errorf("%s: %q: %v", name, value, problems)
			}
			if problems := CheckClassic(settings); (len(problems) == 0) != ok {
				t.Errorf("%s: %q: %v", name, value, problems)
			}
		}
	}
}

func TestPairs(t *testing.T) {
	want := map[string]string{"a": "b", "c": "", "d": "", "e": "f"}
	if got := Pairs(" a=b, c,d=,=x,e=f=g,"); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func TestUserTagsSayNothingOfWhoseItIs(t *testing.T) {
	s := cloud.Settings{Tags: "team=web,kubernetes.io/service-name=a/b,kubernetes.io/cluster/other=owned,KubernetesCluster=c,Name=n"}
	s[Tags] += ",karpenter.sh/discovery=c,elbv2.k8s.aws/cluster=c,Kubernetes.io/role/elb=1,aws:autoscaling:groupName=g,app.example.com/k8s.aws=1"
	if got, want := UserTags(s), (map[string]string{"team": "web", "Name": "n", "app.example.com/k8s.aws": "1"}); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if got := ReservedTags(s); len(got) != 7 || !strings.Contains(got[0], `"Kubernetes.io/role/elb"`) {
		t.Errorf("%q", got)
	}
}

func TestWhatEndsTLS(t *testing.T) {
	for value, want := range map[string][]bool{
		"": {true, true}, "*": {true, true}, "443": {true, false}, "https": {true, false}, "443, web": {true, false}, "web": {false, true}, "+443": {true, false},
	} {
		p := EndsTLS(cloud.Settings{SSLPorts: value})
		if got := []bool{p.Has(443, "https"), p.Has(80, "web")}; !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestInternal(t *testing.T) {
	for value, want := range map[string]bool{"": false, "false": false, "true": true, "0.0.0.0/0": true, "False": true} {
		if got := IsInternal(cloud.Settings{Internal: value}); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
}
