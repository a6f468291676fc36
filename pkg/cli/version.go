package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// versionCommand says what --version does, and to programs more.
func versionCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program; it asks nobody",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Validate(format); err != nil {
				return err
			}
			if format != output.JSON {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s version %s\n", cmd.Root().DisplayName(), version.String())
				return err
			}
			return output.Encode(cmd.OutOrStdout(), struct {
				Version  string `json:"version"`
				Go       string `json:"goVersion"`
				Platform string `json:"platform"`
			}{version.String(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
		},
	}
	output.AddFlag(cmd.Flags(), &format)
	return cmd
}
