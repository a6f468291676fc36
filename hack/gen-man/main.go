// Command gen-man writes what is installed beside the binary isthmus into a folder: a man page for each command, and what completes
// them in shells. The date in the pages is SOURCE_DATE_EPOCH, so that they are the same twice.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/isthmus-cloud/isthmus/pkg/cli"
)

// plugin is what kubectl runs to complete a plugin, under the name kubectl_complete-PLUGIN.
const plugin = "#!/bin/sh\nexec kubectl isthmus __complete \"$@\"\n"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen-man FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen-man:", err)
		os.Exit(1)
	}
}

// write makes the folder anew.
func write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil { //nolint:gosec // for everyone
			return err
		}
	}
	root := cli.Command("isthmus")
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Title: "ISTHMUS", Section: "1", Source: "Isthmus", Manual: "Isthmus"}
	if err := doc.GenManTree(root, header, man); err != nil {
		return err
	}
	for name, generate := range map[string]func(*cobra.Command, string) error{
		"isthmus.bash": func(c *cobra.Command, f string) error { return c.GenBashCompletionFileV2(f, true) },
		"_isthmus":     (*cobra.Command).GenZshCompletionFile,
		"isthmus.fish": func(c *cobra.Command, f string) error { return c.GenFishCompletionFile(f, true) },
		"isthmus.ps1":  (*cobra.Command).GenPowerShellCompletionFileWithDesc,
	} {
		if err := generate(root, filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(completions, "kubectl_complete-isthmus"), []byte(plugin), 0o755) //nolint:gosec // a program for everyone
}
