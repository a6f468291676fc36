package openstack

import (
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

// everyKey has every [Global] key of the existing cloud controller manager.
const everyKey = "testdata/global.conf"

func TestDecodeEveryGlobalKey(t *testing.T) {
	data, err := os.ReadFile(everyKey)
	if err != nil {
		t.Fatal(err)
	}
	var conf struct{ Global Config }
	if warnings, err := gcfg.Decode(everyKey, data, &conf); err != nil || len(warnings) > 0 {
		t.Fatalf("Decode: %v, warnings %q", err, warnings)
	}
	ours := []string{"IdentityProvider", "Protocol", "AccessTokenFile", "AccessToken"}
	v := reflect.ValueOf(conf.Global)
	for i := range v.NumField() {
		if v.Field(i).IsZero() && !slices.Contains(ours, v.Type().Field(i).Name) {
			t.Errorf("%s sets no %s", everyKey, v.Type().Field(i).Name)
		}
	}
}
