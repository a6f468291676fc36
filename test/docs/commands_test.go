package docs

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/isthmus-cloud/isthmus/pkg/cli"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/providers"
	"github.com/isthmus-cloud/isthmus/test/docs/markdown"
)

// TestCommandsOfIsthmus: isthmus knows the command of each line that is shown, its flags with their values, and how many arguments
// it has. The tests in cmd take the command lines of the other programs.
func TestCommandsOfIsthmus(t *testing.T) {
	lines := markdown.Commands(t, root, "isthmus")
	for _, line := range lines {
		root := cli.Command("isthmus")
		root.InitDefaultCompletionCmd() // as Execute does
		cmd, rest, err := root.Find(line.Args)
		if err == nil {
			err = takes(cmd, rest, line.Mention)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", line.Where, line.Text, err)
		}
	}
	if len(lines) < 60 {
		t.Errorf("%d command lines: this test checks too little", len(lines))
	}
}

// TestCommandsAreListed: the page on the command line has each command.
func TestCommandsAreListed(t *testing.T) {
	shown := map[string]bool{}
	for _, line := range markdown.Commands(t, root, "isthmus") {
		if strings.HasPrefix(line.Where, "docs/guides/cli.md:") && len(line.Args) > 0 {
			shown[line.Args[0]] = true
		}
	}
	commands := cli.Command("isthmus")
	commands.InitDefaultCompletionCmd()
	for _, c := range commands.Commands() {
		if !shown[c.Name()] {
			t.Errorf("docs/guides/cli.md does not have isthmus %s", c.Name())
		}
	}
}

func takes(cmd *cobra.Command, args []string, mention bool) error {
	if err := cmd.ParseFlags(args); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if f := cmd.Flag("output"); f != nil {
		if err := output.Validate(f.Value.String()); err != nil {
			return err
		}
	}
	if f := cmd.Flag("cloud-provider"); f != nil && f.Changed {
		if _, err := providers.Named(f.Value.String()); err != nil {
			return err
		}
	}
	if mention {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
