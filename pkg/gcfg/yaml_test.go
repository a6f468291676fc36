package gcfg_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

// bothConf can be written as INI and as YAML.
type bothConf struct {
	Global struct {
		User        string           `gcfg:"user" yaml:"user"`
		Password    cloudauth.Secret `gcfg:"password" yaml:"password"`
		Port        int              `gcfg:"port" yaml:"port"`
		Insecure    bool             `gcfg:"insecure-flag" yaml:"insecureFlag"`
		Datacenters gcfg.List        `gcfg:"datacenters" yaml:"datacenters"`
		Tags        gcfg.Pairs       `gcfg:"tags" yaml:"tags"`
	} `gcfg:"Global" yaml:"global"`
	VCenter map[string]*struct {
		Server string `gcfg:"server" yaml:"server"`
	} `gcfg:"VirtualCenter" yaml:"vcenter"`
}

func TestBothSyntaxes(t *testing.T) {
	const ini = "# a\n[Global]\nuser=u\npassword=\"p: #\"\nport=443\ninsecure-flag=true\ndatacenters=\" a b, ,c \"\ntags=\"{\\\"a\\\":\\\"b\\\"}\"\n" +
		"[VirtualCenter \"x\"]\nserver=10.0.0.1\n[VirtualCenter \"y\"]\n"
	for name, yaml := range map[string]string{
		"blocks": "# a\nglobal:\n  user: u\n  password: 'p: #'\n  port: 443\n  insecureFlag: true\n  datacenters:\n  - a b\n  - c\n  tags:\n    a: b\n" +
			"vcenter:\n  x:\n    server: 10.0.0.1\n  y:\n",
		"flow, quotes, aliases, nulls": "\ufeffglobal: {user: &u u, password: 'p: #', port: '443', insecureFlag: yes, datacenters: ' a b, ,c', tags: {a: b}}\n" +
			"other:\nvcenter: {x: {server: 10.0.0.1}, y: {server: null}}\n---\nsecond: document\n",
		"JSON": `{"global": {"user": "u", "password": "p: #", "port": 443, "insecureFlag": true, "datacenters": ["a b", "c"], "tags": {"a": "b"}}, ` +
			`"vcenter": {"x": {"server": "10.0.0.1"}, "y": {}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var want, got bothConf
			if gcfg.IsYAML([]byte(ini)) || !gcfg.IsYAML([]byte(yaml)) {
				t.Error("one is taken for the other")
			}
			if warnings, err := gcfg.Decode("c", []byte(ini), &want); err != nil || len(warnings) > 0 {
				t.Fatal(err, warnings)
			}
			if _, err := gcfg.DecodeYAML("c", []byte(yaml), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || len(want.VCenter) != 2 || len(want.Global.Datacenters) != 2 {
				t.Errorf("%+v (-INI +YAML):\n%s", want, diff)
			}
		})
	}
}

func TestYAMLComplaints(t *testing.T) {
	for name, tt := range map[string]struct {
		conf, warnings, errs string
	}{
		"empty":                  {"", "", ""},
		"comments alone":         {"# nothing\n", "", ""},
		"mistyped key":           {"global:\n  insecure-flag: true\n", "c: line 2: unknown key global.insecure-flag; did you mean insecureFlag?; it is ignored", ""},
		"another case":           {"global:\n  insecureflag: true\n", "c: line 2: unknown key global.insecureflag; did you mean insecureFlag?; it is ignored", ""},
		"key of another section": {"global:\n  server: x\n", "c: line 2: unknown key global.server; it belongs in vcenter; it is ignored", ""},
		"mistyped section":       {"globl:\n  user: x\n", "c: line 1: unknown section globl; did you mean global? it is ignored", ""},
		"key twice":              {"global:\n  user: x\n  port: 1\n  user: s3cret\n", "c: line 4: global.user is given again (first in line 2); the last one counts", ""},
		"all errors at once": {"global:\n  port: s3cretport\n  insecureFlag: maybe\n  user: [a]\n  tags: b\nvcenter:\n  x: s3cret\n  y:\n    server: {a: s3cret}\n", "",
			"c: line 2: global.port: \"s3cretport\" is no integer that fits here\nc: line 3: global.insecureFlag: \"maybe\" is neither true nor false\n" +
				"c: line 4: global.user: it takes one value, not a list\nc: line 5: global.tags: it is no object of JSON with words in it, such as {\"a\": \"b\"}\n" +
				"c: line 7: vcenter.x is a section; its keys stand below it\nc: line 9: vcenter.y.server: it takes one value, not a map"},
		"a list of lists":      {"global:\n  datacenters: [[s3cret]]\n", "", "c: line 2: global.datacenters: an element of the list is no word"},
		"a map of maps":        {"global:\n  tags: {a: {b: s3cret}}\n", "", "c: line 2: global.tags: a value of the map is no word"},
		"a section that is no": {"global: s3cret\n", "", "c: line 1: global is a section; its keys stand below it"},
		"no map":               {"- s3cret\n", "", "c: line 1: the file is no YAML map of sections"},
		"not YAML":             {"global:\n  password: \"s3cret\n", "", "c: line 2: it is not YAML; look at indents, colons and quotes up to this line"},
		"an alias of itself":   {"global: &a\n  tags: *a\n", "", "c: line 2: global.tags: a value of the map is no word"},
	} {
		t.Run(name, func(t *testing.T) {
			var conf bothConf
			warnings, err := gcfg.DecodeYAML("c", []byte(tt.conf), &conf)
			if diff := cmp.Diff(tt.warnings, strings.Join(warnings, "\n")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			errs := ""
			if err != nil {
				errs = err.Error()
			}
			if diff := cmp.Diff(tt.errs, errs); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzDecodeYAML checks that nothing panics and that a password is in no error or warning.
func FuzzDecodeYAML(f *testing.F) {
	for _, s := range []string{"global:\n  password: s3cret\n  datacenters: [a]\n", "{global: &a {tags: *a}}", "vcenter: {x: {server: s3cret}}", "global: [s3cret]", "a: !!binary s3cret"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		var conf bothConf
		_, _ = gcfg.DecodeYAML("c", data, &conf)
	})
}
