package gcfg_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	theirgcfg "gopkg.in/gcfg.v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

// testConf has a field of each kind that a section may have.
type testConf struct {
	Global       auth.Config
	LoadBalancer struct {
		Enabled    bool `gcfg:"enabled"`
		MonitorMax int  `gcfg:"monitor-max-retries"`
		Delay      time.Duration
		Networks   []string `gcfg:"network"`
		Limit      *int     `gcfg:"limit"`
		SubnetID   string   `gcfg:"subnet-id"`
		SpreadOver string   `gcfg:"spread-over"`
	}
	Registry map[string]*auth.Registry
}

func TestDecodeValues(t *testing.T) {
	const file = "\ufeff; comment\n[global]\nAUTH-URL = https://keystone/v3 # comment\nusername=\"a;b\\\"c\\\\d\\te\"\r\n" +
		"password = \"p#w;\" ; why\ntls-insecure = true\nuse-clouds = on\n[LoadBalancer]\nenabled=no\nmonitor-max-retries=0x10\ndelay=1m\n" +
		"network=zero\nnetwork\nnetwork=one\nnetwork=two\nlimit=-3\nspread-over=a \\\n b\n[Registry \"r.example:5000\"]\ntype = barbican\ncache-duration=0s\n[Registry \"q\"]\n"
	var got, want testConf
	warnings, err := gcfg.Decode("cloud.conf", []byte(file), &got)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Decode: %v, warnings %q", err, warnings)
	}
	want.Global = auth.Config{AuthURL: "https://keystone/v3", Username: "a;b\"c\\d\te", Password: cloudauth.NewSecret("p#w;"), TLSInsecure: true, UseClouds: true}
	lb := &want.LoadBalancer
	lb.MonitorMax, lb.Delay, lb.Networks, lb.SpreadOver = 16, time.Minute, []string{"one", "two"}, "a  b"
	limit, zero := -3, time.Duration(0)
	lb.Limit = &limit
	want.Registry = map[string]*auth.Registry{"r.example:5000": {Type: "barbican", CacheDuration: &zero}, "q": {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestDecodeComplaints(t *testing.T) {
	for name, tt := range map[string]struct {
		conf     string
		part     bool
		warnings []string
		errs     []string
	}{
		"mistyped key": {
			conf:     "[Global]\nregoin = x\n",
			warnings: []string{"c: line 2: unknown key [Global] regoin; did you mean region?; it is ignored"},
		},
		"key of another section": {
			conf:     "[Global]\nsubnet-id = x\n",
			warnings: []string{"c: line 2: unknown key [Global] subnet-id; it belongs in [LoadBalancer]; it is ignored"},
		},
		"unknown key without a neighbor": {
			conf:     "[Global]\nfoo-bar-baz = x\n",
			warnings: []string{"c: line 2: unknown key [Global] foo-bar-baz; it is ignored"},
		},
		"mistyped section": {
			conf:     "[LoadBalencer]\nsubnet-id = x\nenabled = true\n",
			warnings: []string{"c: line 1: unknown section [LoadBalencer]; did you mean [LoadBalancer]? it is ignored"},
		},
		"unknown section": {
			conf:     "[Metadata]\nx = y\n",
			warnings: []string{"c: line 1: unknown section [Metadata]; it is ignored (known: Global, LoadBalancer, Registry)"},
		},
		"unknown section, part": {conf: "[Metadata]\nx = y\n", part: true},
		"mistyped section, part": {
			conf: "[Registri \"a\"]\ntype = y\n", part: true,
			warnings: []string{`c: line 1: unknown section [Registri "a"]; did you mean [Registry]? it is ignored`},
		},
		"name missing":  {conf: "[Registry]\ntype = x\n", warnings: []string{`c: line 1: section [Registry] has no name; write [Registry "name"]; it is ignored`}},
		"name too much": {conf: "[Global \"a\"]\nregion = x\n", warnings: []string{`c: line 1: section [Global "a"] takes no name; write [Global]; it is ignored`}},
		"a protection is not turned off by another word": {conf: "[Global]\ntls-insecure = yes\n", warnings: []string{`c: line 2: [Global] tls-insecure: "yes": only true turns it on`}},
		"nor by the key alone":                           {conf: "[Global]\ntls-insecure\n", errs: []string{"c: line 2: [Global] tls-insecure: the key needs a value (key = value)"}},
		"key twice": {
			conf:     "[Global]\nregion = a\nregion = b\n",
			warnings: []string{"c: line 3: [Global] region is given again (first in line 2); the last one counts"},
		},
		"password cut by a comment": {
			conf:     "[Global]\npassword = abc#def\n",
			warnings: []string{"c: line 2: the value of [Global] password ends where a comment starts; if # or ; is part of it, put it in double quotes"},
		},
		"all errors at once": {
			conf: "[Global]\nuse-clouds = maybe\npassword = \"s3cret\nusername\n[LoadBalancer]\nmonitor-max-retries = 99999999999999999999\ndelay = 5\nlimit = x\n",
			errs: []string{
				`c: line 2: [Global] use-clouds: "maybe" is neither true nor false`,
				`c: line 3: string not terminated; close the quotes on the same line; write \" for a quote inside`,
				`c: line 4: [Global] username: the key needs a value (key = value)`,
				`c: line 6: [LoadBalancer] monitor-max-retries: "99999999999999999999" is no integer that fits here`,
				`c: line 7: [LoadBalancer] delay: "5" is no duration; write for example 30s, 10m or 1h`,
				`c: line 8: [LoadBalancer] limit: "x" is no integer that fits here`,
			},
		},
		"backslash in a password": {
			conf: "[Global]\npassword = s3cret\\x\n",
			errs: []string{`c: line 2: unquoted '\' must be followed by new line or double quote; put the value in double quotes and write \\ for a backslash`},
		},
		"unknown escape": {
			conf: "[Global]\npassword = \"s3cret\\x\"\n",
			errs: []string{`c: line 2: unknown escape sequence; inside quotes write \\ for a backslash and \" for a quote`},
		},
		"no section":              {conf: "region = x\nusername = y\n", errs: []string{"c: line 1: a key comes before the first [section]; is this a cloud.conf?"}},
		"keys below a bad header": {conf: "[Global]\nregion = a\n[Load Balancer]\nregion = b\nsubnet-id = x\n", errs: []string{`c: line 3: expected ']' at the end of the section's name; a section is [Name] or [Name "sub"]`}},
		"bad header":              {conf: "[Global\nregion = x\n", errs: []string{`c: line 1: expected ']' at the end of the section's name; a section is [Name] or [Name "sub"]`}},
		"not an INI":              {conf: "= x\n", errs: []string{"c: line 1: expected a [section] or key = value"}},
		"underscore in a key":     {conf: "[Global]\nauth_url = x\n", errs: []string{`c: line 2: illegal character U+005F '_'; a line is [section], [section "name"] or key = value, and a key has letters, digits and dashes`}},
		"name without quotes":     {conf: "[Registry r.example:5000]\n", errs: []string{`c: line 1: illegal character U+002E '.'; a line is [section], [section "name"] or key = value, and a key has letters, digits and dashes`}},
		"password on a line of its own": {
			conf: "[Global]\npassword =\ns3cret-password\ntls-insecur\n",
			warnings: []string{
				"c: line 3: no known key of [Global], and without a value; it is ignored",
				"c: line 4: unknown key [Global] tls-insecur; did you mean tls-insecure?; it is ignored",
			},
		},
		"rest of a password on a line of its own": {conf: "[Global]\npassword =\ns3cret x\n", errs: []string{"c: line 3: expected '=' after the key"}},
		"a file that holds a secret":              {conf: "s3cret\n", errs: []string{"c: line 1: a key comes before the first [section]; is this a cloud.conf?"}},
		"missing equals":                          {conf: "[Global]\nregion x\n", errs: []string{"c: line 2: expected '=' after the key"}},
	} {
		t.Run(name, func(t *testing.T) {
			var conf testConf
			decode := gcfg.Decode
			if tt.part {
				decode = gcfg.DecodePart
			}
			warnings, err := decode("c", []byte(tt.conf), &conf)
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			var errs []string
			if err != nil {
				errs = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.errs, errs); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if shown := fmt.Sprint(err, warnings); strings.Contains(shown, "s3cret") {
				t.Errorf("a message shows a secret: %s", shown)
			}
		})
	}
}

// plainConf is a section of strings, which gcfg itself can decode as well.
type plainConf struct {
	Global struct {
		Region   string
		Username string
		Password string
	}
	Registry map[string]*struct {
		Type string
	}
}

// FuzzDecode checks that nothing panics, that a password is in no error or warning, and that
// what gcfg itself, the library of the existing cloud controllers, accepts means the same here.
func FuzzDecode(f *testing.F) {
	for _, file := range []string{"../cloudauth/openstack/testdata/global.conf"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{"[Global]\nregion=a\\\nb\n", "[Registry \"a\\\"b\"]\ntype=\"x\"y\n", "[a]b=c", "[Global]\npassword=\"#\" ;x\n", "[Global]\r\nregion = a \r\n", "[Global]region=\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var all testConf
		_, _ = gcfg.Decode("c", data, &all)

		var theirs, ours plainConf
		theirErr := theirgcfg.FatalOnly(theirgcfg.ReadStringInto(&theirs, strings.TrimPrefix(string(data), "\ufeff")))
		_, err := gcfg.Decode("c", data, &ours)
		if theirErr != nil {
			return
		}
		if err != nil {
			t.Fatalf("gcfg accepts what Decode refuses: %v", err)
		}
		// gcfg takes [Registry] without a name for one named ""; here it is warned about.
		if delete(theirs.Registry, ""); len(theirs.Registry) == 0 {
			theirs.Registry = nil
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("decoded differently (-gcfg +ours):\n%s", diff)
		}
	})
}
