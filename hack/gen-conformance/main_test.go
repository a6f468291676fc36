package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

func TestReference(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, r cloudtest.Results) {
		file := filepath.Join(dir, name+".golden")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, r.Marshal(), 0o600)); err != nil {
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
	for _, want := range []string{"| yes | no (1) | yes | no (1) | yes | no (1) |", "\n1. it cannot\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	short := full()
	delete(short, cloudtest.LoadBalancerTCP)
	write(openstack+"zed-ovn", short)
	if text, err = reference(dir); err != nil || !strings.Contains(string(text), "| yes | yes | yes | – | yes | yes |") {
		t.Errorf("a column that has not been run with a new feature: %v in\n%s", err, text)
	}
	write(openstack+"simulator-ovn", short)
	if _, err := reference(dir); err == nil || !strings.Contains(err.Error(), "lacks features") {
		t.Errorf("a column that lacks a feature: %v", err)
	}
}
