// Package apitest has the simulator of AWS (test/cloudsim/aws) stand for AWS in the provider's tests.
package apitest

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

const (
	// Region is where the cloud is.
	Region = "eu-central-1"
	// Account is whose it is.
	Account = "111122223333"
	// Scope is that of what is found and of what is not.
	Scope = "account " + Account + " in " + Region
	// Self is the instance that the metadata service says that it is on. It need not exist.
	Self = "i-0123456789abcdef0"
)

// Fault is an answer in place of the right one; see cloudsim.Fault. Each applies once.
type Fault = cloudsim.Fault

// Cloud is a simulated AWS, with what an account has in a region at hand.
type Cloud struct {
	*awssim.Sim
	// EC2 is the region. Nothing is in it but VPC, with a subnet in each zone, and what a new account finds.
	EC2     *ec2.Region
	VPC     *ec2.VPC
	Subnets []*ec2.Subnet

	t    testing.TB
	seen int
}

// Start starts a cloud, and points the environment at it, with the credentials of a user who may do all.
func Start(t *testing.T) *Cloud { return StartWith(t, awssim.Options{}) }

// StartWith is Start of a simulator with options.
func StartWith(t *testing.T, o awssim.Options) *Cloud {
	t.Helper()
	sim, err := awssim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	c := &Cloud{Sim: sim, EC2: sim.EC2(Account, Region), t: t}
	all := netip.MustParsePrefix("10.0.0.0/16")
	if o.Traffic {
		all = sim.Spare()
	}
	c.VPC = c.EC2.AddVPC(ec2.VPC{CIDR: all.String()})
	for n, zone := range c.EC2.Zones() {
		c.Subnets = append(c.Subnets, c.EC2.AddSubnet(ec2.Subnet{VPCID: c.VPC.ID, CIDR: quarter(all, n).String(), Zone: zone.Name}))
	}
	sim.SetInstance(Account, Region, Self)
	key := sim.AddUser(awssim.Principal{Account: Account, Name: "test", Actions: []string{"ec2:*", "elasticloadbalancing:*"}})
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_SHARED_CREDENTIALS_FILE": empty, "AWS_CONFIG_FILE": empty, "AWS_ENDPOINT_URL": sim.URL(), "AWS_EC2_METADATA_SERVICE_ENDPOINT": sim.URL(),
		"AWS_ACCESS_KEY_ID": key.AccessKeyID, "AWS_SECRET_ACCESS_KEY": key.SecretAccessKey,
	} {
		t.Setenv(name, value)
	}
	return c
}

// quarter is the n-th quarter of a range, which is larger than a /22.
func quarter(p netip.Prefix, n int) netip.Prefix {
	bits, octets := p.Bits()+2, p.Addr().As4()
	octets[2] += byte(n << (24 - bits))
	return netip.PrefixFrom(netip.AddrFrom4(octets), bits)
}

// Client makes a client of the cloud by a cloud.conf.
func (c *Cloud) Client(conf string, o cloud.Options) (*api.Client, *config.Config) {
	c.t.Helper()
	return clientOf(c.t, conf, o)
}

// ClientOf makes a client by a cloud.conf, of whatever cloud the environment leads to.
func ClientOf(t testing.TB, conf string, o cloud.Options) *api.Client {
	t.Helper()
	c, _ := clientOf(t, conf, o)
	return c
}

func clientOf(t testing.TB, conf string, o cloud.Options) (*api.Client, *config.Config) {
	t.Helper()
	cfg, warnings, err := config.Parse("cloud.conf", []byte(conf))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%s: %q, %v", conf, warnings, err)
	}
	if o.UserAgent == "" {
		o.UserAgent = "test/v1"
	}
	client, err := api.New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return client, cfg
}

// DualStack gives the subnets a range of IPv6 each, and by IPv6 a way to the internet.
func (c *Cloud) DualStack() {
	for n, s := range c.Subnets {
		c.EC2.SetSubnetIPv6(s.ID, fmt.Sprintf("2001:db8:0:%d::/64", n+1))
	}
	c.EC2.AddRoute(c.EC2.MainRouteTable(c.VPC.ID).ID, ec2.Route{Destination: "::/0", GatewayID: "igw-0123456789abcdef0"})
}

// AddInstance adds an instance, by default in the first subnet of VPC.
func (c *Cloud) AddInstance(i ec2.Instance) *ec2.Instance {
	if i.VPCID == "" && i.SubnetID == "" {
		i.VPCID = c.VPC.ID
	}
	return c.EC2.AddInstance(i)
}

// Fail has the next calls of an action fail, one after the other.
func (c *Cloud) Fail(action string, faults ...Fault) {
	for _, f := range slices.Backward(faults) { // the last one that was added applies first
		f.Action, f.Times = action, 1
		c.AddFault(f)
	}
}

// Body is a Fault with which a call is answered as if it had succeeded.
func Body(text string) Fault { return Fault{Status: http.StatusOK, Body: &text} }

// Requests returns what was asked of EC2 and Elastic Load Balancing since it was asked last.
func (c *Cloud) Requests() []cloudsim.Request {
	all := c.Sim.Requests()
	next := all[c.seen:]
	c.seen = len(all)
	return slices.DeleteFunc(slices.Clone(next), func(r cloudsim.Request) bool { return r.Service == "imds" || r.Service == "sts" })
}

// Actions are the names of Requests.
func (c *Cloud) Actions() []string {
	var out []string
	for _, r := range c.Requests() {
		out = append(out, r.Action)
	}
	return out
}
