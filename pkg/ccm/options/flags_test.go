package options

import (
	"bufio"
	"bytes"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

//go:embed testdata/framework-flags.tsv
var frameworkFlags []byte

func allFlags(t *testing.T) (*Options, *pflag.FlagSet) {
	t.Helper()
	o, err := New()
	if err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, section := range o.Flags().FlagSets {
		fs.AddFlagSet(section)
	}
	return o, fs
}

// Every flag of the framework's is ours with the same type and default (but for three), or
// ignored, or the webhook server's.
func TestFlagsAreTheFrameworks(t *testing.T) {
	_, fs := allFlags(t)
	retyped := map[string]string{"feature-gates": "mapStringString", "version": "bool"}
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(frameworkFlags)); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		n++
		name, rest, _ := strings.Cut(lines.Text(), "\t")
		kind, def, _ := strings.Cut(rest, "\t")
		if name == "webhooks" || strings.HasPrefix(name, "webhook-") {
			continue
		}
		f := fs.Lookup(name)
		if f == nil {
			t.Errorf("--%s is neither known nor ignored", name)
			continue
		}
		if f.Hidden {
			continue // ignored
		}
		if ours, is := map[string]string{"concurrent-service-syncs": "100", "concurrent-node-syncs": "10", "kube-api-qps": "-1"}[name]; is { // see options.go
			def = ours
		}
		if want, ok := retyped[name]; ok {
			kind, def = want, f.DefValue
		}
		if f.Value.Type() != kind || f.DefValue != def {
			t.Errorf("--%s is a %s with default %q, the framework's is a %s with default %q", name, f.Value.Type(), f.DefValue, kind, def)
		}
		if f.Usage == "" {
			t.Errorf("--%s has no help", name)
		}
	}
	if n < 60 {
		t.Fatalf("read only %d flags", n)
	}
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		args          string
		help, version bool
		err           string
	}{
		{args: "--cloud-provider=openstack --v=4 --controllers=*,-route"},
		{args: "--cloud-provder=x", err: "unknown flag --cloud-provder: did you mean --cloud-provider?"},
		{args: "--xyzzy", err: "unknown flag --xyzzy: see --help for all flags"},
		{args: "-q", err: "unknown flag -q: flags begin with two dashes; see --help"},
		{args: "run", err: `unexpected argument "run": all settings are flags (--name=value); see --help`},
		{args: "--kube-api-qps=x", err: `invalid argument "x" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "x": invalid syntax`},
		{args: "--use-service-account-credentials=false --cidr-allocator-type=RangeAllocator --authentication-skip-lookup"},
		{args: "--cloud_provider=openstack --user-agent=a --user-agent=b"},
		{args: "--node-labels=team=a,env=prod"}, // of another manager; with a warning
		{args: "--help --nonsense", help: true},
		{args: "-h", help: true},
		{args: "--version", version: true},
	} {
		t.Run(test.args, func(t *testing.T) {
			o, err := New()
			if err != nil {
				t.Fatal(err)
			}
			help, version, err := Parse(o.Flags(), strings.Fields(test.args))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.err || help != test.help || version != test.version {
				t.Errorf("got help %t, version %t, error %q; want %t, %t, %q", help, version, got, test.help, test.version, test.err)
			}
		})
	}
}

// What /flagz and /configz show has no password.
func TestValuesHaveNoPasswords(t *testing.T) {
	o, err := New()
	if err != nil {
		t.Fatal(err)
	}
	sections := o.Flags()
	if _, _, err := Parse(sections, []string{"--master=https://admin:hunter2@api.example:6443", "--cluster-name=a:b@c"}); err != nil {
		t.Fatal(err)
	}
	got := Values(sections)
	if got["master"] != "https://admin:xxxxx@api.example:6443" || got["cluster-name"] != "a:b@c" {
		t.Errorf("--master is shown as %q, --cluster-name as %q", got["master"], got["cluster-name"])
	}
}

func TestHelpShowsSectionsAndNothingIgnored(t *testing.T) {
	o, err := New()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	PrintHelp(&out, o.Flags(), 0)
	for _, want := range []string{"Cloud flags:", "Leader election flags:", "Cloud-node-controller flags:", "--secure-port int", "--feature-gates"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out.String())
		}
	}
	for _, r := range ignoredFlags() {
		if strings.Contains(out.String(), "--"+r.name) {
			t.Errorf("help shows --%s, which has no effect", r.name)
		}
	}
}

// Every flag that --help names is taken, with the value that it has by default, or with another one and the
// feature gate of which it says that it is to be enabled.
func TestFlagsOfHelpAreTaken(t *testing.T) {
	gate := regexp.MustCompile(`Enable the (\w+) feature gate`)
	values := map[string]string{"bool": "true", "quantity": "1Mi"}
	gated := 0
	_, all := allFlags(t)
	all.VisitAll(func(f *pflag.Flag) {
		args := []string{"--cloud-provider=openstack"}
		switch m := gate.FindStringSubmatch(f.Usage); {
		case m != nil:
			gated++
			args = append(args, "--"+f.Name+"="+values[f.Value.Type()], "--feature-gates="+m[1]+"=true")
		case strings.Trim(f.DefValue, "[]") != "" && f.Name != "help" && f.Name != "version":
			args = append(args, "--"+f.Name+"="+strings.Trim(f.DefValue, "[]"))
		}
		o, err := New()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Parse(o.Flags(), args); err != nil {
			t.Errorf("%v: %v", args, err)
		} else if err := o.Validate([]string{"openstack"}); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	})
	if gated < 2 {
		t.Errorf("%d flags name a gate, want those of the text format at the least", gated)
	}
}

func TestValidate(t *testing.T) {
	valid := []string{"--cloud-provider=openstack"}
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{name: "least"},
		{name: "no limit of requests", args: []string{"--kube-api-qps=0", "--kube-api-burst=0"}},
		{name: "all at once", args: []string{"--cloud-provider=", "--cluster-cidr=10.0.0.0/8,10.1.0.0/16", "--controllers=foo,servce", "--concurrent-node-syncs=0", "--concurrent-service-syncs=-1",
			"--node-monitor-period=0s", "--kube-api-qps=20", "--kube-api-burst=0", "--leader-elect-lease-duration=5s", "--secure-port=70000", "--tls-cert-file=/does/not/exist", "--tls-min-version=TLS9",
			"--feature-gates=CloudControllerManagerWebhok=true"},
			want: []string{
				"--cloud-provider is required: one of gce, openstack",
				"--cluster-cidr: 10.0.0.0/8 and 10.1.0.0/16 overlap",
				`--controllers: "foo" is not a controller: known are cloud-node-controller, cloud-node-lifecycle-controller, kubelet-serving-csr-approver-controller, node-ipam-controller, node-route-controller, persistentvolume-label-controller, service-lb-controller, tagging`,
				`--controllers: "servce" is not a controller: did you mean service?`,
				"--concurrent-node-syncs must be at least 1, not 0: turn a controller off with --controllers=*,-<name>",
				"--concurrent-service-syncs must be at least 1, not -1: turn a controller off with --controllers=*,-<name>",
				"--kube-api-burst must be at least 1 with --kube-api-qps=20, not 0",
				"--node-monitor-period must be positive, not 0s",
				"--leader-elect-lease-duration (5s) must be longer than --leader-elect-renew-deadline (10s), and that longer than 1.2 times --leader-elect-retry-period (2s)",
				"--secure-port must be between 0 and 65535, not 70000",
				"--tls-cert-file and --tls-private-key-file must be given together",
				"--tls-cert-file: open /does/not/exist: no such file or directory: check the path and its permissions",
				`--tls-min-version: unknown tls version "TLS9": use one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13`,
				`--feature-gates: unknown gate "CloudControllerManagerWebhok": did you mean CloudControllerManagerWebhook?`,
			}},
		{name: "unknown cloud", args: []string{"--cloud-provider=aws"}, want: []string{`--cloud-provider: "aws" is not a cloud of this binary: use one of gce, openstack`}},
		{name: "files that are none", args: []string{"--kubeconfig=/", "--cloud-config=/does/not/exist"},
			want: []string{"--cloud-config: open /does/not/exist: no such file or directory: check the path and its permissions", "--kubeconfig: / is a directory, not a file"}},
		{name: "migration without election", args: []string{"--leader-elect=false", "--enable-leader-migration"}, want: []string{"--enable-leader-migration requires --leader-elect"}},
		{name: "dual stack, none, gate", args: []string{"--cluster-cidr=10.244.0.0/16,fd00::/48", "--controllers=-*", "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true"}},
		{name: "node IPAM", args: []string{"--controllers=*,node-ipam-controller", "--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16,10.99.0.0/16,fd00::/48", "--service-cluster-ip-range=10.96.0.0/12", "--node-cidr-mask-size-ipv4=25"}},
		{name: "node IPAM alone", args: []string{"--controllers=nodeipam"}, want: []string{"--controllers names node-ipam-controller, which requires --allocate-node-cidrs"}},
		{name: "node IPAM without CIDRs", args: []string{"--controllers=nodeipam", "--allocate-node-cidrs"}, want: []string{"--allocate-node-cidrs requires --cluster-cidr"}},
		{name: "node IPAM from the cloud", args: []string{"--controllers=nodeipam", "--allocate-node-cidrs", "--cidr-allocator-type=CloudAllocator"}},
		{name: "node IPAM from elsewhere", args: []string{"--controllers=nodeipam", "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16", "--cidr-allocator-type=IPAMFromCluster"}, want: []string{`--cidr-allocator-type must be RangeAllocator or CloudAllocator, not "IPAMFromCluster"`}},
		{name: "CIDRs from the cloud, but not here", args: []string{"--allocate-node-cidrs", "--cidr-allocator-type=CloudAllocator"}, want: []string{"--allocate-node-cidrs requires --cluster-cidr"}},
		{name: "node IPAM with nonsense", args: []string{"--controllers=nodeipam", "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/33", "--service-cluster-ip-range=x"}, want: []string{`--cluster-cidr: "10.0.0.0/33" is not a CIDR such as 10.244.0.0/16`}},
		{name: "node IPAM with other nonsense", args: []string{"--controllers=nodeipam", "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16", "--service-cluster-ip-range=x"}, want: []string{`--service-cluster-ip-range: "x" is not a CIDR such as 10.244.0.0/16`}},
		{name: "node IPAM with a wrong size", args: []string{"--controllers=nodeipam", "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16", "--node-cidr-mask-size=15"}, want: []string{"--node-cidr-mask-size: a Node's CIDR of /15 is larger than the cluster CIDR 10.0.0.0/16"}},
		{name: "gate of logging", args: []string{"--feature-gates=LoggingAlphaOptions=true,ContextualLogging=false", "--log-text-split-stream", "--log-text-info-buffer-size=1Mi"}},
		{name: "gate of logging left off", args: []string{"--feature-gates=LoggingAlphaOptions=false", "--log-text-split-stream"}, want: []string{
			"--logging-format and its options: options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"}},
		{name: "gate of logging without truth", args: []string{"--feature-gates=LoggingAlphaOptions=maybe"}, want: []string{`--feature-gates: LoggingAlphaOptions must be true or false, not "maybe"`}},
		{name: "no such topology", args: []string{"--persistentvolume-csi-topology=zone"}, want: []string{`--persistentvolume-csi-topology: "zone" is not one of auto, always, never`}},
		{name: "gate of no truth", args: []string{"--feature-gates=CloudControllerManagerWebhook=maybe"}, want: []string{`--feature-gates: CloudControllerManagerWebhook must be true or false, not "maybe"`}},
		{name: "paths and content type", args: []string{"--authorization-always-allow-paths=/healthz,/open/*,healthz,/a*b,*", "--kube-api-content-type=foo"}, want: []string{
			`--kube-api-content-type: "foo" is not one of application/vnd.kubernetes.protobuf, application/json`,
			`--authorization-always-allow-paths: "healthz" is no path such as /healthz or, for all that begin so, /healthz/*`,
			`--authorization-always-allow-paths: "/a*b" is no path such as /healthz or, for all that begin so, /healthz/*`,
			`--authorization-always-allow-paths: "*" is no path such as /healthz or, for all that begin so, /healthz/*`,
		}},
		{name: "tags", args: []string{"--controllers=*,tagging", "--tags=team=blue,cost=", "--resources=instance"}},
		{name: "tagging without tags", args: []string{"--controllers=tagging", "--resources=volume", "--tagging-controller-rate-limit=5"}, want: []string{
			"--controllers names tagging, which requires --tags, such as --tags=team=blue", `--resources: "volume" cannot be tagged, only instance`,
		}},
		{name: "tagging of nothing", args: []string{"--controllers=tagging", "--tags=team=blue"}, want: []string{"--controllers names tagging, which requires --resources=instance"}},
		{name: "deletion guard", args: []string{"--node-deletion-limit-percentage=101", "--node-deletion-limit-count=-1", "--node-deletion-settle-time=-1s"}, want: []string{
			"--node-deletion-limit-count must not be negative, but is -1", "--node-deletion-limit-percentage must be between 0 and 100, not 101",
			"--node-deletion-settle-time must not be negative, but is -1s",
		}},
		{name: "log format", args: []string{"--logging-format=xml"}, want: []string{`--logging-format and its options: format: Invalid value: "xml": Unsupported log format`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := New()
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := Parse(o.Flags(), append(valid[:1:1], test.args...)); err != nil {
				t.Fatal(err)
			}
			var got []string
			if err := o.Validate([]string{"gce", "openstack"}); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnabled(t *testing.T) {
	for _, test := range []struct {
		list string
		want []string
	}{
		{"*", []string{"cloud-node-controller", "cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller"}},
		{"*,kubelet-serving-csr-approver-controller,nodeipam,pvlabel,tagging", controllerNames()},
		{"*,-nodeipam,nodeipam", []string{"cloud-node-controller", "cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller"}},
		{"", nil},
		{"-*", nil},
		{"*,-*", nil},
		{"-*,service", []string{"service-lb-controller"}},
		{"*,-route", []string{"cloud-node-controller", "cloud-node-lifecycle-controller", "service-lb-controller"}},
		{"-route,route,*", []string{"cloud-node-controller", "cloud-node-lifecycle-controller", "service-lb-controller"}},
		{"cloud-node,node-route-controller", []string{"cloud-node-controller", "node-route-controller"}},
		{"*,-cloud-node,-cloud-node-lifecycle-controller,-service", []string{"node-route-controller"}},
	} {
		o := &Options{}
		o.Component.Generic.Controllers = strings.Split(test.list, ",")
		if diff := cmp.Diff(test.want, o.EnabledControllers()); diff != "" {
			t.Errorf("--controllers=%s (-want +got):\n%s", test.list, diff)
		}
	}
	for list, want := range map[string]bool{"*": true, "*,-pvlabel": false, "-*": false, "-*,persistentvolume-label-controller": true, "service": false} {
		o := &Options{LabelPersistentVolumes: true}
		o.Component.Generic.Controllers = strings.Split(list, ",")
		if got := slices.Contains(o.EnabledControllers(), PersistentVolumeLabelController); got != want {
			t.Errorf("--controllers=%s where the webhook is on: PersistentVolumes are labeled %v, want %v", list, got, want)
		}
	}
}

// Zero workers are refused at start; the framework accepts them and then does nothing.
func TestComplaintConcurrentNodeSyncsZero(t *testing.T) {
	o, fs := allFlags(t)
	if err := fs.Parse([]string{"--cloud-provider=openstack", "--concurrent-node-syncs=0"}); err != nil {
		t.Fatal(err)
	}
	if err := o.Validate([]string{"openstack"}); err == nil || !strings.Contains(err.Error(), "--concurrent-node-syncs must be at least 1") {
		t.Errorf("got %v", err)
	}
}

// TestFlagsWithoutEffectWhenManifestsCarryThem: what other cloud controller managers take does not
// stop the start; whoever asks for something else than happens is told.
func TestFlagsWithoutEffectWhenManifestsCarryThem(t *testing.T) {
	for args, want := range map[string]string{
		"--use-service-account-credentials=false --cidr-allocator-type=RangeAllocator --authentication-skip-lookup": "",
		"--use-service-account-credentials":        "--use-service-account-credentials=true has no effect: all controllers share one least-privileged ServiceAccount; remove the flag",
		"--requestheader-username-headers=x":       "--requestheader-username-headers=x has no effect: clients behind a front proxy",
		"--external-cloud-volume-plugin=openstack": "--external-cloud-volume-plugin=openstack has no effect",
	} {
		o, err := New()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Parse(o.Flags(), strings.Fields(args)); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if got := strings.Join(o.Warnings, "\n"); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: warnings %q, want %q", args, got, want)
		}
	}
}
