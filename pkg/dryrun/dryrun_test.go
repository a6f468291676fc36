package dryrun

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/klog/v2/ktesting"
)

func TestChangeIsToldOnce(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
	var once Once
	tell := func(request, body string) bool {
		t.Helper()
		buffer := logger.GetSink().(ktesting.Underlier).GetBuffer()
		before := buffer.String()
		once.Logger(logger, request, []byte(body)).Info("it would be changed")
		return strings.Contains(strings.TrimPrefix(buffer.String(), before), "it would be changed")
	}
	for _, step := range []struct {
		request, body string
		want          bool
	}{{"PUT /a", "1", true}, {"PUT /a", "1", false}, {"PUT /a", "2", true}, {"PUT /b", "1", true}, {"DELETE /a", "", true}, {"PUT /a", "2", false}} {
		if got := tell(step.request, step.body); got != step.want {
			t.Errorf("%s %s: told %t, want %t", step.request, step.body, got, step.want)
		}
	}
	for n := range mostSeen {
		once.Logger(logger, "PUT /many", []byte(strconv.Itoa(n)))
	}
	if len(once.seen) > mostSeen || !tell("PUT /a", "1") {
		t.Errorf("%d are remembered, at most %d are to be, and what was forgotten is told again", len(once.seen), mostSeen)
	}
}
