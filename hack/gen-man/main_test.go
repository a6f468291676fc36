package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/isthmus-cloud/isthmus/pkg/cli"
)

// Each command has a page that names each of its flags, and all is the same twice, whatever was in the folder.
func TestWrite(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	first, second := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(second, "stale"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{first, second} {
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("diff", "-r", first, second).CombinedOutput(); err != nil {
		t.Errorf("written twice: %v\n%s", err, out)
	}
	pages := 0
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		page := filepath.Join(first, "man", strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		if !strings.Contains(string(text), ` "1" "Nov 2023" "Isthmus" "Isthmus"`) {
			t.Errorf("%s has another title:\n%.200s", page, text)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(strings.ReplaceAll(string(text), `\-`, "-"), "--"+f.Name) {
				t.Errorf("%s does not name --%s", page, f.Name)
			}
		})
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() {
				look(below)
			}
		}
	}
	look(cli.Command("isthmus"))
	if got, err := os.ReadDir(filepath.Join(first, "man")); err != nil || len(got) != pages || pages < 3 {
		t.Errorf("%d pages of %d commands: %v", len(got), pages, err)
	}
}

// bash takes its completion, and kubectl's reaches the program that is in the PATH.
func TestCompletions(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("bash", "-n", filepath.Join(dir, "completions/isthmus.bash")).CombinedOutput(); err != nil {
		t.Errorf("isthmus.bash: %v\n%s", err, out)
	}
	for _, f := range []string{"_isthmus", "isthmus.fish", "isthmus.ps1"} {
		if text, err := os.ReadFile(filepath.Join(dir, "completions", f)); err != nil || !strings.Contains(string(text), "__complete") {
			t.Errorf("%s: %v", f, err)
		}
	}
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	if err := os.WriteFile(kubectl, []byte("#!/bin/sh\nprintf '[%s]' \"$@\"\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "completions/kubectl_complete-isthmus"), "orphans", "--cloud provider", "")
	cmd.Env = []string{"PATH=" + filepath.Dir(kubectl) + ":/bin:/usr/bin"}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "[isthmus][__complete][orphans][--cloud provider][]" {
		t.Errorf("kubectl_complete-isthmus: %v, %s", err, out)
	}
}
