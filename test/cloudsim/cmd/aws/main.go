// Command aws runs the simulated AWS of test/cloudsim/aws for use by hand, with the aws command or anything else that speaks
// to AWS.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "aws simulator:", err)
		os.Exit(1)
	}
}

// account is whose all is that the simulator begins with.
const account = "111122223333"

// settings are the flags.
type settings struct {
	region, cluster string
	instances       int
	env             string
	actions         []string
}

const usage = `Runs a simulated AWS (EC2, Elastic Load Balancing, ECR, STS, the instance metadata service) on
a loopback address until Ctrl-C, for the aws command and for programs.

Usage: aws [flags]

Flags:
`

func parse(args []string, out io.Writer) (*settings, error) {
	var s settings
	fs := pflag.NewFlagSet("aws", pflag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() { fmt.Fprintf(out, "%s%s", usage, fs.FlagUsages()) }
	fs.StringVar(&s.region, "region", "eu-central-1", "region of what there is at first")
	fs.StringVar(&s.cluster, "cluster", "sim", "cluster ID in the instances' and subnets' tags; none when empty")
	fs.IntVar(&s.instances, "instances", 3, "number of instances to begin with, spread over three zones; the first one is this machine")
	fs.StringVar(&s.env, "env", "", "file to write the environment to that leads programs here (default: aws.env in a temporary folder)")
	fs.StringSliceVar(&s.actions, "actions", []string{"*"}, "what the user's IAM policy allows, such as ec2:Describe*")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see --help", fs.Arg(0))
	}
	if s.instances < 0 || s.instances > maxInstances {
		return nil, fmt.Errorf("--instances %d: give 0 to %d", s.instances, maxInstances)
	}
	if !awssim.HasRegion(s.region) {
		return nil, fmt.Errorf("--region %q: AWS has none of that name, and no endpoints there; give one such as eu-central-1", s.region)
	}
	return &s, nil
}

// maxInstances fit into the default VPC's three subnets.
const maxInstances = 10_000

// run does it all until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	s, err := parse(args, out)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	sim, err := awssim.Start(awssim.Options{})
	if err != nil {
		return err
	}
	defer sim.Close()
	seed(sim, s)
	keys := sim.AddUser(awssim.Principal{Account: account, Name: "you", Actions: s.actions})
	if s.env == "" {
		dir, err := os.MkdirTemp("", "aws-sim-")
		if err != nil {
			return fmt.Errorf("make a folder for aws.env: %w; give --env", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		s.env = filepath.Join(dir, "aws.env")
	}
	if s.env, err = filepath.Abs(s.env); err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	var b strings.Builder
	for _, v := range environment(sim, keys, s.region) {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "export %s='%s'\n", name, value)
	}
	if err := os.WriteFile(s.env, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("write --env: %w", err)
	}
	if _, err := io.WriteString(out, banner(sim, s)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// seed makes the instances, in the subnets of the default VPC.
func seed(sim *awssim.Sim, s *settings) {
	region := sim.EC2(account, s.region)
	tags := map[string]string{}
	if s.cluster != "" {
		tags["kubernetes.io/cluster/"+s.cluster] = "owned"
	}
	zones := region.Zones()
	for n := range s.instances {
		tags["Name"] = fmt.Sprintf("node-%d", n)
		i := region.AddInstance(ec2.Instance{Zone: zones[n%len(zones)].Name, Tags: tags})
		if n == 0 {
			sim.SetInstance(account, s.region, i.ID)
		}
	}
}

// environment leads AWS' SDKs here without a proxy, which other programs of a shell would take, too.
func environment(sim *awssim.Sim, keys awssim.Keys, region string) []string {
	return []string{
		"AWS_ENDPOINT_URL=" + sim.URL(), "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + sim.URL(), "AWS_REGION=" + region,
		"AWS_ACCESS_KEY_ID=" + keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + keys.SecretAccessKey,
	}
}

func banner(sim *awssim.Sim, s *settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Simulated AWS: %s, account %s, %d instances in %s\n\n", sim.URL(), account, s.instances, s.region)
	fmt.Fprintf(&b, "  . %s   # endpoint, region and credentials\n", s.env)
	b.WriteString("  aws ec2 describe-instances\n  aws elbv2 describe-load-balancers\n  aws sts get-caller-identity\n")
	b.WriteString("  bin/cloud-controller-manager --cloud-provider=aws --kubeconfig=…\n\nCtrl-C ends it.\n")
	return b.String()
}
