package main

import (
	"encoding/json"
	"testing"

	"github.com/spf13/pflag"

	ccmoptions "github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// /configz shows the value of each flag, of the webhooks' as well.
func TestConfigzHasEachFlag(t *testing.T) {
	o, err := newOptions()
	if err != nil {
		t.Fatal(err)
	}
	sections := o.flags()
	if _, _, err := ccmoptions.Parse(sections, []string{"--cluster-name=blue", "--webhooks=*"}); err != nil {
		t.Fatal(err)
	}
	o.ccm.FlagValues = ccmoptions.Values(sections)
	shown, err := o.ccm.Configz()
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Component struct{ KubeCloudShared struct{ ClusterName string } } `json:"cloudcontrollermanager.config.k8s.io"`
		Ours      struct {
			Kind  string
			Flags map[string]string
		} `json:"isthmus-cloud.github.io"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, fs := range sections.FlagSets {
		fs.VisitAll(func(f *pflag.Flag) {
			count++
			if value, ok := got.Ours.Flags[f.Name]; !ok || value != f.Value.String() {
				t.Errorf("--%s is shown as %q, it is %q", f.Name, value, f.Value)
			}
		})
	}
	if count < 100 || got.Ours.Kind != "CloudControllerManagerSettings" || got.Ours.Flags["cluster-name"] != "blue" || got.Ours.Flags["webhooks"] != "[*]" || got.Component.KubeCloudShared.ClusterName != "blue" {
		t.Errorf("%d flags, and /configz shows %s", count, body)
	}
}
