// Command openstack runs the simulated OpenStack of test/cloudsim/openstack for use by hand,
// with the openstack command or anything else that speaks to OpenStack.
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

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "openstack simulator:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	sim        ossim.Options
	servers    int
	cloudsYAML string
	cloudConf  string
}

const usage = `Runs a simulated OpenStack (Keystone, Nova, Neutron, Octavia, Cinder, Barbican) on
loopback addresses until Ctrl-C, for the openstack command and for programs.

Usage: openstack [flags]

Flags:
`

func parse(args []string, out io.Writer) (*settings, error) {
	var s settings
	fs := pflag.NewFlagSet("openstack", pflag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() { fmt.Fprintf(out, "%s%s", usage, fs.FlagUsages()) }
	fs.StringVar(&s.sim.Listen, "listen", "127.0.0.1:0", "loopback address and port of the API; port 0 picks a free one")
	fs.IntVar(&s.sim.Net, "net", 0, "second octet of the 127.N.0.0/16 that servers, VIPs and floating IPs get addresses of (1-254); 0 picks a free one")
	fs.IntVar(&s.servers, "servers", 3, "number of servers to begin with, spread over az1, az2 and az3")
	fs.BoolVar(&s.sim.TLS, "tls", false, "serve HTTPS with a certificate of an own CA")
	fs.StringVar(&s.cloudsYAML, "clouds-yaml", "", "file to write clouds.yaml to, with the clouds sim and sim-admin (default: clouds.yaml in a temporary folder)")
	fs.StringVar(&s.cloudConf, "cloud-conf", "", "file to write a cloud.conf to; not written when empty")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see --help", fs.Arg(0))
	}
	if s.servers < 0 {
		return nil, fmt.Errorf("--servers %d is negative; give 0 or more", s.servers)
	}
	return &s, nil
}

// run does it all until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	s, err := parse(args, out)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	sim, err := ossim.Start(s.sim)
	if err != nil {
		return err
	}
	defer sim.Close()
	made := sim.SeedServers(ossim.Seed{Count: s.servers, NamePrefix: "node-", Zones: []string{"az1", "az2", "az3"}})
	if len(made) < s.servers {
		return fmt.Errorf("only %d of --servers %d fit into the network; ask for fewer", len(made), s.servers)
	}
	if s.cloudsYAML == "" {
		dir, err := os.MkdirTemp("", "openstack-sim-")
		if err != nil {
			return fmt.Errorf("make a folder for clouds.yaml: %w; give --clouds-yaml", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		s.cloudsYAML = filepath.Join(dir, "clouds.yaml")
	}
	if s.cloudsYAML, err = filepath.Abs(s.cloudsYAML); err != nil {
		return fmt.Errorf("--clouds-yaml: %w", err)
	}
	if err := os.WriteFile(s.cloudsYAML, []byte(sim.CloudsYAML()), 0o600); err != nil {
		return fmt.Errorf("write --clouds-yaml: %w", err)
	}
	if s.cloudConf != "" {
		if err := os.WriteFile(s.cloudConf, []byte(sim.CloudConf()), 0o600); err != nil {
			return fmt.Errorf("write --cloud-conf: %w", err)
		}
	}
	if _, err := io.WriteString(out, banner(sim, s)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func banner(sim *ossim.Sim, s *settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Simulated OpenStack: %s, %d servers, addresses of 127.%d.0.0/16\n\n", sim.AuthURL(), s.servers, sim.Net())
	fmt.Fprintf(&b, "  export OS_CLIENT_CONFIG_FILE=%s OS_CLOUD=sim\n", s.cloudsYAML)
	b.WriteString("  openstack server list\n  openstack network list\n  openstack loadbalancer list\n  openstack volume list\n  openstack secret list\n\n")
	b.WriteString("OS_CLOUD=sim-admin is an administrator.\n")
	if s.cloudConf != "" {
		fmt.Fprintf(&b, "cloud.conf: %s\n", s.cloudConf)
	}
	b.WriteString("Ctrl-C ends it.\n")
	return b.String()
}
