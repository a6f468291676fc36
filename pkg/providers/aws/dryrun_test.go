package aws

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// process are the load balancers of a new process, with its log.
func process(t *testing.T, conf string, dry bool) (*loadBalancers, *bytes.Buffer) {
	t.Helper()
	cfg, _, err := config.Parse("cloud.conf", []byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log)))
	c, err := api.New(klog.NewContext(t.Context(), logger), cfg, cloud.Options{DryRun: dry, UserAgent: "test/v1"})
	if err != nil {
		t.Fatal(err)
	}
	return newLoadBalancers(c, &cfg.Global, func() string { return "blue" }, timing{pace: await.DefaultPace()}), log
}

// In a dry run the load balancer never gets other groups, for which nobody is to wait.
func TestDryRunOfOtherGroupsEnds(t *testing.T) {
	c := apitest.Start(t)
	spec := balanced(t, c, "")
	conf := "[Global]\nRegion = " + apitest.Region + "\nKubernetesClusterID = blue\nVPC = " + c.VPC.ID + "\n"
	for _, name := range []string{"", "mine", "yours"} {
		if name != "" {
			spec.Settings[annotations.SecurityGroups] = c.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: c.VPC.ID, Name: name, Description: "d"}).ID
		}
		for _, dry := range []bool{true, false} {
			one, _ := process(t, conf, dry)
			again(t, func() error { _, err := one.Ensure(t.Context(), spec); return err })
		}
	}
}

// A dry run says all that would be done, in the order in which it would be, and does nothing of it.
func TestDryRunSaysAllThatWouldBeDone(t *testing.T) {
	would := regexp.MustCompile(`the cloud would be changed" operation="(\w+)"`)
	for name, tt := range map[string]struct{ kind, conf string }{
		"classic": {"", ""}, "network": {annotations.NLB, ""}, "network with groups": {annotations.NLB, "NLBSecurityGroupMode = Managed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c := apitest.Start(t)
			spec := balanced(t, c, tt.kind)
			spec.Settings[annotations.CrossZone] = "true"
			conf := "[Global]\nRegion = " + apitest.Region + "\nKubernetesClusterID = blue\nVPC = " + c.VPC.ID + "\n" + tt.conf
			ensure := func(l *loadBalancers) error {
				status, err := l.Ensure(t.Context(), spec)
				if err == nil && !strings.Contains(status.Ingress[0].Hostname, "dry-run") {
					spec.CurrentIngress = status.Ingress
				}
				return err
			}
			for _, step := range []struct {
				name string
				do   func(*loadBalancers) error
			}{
				{"create", ensure},
				{"change", func(l *loadBalancers) error {
					spec.Ports[0].NodePort, spec.Settings[annotations.CrossZone] = 30081, "false"
					return ensure(l)
				}},
				{"delete", func(l *loadBalancers) error { return l.Delete(t.Context(), spec) }},
			} {
				dry, log := process(t, conf, true)
				for range 2 { // the second time says nothing new
					again(t, func() error { return step.do(dry) })
				}
				if got := changes(c); len(got) > 0 {
					t.Fatalf("%s: a dry run has sent %v", step.name, got)
				}
				var said []string
				for _, m := range would.FindAllStringSubmatch(log.String(), -1) {
					said = append(said, m[1])
				}
				live, _ := process(t, conf, false)
				again(t, func() error { return step.do(live) })
				if done := changes(c); !slices.Equal(said, done) || len(done) == 0 {
					t.Errorf("%s: it says\n%v, and does\n%v", step.name, said, done)
				}
			}
		})
	}
}
