package main

import (
	"strings"
	"testing"

	ccmoptions "github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// The framework's commands that host webhooks refuse --logging-format.
func TestDefectLoggingFormatRejected(t *testing.T) {
	o, err := newOptions()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ccmoptions.Parse(o.flags(), []string{"--webhooks=*", "--logging-format=json"}); err != nil {
		t.Fatal(err)
	}
	if got := o.ccm.Logging.Format; got != "json" || !o.webhooks.on("persistentvolume-label") {
		t.Errorf("format %q, webhooks %q", got, o.webhooks.list)
	}
}

// Services without a class are judged by the webhook only where they are ours: not where the
// service controller is off because somebody else provides load balancers.
func TestServesClassless(t *testing.T) {
	for flags, want := range map[string]bool{
		"":                                       true,
		"--controllers=-*":                       true, // the process that only serves webhooks, beside one that does not
		"--controllers=*,-service-lb-controller": false,
		"--load-balancer-default-class=false":    false,
		"--controllers=-* --load-balancer-default-class=false": false,
	} {
		o, err := newOptions()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ccmoptions.Parse(o.flags(), strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		if got := o.ccm.ServesClassless(); got != want {
			t.Errorf("%s: %v, want %v", flags, got, want)
		}
	}
}
