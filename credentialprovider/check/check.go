package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Options are what is looked at. What is not given is taken from the kubelet that runs here.
type Options struct {
	// KubeletConfig and BinDir are what the kubelet has, or is to have.
	KubeletConfig, BinDir string
	// Image is for which the providers are tried, "" for none, TokenFile has the token of its pod's service
	// account, and Annotations are that account's.
	Image       string
	TokenFile   string
	Annotations map[string]string
	// Kubeconfig is that with which the API server is asked, "" for not at all.
	Kubeconfig string
	// Parse reads arguments as the program does when the kubelet runs it.
	Parse func(args []string) (config.Source, error)
}

// Check is a look at a node.
type Check struct {
	options Options
	image   string // as the kubelet writes it
	token   cloudauth.Secret
	environ []string // the kubelet's
	kubelet runningKubelet

	findings []kubelet.Finding
	failures map[string]string // what providers said that failed, by their names
	seen     strings.Builder   // what is printed after the findings
}

// New reads what the options name; what they lack it takes from the kubelet that runs among the processes in
// proc. Providers are tried with environ, or else with the environment of that kubelet.
func New(o Options, proc string, environ []string) (*Check, error) {
	c := &Check{options: o, environ: environ, failures: map[string]string{}}
	if err := c.prepare(proc); err != nil {
		return nil, err
	}
	return c, nil
}

// prepare completes the flags with those of the kubelet that runs here, and reads what they name.
func (c *Check) prepare(proc string) error {
	o := &c.options
	if o.KubeletConfig == "" || o.BinDir == "" {
		// Only then: what is given in full may be another machine's, and a provider that is tried with
		// the environment of a kubelet that has nothing to do with it speaks to whatever that names.
		running, found := findKubelet(proc)
		if !found {
			return errors.New("no kubelet runs here; give --kubelet-config and --bin-dir, as its flags --image-credential-provider-config and --image-credential-provider-bin-dir are")
		}
		c.takeOver(running)
		if o.KubeletConfig == "" || o.BinDir == "" {
			return fmt.Errorf("the kubelet that runs here (process %d) has no --image-credential-provider-config or no --image-credential-provider-bin-dir: it runs no provider; start it with both, or give --kubelet-config and --bin-dir", running.pid)
		}
	}
	if o.Image != "" {
		image, err := credentialprovider.ParseImage(o.Image)
		if err != nil {
			return fmt.Errorf("--image: %w", err)
		}
		c.image = kubeletName(image)
	}
	if o.Image == "" && (o.TokenFile != "" || len(o.Annotations) > 0) {
		return errors.New("--service-account-token-file and --annotation are for --image")
	}
	if o.TokenFile != "" {
		data, err := os.ReadFile(o.TokenFile)
		if err != nil {
			return fmt.Errorf("--service-account-token-file: %w", err)
		}
		c.token = cloudauth.NewSecret(strings.TrimSpace(string(data)))
		if c.token.IsEmpty() {
			return fmt.Errorf("--service-account-token-file: %s is empty", o.TokenFile)
		}
	}
	return nil
}

// takeOver completes the flags with what the running kubelet has, and tells where they differ from it.
func (c *Check) takeOver(running runningKubelet) {
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
	}{{&o.KubeletConfig, running.config, "--image-credential-provider-config"}, {&o.BinDir, running.binDir, "--image-credential-provider-bin-dir"}} {
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
func (c *Check) add(findings ...kubelet.Finding) {
	for _, f := range findings {
		if !slices.Contains(c.findings, f) {
			c.findings = append(c.findings, f)
		}
	}
}

// say adds a line to what is printed after the findings.
func (c *Check) say(format string, args ...any) { fmt.Fprintf(&c.seen, format+"\n", args...) }

// Run checks, and prints first what is wrong and then what was seen. It returns false if something is wrong, or
// could not be printed.
func (c *Check) Run(ctx context.Context, out io.Writer) bool {
	entries, findings := kubelet.Load(c.options.KubeletConfig)
	c.say("%s: %s, programs in %s", c.options.KubeletConfig, counted(len(entries), "provider"), c.options.BinDir)
	if c.image != "" && len(entries) > 0 {
		c.dryRun(ctx, entries) // what is wrong with the image comes first: it was asked for
	}
	c.add(findings...)
	c.add(kubelet.Validate(entries, c.options.BinDir)...)
	c.add(slices.DeleteFunc(c.ours(entries), c.hasFailed)...)
	c.trust(entries)
	c.version(ctx, entries)
	c.access(ctx, entries)
	return c.print(out)
}

// hasFailed reports whether a mistake is what made its provider fail, which is told already.
func (c *Check) hasFailed(f kubelet.Finding) bool {
	refusal, ok := strings.CutPrefix(f.Cause, refused)
	return ok && strings.Contains(c.failures[f.Entry], refusal)
}

// print prints the findings, each once, the worst first, and after them what was seen. It returns false if
// something is wrong, or could not be printed.
func (c *Check) print(out io.Writer) bool {
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
	_, err := io.WriteString(out, text+"\n"+c.seen.String()+"\n"+summary)
	return err == nil && count[kubelet.Problem] == 0
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
