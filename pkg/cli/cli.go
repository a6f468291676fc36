// Package cli is the tree of isthmus' commands. Each command is a package below this one.
package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/isthmus-cloud/isthmus/pkg/cli/doctor"
	"github.com/isthmus-cloud/isthmus/pkg/cli/explain"
	"github.com/isthmus-cloud/isthmus/pkg/cli/orphans"
	"github.com/isthmus-cloud/isthmus/pkg/cli/status"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// Command returns isthmus with all commands below it. name is what the program was called as: kubectl-isthmus is a plugin of kubectl.
func Command(name string) *cobra.Command {
	display := "isthmus"
	if strings.HasPrefix(name, "kubectl-") {
		display = "kubectl isthmus"
	}
	root := &cobra.Command{
		Use:   "isthmus",
		Short: "Ask about a cluster, its cloud, and what stands between them",
		Long: `isthmus answers an operator's questions about a cluster whose cloud Isthmus serves. It reads the
API server with your kubeconfig and the cloud with a cloud.conf, and changes neither; only orphans --delete
deletes in the cloud what you agree to.

Named kubectl-isthmus and in your PATH, it is a plugin of kubectl: kubectl isthmus doctor.`,
		Version:       version.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: display},
	}
	root.AddCommand(doctor.Command(), explain.Command(), orphans.Command(), status.Command(), versionCommand())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Misused(cmd, err) })
	return root
}

// Misused adds to what is wrong with a call of a command how it is called.
func Misused(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w\n→ %s --help", err, cmd.CommandPath())
}
