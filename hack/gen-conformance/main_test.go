package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

func TestReference(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, r cloudtest.Results) {
		if err := os.WriteFile(filepath.Join(dir, name+".golden"), r.Marshal(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	full := func() cloudtest.Results {
		r := cloudtest.Results{}
		for _, f := range cloudtest.Features() {
			r[f] = cloudtest.Result{Supported: true}
		}
		return r
	}
	for i, c := range columns() {
		r := full()
		if i%2 == 1 {
			r[cloudtest.LoadBalancerTLS] = cloudtest.Result{Reason: "it cannot"}
		}
		write(c[0], r)
	}
	text, err := reference(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| yes | no (1) | yes | no (1) |", "\n1. it cannot\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	short := full()
	delete(short, cloudtest.LoadBalancerTCP)
	write("zed-ovn", short)
	if _, err := reference(dir); err == nil || !strings.Contains(err.Error(), "lacks features") {
		t.Errorf("a column that lacks a feature: %v", err)
	}
}
