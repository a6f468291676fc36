package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
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

// checkOptions are the flags of the command check.
type checkOptions struct {
	kubeletConfig, binDir string
	image                 string
	tokenFile             string
	annotations           annotations
	kubeconfig            string
}

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

// runCheck is the command check.
func runCheck(ctx context.Context, args []string, s streams) int {
	var o checkOptions
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.StringVar(&o.kubeletConfig, "kubelet-config", "", "")
	flags.StringVar(&o.binDir, "bin-dir", "", "")
	flags.StringVar(&o.image, "image", "", "")
	flags.StringVar(&o.tokenFile, "service-account-token-file", "", "")
	flags.Var(&o.annotations, "annotation", "")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "")
	if code, ok := parseCommand(flags, args, checkHelp, s); !ok {
		return code
	}
	c := check{options: o, out: s.out, environ: os.Environ(), failures: map[string]string{}}
	if err := c.prepare("/proc"); err != nil {
		complain(s.err, err)
		return exitUsage
	}
	return c.run(ctx)
}

// check is a run of the command.
type check struct {
	options checkOptions
	image   string // as the kubelet writes it
	token   cloudauth.Secret
	environ []string // the kubelet's
	kubelet runningKubelet
	out     io.Writer

	findings []kubelet.Finding
	failures map[string]string // what providers said that failed, by their names
	seen     strings.Builder   // what is printed after the findings
}

// prepare completes the flags with those of the kubelet that runs here, and reads what they name.
func (c *check) prepare(proc string) error {
	o := &c.options
	if o.kubeletConfig == "" || o.binDir == "" {
		// Only then: what is given in full may be another machine's, and a provider that is tried with
		// the environment of a kubelet that has nothing to do with it speaks to whatever that names.
		running, found := findKubelet(proc)
		if !found {
			return errors.New("no kubelet runs here; give --kubelet-config and --bin-dir, as its flags --image-credential-provider-config and --image-credential-provider-bin-dir are")
		}
		c.takeOver(running)
		if o.kubeletConfig == "" || o.binDir == "" {
			return fmt.Errorf("the kubelet that runs here (process %d) has no --image-credential-provider-config or no --image-credential-provider-bin-dir: it runs no provider; start it with both, or give --kubelet-config and --bin-dir", running.pid)
		}
	}
	if o.image != "" {
		image, err := credentialprovider.ParseImage(o.image)
		if err != nil {
			return fmt.Errorf("--image: %w", err)
		}
		c.image = kubeletName(image)
	}
	if o.image == "" && (o.tokenFile != "" || o.annotations != nil) {
		return errors.New("--service-account-token-file and --annotation are for --image")
	}
	if o.tokenFile != "" {
		data, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return fmt.Errorf("--service-account-token-file: %w", err)
		}
		c.token = cloudauth.NewSecret(strings.TrimSpace(string(data)))
		if c.token.IsEmpty() {
			return fmt.Errorf("--service-account-token-file: %s is empty", o.tokenFile)
		}
	}
	return nil
}

// takeOver completes the flags with what the running kubelet has, and tells where they differ from it.
func (c *check) takeOver(running runningKubelet) {
	o := &c.options
	c.kubelet = running
	if running.environ != nil {
		c.environ = running.environ
	} else {
		c.add(kubelet.Finding{Level: kubelet.Unchecked, Cause: fmt.Sprintf("the environment of the kubelet (process %d) cannot be read: providers are tried with that of this shell", running.pid), Next: "run this as root"})
	}
	for _, p := range []struct {
		given   *string
		running string
		flag    string
	}{{&o.kubeletConfig, running.config, "--image-credential-provider-config"}, {&o.binDir, running.binDir, "--image-credential-provider-bin-dir"}} {
		switch {
		case *p.given == "":
			*p.given = p.running
		case p.running == "":
			c.add(kubelet.Finding{Level: kubelet.Warning, Cause: fmt.Sprintf("the kubelet that runs here (process %d) has no %s: it runs no provider", running.pid, p.flag), Next: "start it with " + p.flag + "=" + *p.given})
		case filepath.Clean(*p.given) != filepath.Clean(p.running):
			c.add(kubelet.Finding{Level: kubelet.Warning, Cause: fmt.Sprintf("the kubelet that runs here (process %d) has %s=%s, which is not what is looked at", running.pid, p.flag, p.running), Next: "restart it with the new flag when this is ready"})
		}
	}
}

// kubeletName is an image as the kubelet compares it: without tag and digest, and with docker.io and
// library where they are left out.
func kubeletName(image credentialprovider.Image) string {
	host := image.Host
	if host == "index.docker.io" {
		host = "docker.io"
	}
	if host == "docker.io" && !strings.Contains(image.Path, "/") {
		return host + "/library/" + image.Path
	}
	return host + "/" + image.Path
}

// add notes findings, each once.
func (c *check) add(findings ...kubelet.Finding) {
	for _, f := range findings {
		if !slices.Contains(c.findings, f) {
			c.findings = append(c.findings, f)
		}
	}
}

// say adds a line to what is printed after the findings.
func (c *check) say(format string, args ...any) { fmt.Fprintf(&c.seen, format+"\n", args...) }

// run checks, and prints first what is wrong and then what was seen.
func (c *check) run(ctx context.Context) int {
	entries, findings := kubelet.Load(c.options.kubeletConfig)
	c.say("%s: %s, programs in %s", c.options.kubeletConfig, counted(len(entries), "provider"), c.options.binDir)
	if c.image != "" && len(entries) > 0 {
		c.dryRun(ctx, entries) // what is wrong with the image comes first: it was asked for
	}
	c.add(findings...)
	c.add(kubelet.Validate(entries, c.options.binDir)...)
	c.add(slices.DeleteFunc(c.ours(entries), c.hasFailed)...)
	c.trust(entries)
	c.version(ctx, entries)
	c.access(ctx, entries)
	if !c.print() {
		return exitFailed
	}
	return exitOK
}

// hasFailed reports whether a mistake is what made its provider fail, which is told already.
func (c *check) hasFailed(f kubelet.Finding) bool {
	refusal, ok := strings.CutPrefix(f.Cause, refused)
	return ok && strings.Contains(c.failures[f.Entry], refusal)
}

// print prints the findings, each once, the worst first, and after them what was seen. It returns false if
// something is wrong, or could not be printed.
func (c *check) print() bool {
	var lines strings.Builder
	count := map[kubelet.Level]int{}
	told := map[kubelet.Finding]bool{}
	for _, level := range []kubelet.Level{kubelet.Problem, kubelet.Warning, kubelet.Unchecked} {
		for _, f := range c.findings {
			if f.Level == level && !told[f] {
				told[f] = true
				count[level]++
				fmt.Fprintf(&lines, "%s\n", f)
			}
		}
	}
	text := lines.String()
	if count[kubelet.Problem] == 0 {
		text = "no problem was found\n" + text
	}
	summary := fmt.Sprintf("%s, %s, %d not checked\n", counted(count[kubelet.Problem], "problem"), counted(count[kubelet.Warning], "warning"), count[kubelet.Unchecked])
	err := write(c.out, text+"\n"+c.seen.String()+"\n"+summary)
	return err == nil && count[kubelet.Problem] == 0
}

// tokensSince is the minor version whose kubelets have tokenAttributes turned on and read directories.
const tokensSince = 34

// version finds what the kubelet that runs here is too old for.
func (c *check) version(ctx context.Context, entries []kubelet.Entry) {
	if c.kubelet.pid == 0 {
		return
	}
	minor := c.kubelet.minorVersion(ctx)
	if minor == 0 || minor >= tokensSince {
		return
	}
	if info, err := os.Stat(c.options.kubeletConfig); err == nil && info.IsDir() {
		c.add(kubelet.Finding{Level: kubelet.Problem, File: c.options.kubeletConfig, Cause: fmt.Sprintf("the kubelet that runs here is v1.%d and reads one file, no directory: it does not start", minor), Next: fmt.Sprintf("name a file, or update it to v1.%d", tokensSince)})
	}
	for _, e := range entries {
		if e.TokenAttributes != nil {
			c.add(kubelet.Finding{Level: kubelet.Problem, File: e.File, Entry: e.Name, Field: "tokenAttributes", Cause: fmt.Sprintf("the kubelet that runs here is v1.%d, which does not take them by default: it does not start", minor), Next: fmt.Sprintf("update it to v1.%d, or with v1.33 turn the feature gate KubeletServiceAccountTokenForCredentialProviders on", tokensSince)})
		}
	}
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// access finds out whether the kubelet may have tokens for the audiences of the entries.
func (c *check) access(ctx context.Context, entries []kubelet.Entry) {
	asked := map[string]bool{}
	for _, e := range entries {
		if e.TokenAttributes == nil || e.TokenAttributes.Audience == "" || asked[e.TokenAttributes.Audience] {
			continue
		}
		audience := e.TokenAttributes.Audience
		asked[audience] = true
		f := kubelet.Finding{File: e.File, Entry: e.Name, Field: "tokenAttributes.serviceAccountTokenAudience", Level: kubelet.Unchecked}
		grant := fmt.Sprintf("%s config --rbac prints the ClusterRole and its binding", name)
		if c.options.kubeconfig == "" {
			f.Cause = fmt.Sprintf("whether the nodes may have tokens for %s was not asked", audience)
			f.Next = "give --kubeconfig, or ask: " + reviewCommand(audience)
			c.add(f)
			continue
		}
		namespace, account := credentialprovider.TokenSubject(c.token)
		allowed, err := kubelet.MayRequestTokens(ctx, c.options.kubeconfig, audience, namespace, account)
		switch {
		case err != nil:
			f.Cause = fmt.Sprintf("whether the nodes may have tokens for %s could not be asked: %s", audience, cloudauth.Excerpt(err.Error(), 300))
			f.Next = "correct --kubeconfig, or ask: " + reviewCommand(audience)
			c.add(f)
		case !allowed:
			f.Level = kubelet.Problem
			f.Cause = fmt.Sprintf("the kubelet may not have tokens for %s (RBAC: verb %s): it does not run the provider", audience, kubelet.TokenVerb)
			f.Next = grant
			c.add(f)
		default:
			c.say("the kubelet may have tokens for %s", audience)
		}
	}
}

// reviewCommand asks the API server, as an administrator, whether nodes may have tokens.
func reviewCommand(audience string) string {
	review, err := json.Marshal(map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": map[string]any{"user": "system:node:any", "groups": []string{kubelet.NodesGroup}, "resourceAttributes": map[string]string{"verb": kubelet.TokenVerb, "resource": audience}},
	})
	if err != nil {
		return err.Error()
	}
	return "echo '" + string(review) + "' | kubectl create -o jsonpath='{.status.allowed}' -f -"
}
