package providerid

import (
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

func TestParseProviderID(t *testing.T) {
	const id = "714f1a84-9733-4bb6-aa45-ad213da01e3c"
	good := map[string]string{ // provider ID → region
		"openstack:///" + id:                  "",
		"openstack://RegionOne/" + id:         "RegionOne",
		"/" + id:                              "",
		"RegionOne/" + id:                     "RegionOne",
		"openstack:///" + strings.ToUpper(id): "",
	}
	for in, region := range good {
		uuid, gotRegion, err := Parse(in)
		if err != nil || uuid != id || gotRegion != region {
			t.Errorf("%s: %q, %q, %v", in, uuid, gotRegion, err)
		}
	}
	bad := []string{
		"", id, "openstack://" + id, "openstack:/" + id, "openstack:///", "openstack:///x", "openstack:///" + id + "/", "openstack:///a/" + id,
		"openstack:///" + id + "x", "openstack:///" + id[:35], "openstack:///714f1a84x9733-4bb6-aa45-ad213da01e3c", "openstack:///" + id[:35] + "g",
		"aws:///eu-west-1a/i-0123456789abcdef0", "aws:///" + id, "OPENSTACK:///" + id, "://" + id, "kind://docker/kind/kind-control-plane",
	}
	for _, in := range bad {
		if uuid, _, err := Parse(in); cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("%s: %q, %v; want an error of kind Invalid", in, uuid, err)
		}
	}
}

func FuzzParseProviderID(f *testing.F) {
	for _, s := range []string{"", "/", "openstack:///714f1a84-9733-4bb6-aa45-ad213da01e3c", "openstack://r/714F1A84-9733-4bb6-aa45-ad213da01e3c", "aws:///x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		uuid, region, err := Parse(s)
		if err != nil {
			return
		}
		if !text.IsUUID(uuid) || uuid != strings.ToLower(uuid) {
			t.Fatalf("%q: uuid %q", s, uuid)
		}
		again, r, err := Parse(Format(uuid, region))
		if again != uuid || r != region || err != nil {
			t.Fatalf("%q: %q/%q does not survive writing: %q/%q, %v", s, region, uuid, r, again, err)
		}
	})
}
