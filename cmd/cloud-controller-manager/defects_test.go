package main

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/ccm"
)

// The framework's commands that host webhooks refuse --logging-format.
func TestDefectLoggingFormatRejected(t *testing.T) {
	o, err := newOptions()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ccm.Parse(o.flags(), []string{"--webhooks=*", "--logging-format=json"}); err != nil {
		t.Fatal(err)
	}
	if got := o.ccm.Logging.Format; got != "json" || !o.webhooks.on("persistentvolume-label") {
		t.Errorf("format %q, webhooks %q", got, o.webhooks.list)
	}
}
