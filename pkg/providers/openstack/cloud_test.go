package openstack

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

func TestClassesThatServicesCanPick(t *testing.T) {
	cfg, _, err := config.Parse("cloud.conf", []byte("[Global]\nauth-url=http://127.0.0.1/v3\nusername=u\npassword=p\ntenant-name=t\n[LoadBalancerClass]\n[LoadBalancerClass \"c\"]\n[LoadBalancerClass \"b\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p := compose(&api.Client{}, cfg, false); !cmp.Equal(cloud.OwnClasses("openstack", "b", "c"), p.LoadBalancing.Classes) {
		t.Errorf("the provider's classes are %v", p.LoadBalancing.Classes)
	}
}
