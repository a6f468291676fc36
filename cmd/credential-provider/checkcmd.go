package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider/check"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
)

const checkHelp = `isthmus-credential-provider check looks for what is wrong with a kubelet's credential providers,
ours and others, and tries them for an image as the kubelet would. Run it as root on the node.

What the kubelet has. What is not given is taken from the kubelet that runs here, and then its
environment as well; with both, nothing is:
  --kubelet-config PATH    its --image-credential-provider-config, a file or a directory
  --bin-dir DIR            its --image-credential-provider-bin-dir

A dry run:
  --image IMAGE            run the providers that match this image, and say what the kubelet would
                           get; passwords are not shown
  --service-account-token-file FILE
                           the token of the pod's service account, for providers that get one
                           (kubectl create token NAME -n NAMESPACE --audience AUDIENCE)
  --annotation KEY=VALUE   an annotation of that service account; may be repeated

Whether the nodes may have tokens for the audience:
  --kubeconfig FILE        ask the API server with the kubelet's kubeconfig; otherwise the command
                           that asks is printed

  --help                   print this text

Exit code: 0 when nothing is wrong, 1 when there are problems, 2 for wrong flags.
`

// annotations is a flag KEY=VALUE that may be repeated.
type annotations map[string]string

// String implements flag.Value.
func (a *annotations) String() string { return "" }

// Set implements flag.Value.
func (a *annotations) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("it has to be KEY=VALUE")
	}
	if *a == nil {
		*a = annotations{}
	}
	(*a)[key] = value
	return nil
}

// parseCheck is the command check.
func parseCheck(args []string, s streams) (work, int) {
	o := check.Options{Parse: sourceOf}
	var given annotations
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.StringVar(&o.KubeletConfig, "kubelet-config", "", "")
	flags.StringVar(&o.BinDir, "bin-dir", "", "")
	flags.StringVar(&o.Image, "image", "", "")
	flags.StringVar(&o.TokenFile, "service-account-token-file", "", "")
	flags.Var(&given, "annotation", "")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	if code, ok := parseCommand(flags, args, checkHelp, s); !ok {
		return nil, code
	}
	o.Annotations = given
	c, err := check.New(o, "/proc", os.Environ())
	if err != nil {
		complain(s.err, err)
		return nil, exitUsage
	}
	return func(ctx context.Context) int {
		if !c.Run(ctx, s.out) {
			return exitFailed
		}
		return exitOK
	}, exitOK
}

// sourceOf is what the kubelet's arguments for this program say.
func sourceOf(args []string) (config.Source, error) {
	o, err := parse(args)
	return o.source, err
}
