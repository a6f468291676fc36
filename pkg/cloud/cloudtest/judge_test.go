package cloudtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	fails := func(t *T) { t.Fatalf("it does not") }
	works := func(*T) {}
	refused := func(t *T) {
		t.tell("refused")
		t.Fatalf("it does not")
	}
	for _, tt := range []struct {
		name     string
		check    func(*T)
		declared bool
		silent   bool
		works    bool   // what is found, whatever is declared
		want     string // a part of the problem; empty for none
	}{
		{name: "supported and works", check: works, works: true},
		{name: "supported and fails", check: fails, want: "it does not"},
		{name: "unsupported and works", check: works, declared: true, works: true, want: "but it works"},
		{name: "unsupported and refused", check: refused, declared: true},
		{name: "unsupported and nothing is said", check: fails, declared: true, want: "neither refuses"},
		{name: "unsupported, nothing to refuse", check: fails, declared: true, silent: true},
		{name: "not to be tried", check: func(t *T) { t.Impossible("why") }, declared: true},
		{name: "not to be tried, not declared", check: func(t *T) { t.Impossible("why") }, want: "declare it unsupported"},
		{name: "unsupported, and something is left behind", declared: true, want: "left", check: func(t *T) {
			t.Cleanup(func() { t.spoil("left") })
			refused(t)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ct := &T{Ctx: t.Context()}
			ct.run(tt.check)
			problems, _ := judge(ct, feature{silent: tt.silent}, "reason", tt.declared)
			if got := measured(ct, "reason"); got.Supported != tt.works || (got.Reason == "") != tt.works {
				t.Errorf("found: %+v, want supported %v", got, tt.works)
			}
			switch all := strings.Join(problems, "\n"); {
			case tt.want == "" && all != "":
				t.Errorf("problems: %s; want none", all)
			case !strings.Contains(all, tt.want) || tt.want != "" && len(problems) != 1:
				t.Errorf("problems: %q; want one with %q", problems, tt.want)
			}
		})
	}
}

func TestFeaturesAreDescribedOnce(t *testing.T) {
	seen := map[Feature]bool{}
	for _, f := range features() {
		if seen[f.name] || f.what == "" || f.check == nil {
			t.Errorf("feature %+v is there twice, or has no text or check", f)
		}
		seen[f.name] = true
	}
}

func TestResults(t *testing.T) {
	r := Results{LoadBalancerTCP: {Supported: true}, LoadBalancerTLS: {Reason: "no\u00a0keys"}}
	got, err := ParseResults(r.Marshal())
	if diff := cmp.Diff(r, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if _, err := ParseResults([]byte("lb-tcp\tunsupported: \n")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a reason that is missing: %v", err)
	}
}

func FuzzParseResults(f *testing.F) {
	f.Add([]byte("lb-tcp\tsupported\nlb-tls\tunsupported: no keys\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseResults(data)
		if err != nil {
			return
		}
		again, err := ParseResults(r.Marshal())
		if diff := cmp.Diff(r, again); len(r) > 0 && (err != nil || diff != "") {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	})
}
