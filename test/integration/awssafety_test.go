package integration

import (
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// awsLie is what AWS answers instead of the truth.
type awsLie struct {
	name  string
	fault awssim.Fault
	// least is how often it must have been told.
	least int
}

// byID reports whether instances were asked for by their IDs and not by a filter.
func byID(r awssim.Request) bool { return r.Form.Has("InstanceId.1") }

func awsLies() []awsLie {
	ec2 := func(f awssim.Fault) awssim.Fault { f.Service = "ec2"; return f }
	answer := func(body string) awssim.Fault {
		return awssim.Fault{Service: "ec2", Status: http.StatusOK, Body: &body}
	}
	instances := func(set string) awssim.Fault {
		f := answer(`<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId>` + set + `</DescribeInstancesResponse>`)
		f.Action = "DescribeInstances"
		return f
	}
	lists := func(f awssim.Fault) awssim.Fault { f.When = func(r awssim.Request) bool { return !byID(r) }; return f }
	proxy, nothing := "<html><head><title>404 Not Found</title></head><body>nginx</body></html>", ""
	return []awsLie{
		{name: "credentials are refused", fault: ec2(awssim.Fault{Status: 401, Code: "AuthFailure"}), least: 4},
		{name: "the policy does not allow it", fault: ec2(awssim.Fault{Status: 403, Code: "UnauthorizedOperation"}), least: 4},
		{name: "404 of a proxy", fault: ec2(awssim.Fault{Status: 404, Body: &proxy}), least: 4},
		{name: "404 without a body", fault: ec2(awssim.Fault{Status: 404, Body: &nothing}), least: 4},
		{name: "throttled", fault: ec2(awssim.Fault{Status: 503, Code: "RequestLimitExceeded"}), least: 4},
		{name: "500", fault: ec2(awssim.Fault{Status: 500, Code: "InternalError"}), least: 4},
		{name: "503", fault: ec2(awssim.Fault{Status: 503, Code: "Unavailable"}), least: 4},
		{name: "another answer", fault: answer(`<DescribeVpcsResponse><vpcSet/></DescribeVpcsResponse>`), least: 4},
		{name: "no XML", fault: answer("<html>login</html>"), least: 4},
		{name: "an answer without a body", fault: answer(""), least: 4},
		{name: "half an answer", fault: instances(`<reservationSet><item><instancesSet><item><instanceId>i-0`), least: 4},
		{name: "empty lists, direct reads true", fault: lists(instances("<reservationSet/>")), least: 4},
		{name: "empty lists and direct reads", fault: instances("<reservationSet/>"), least: 4},
		{name: "an account that knows no instance", fault: ec2(awssim.Fault{Action: "DescribeInstances", Status: 400, Code: "InvalidInstanceID.NotFound",
			Message: "The instance IDs do not exist"}), least: 4},
		{name: "cut connections", fault: ec2(awssim.Fault{Reset: true}), least: 4},
		{name: "no answer", fault: ec2(awssim.Fault{Hang: true}), least: 1},
	}
}

// Whatever AWS answers instead of the truth, the real framework deletes no Node and taints none as shut down, even one that is so old
// that EC2 must know its instance.
func TestComplaintUnknownErrorDeletesNodeOnAWS(t *testing.T) {
	t.Parallel()
	for _, lie := range awsLies() {
		t.Run(lie.name, func(t *testing.T) {
			c := newCluster(t)
			sim, region := c.simulateAWS()
			c.factory = awsFactory(sim)
			d := doubt{lost: map[string]bool{}, least: lie.least, reset: sim.ResetRequests}
			var last *ec2.Instance
			var instances []string
			for n := range bystanders + 2 {
				i := region.AddInstance(ec2.Instance{Tags: awsTag})
				id := "aws:///" + i.Zone + "/" + i.ID
				if byName(n) {
					id = ""
				}
				c.create(registered(i.PrivateDNSName, id, corev1.ConditionUnknown))
				last, d.nodes, instances = i, append(d.nodes, i.PrivateDNSName), append(instances, i.ID)
			}
			conf := "[Global]\nRegion = " + awsRegion + "\nKubernetesClusterID = c\nVPC = " + last.VPCID + "\nSubnetID = " + last.SubnetID + "\n"
			d.start = func(args ...string) {
				c.start(conf, fastClock{start: time.Now()}, args)
				eventually.Met(t, func() string { // one that is told lies before it has begun does not begin
					if !slices.ContainsFunc(sim.Requests(), func(r awssim.Request) bool { return r.Action == "DescribeInstances" }) {
						return "no instances were asked for"
					}
					return ""
				})
			}
			d.asked = func() int {
				return len(slices.DeleteFunc(sim.Requests(), func(r awssim.Request) bool { return r.Service != "ec2" }))
			}
			d.lie = func() (stop func()) { return sim.AddFault(lie.fault) }
			d.end = func() {
				region.Vanish(instances[bystanders])
				region.Stop(instances[bystanders+1])
			}
			c.wantDoubt(t, &d)
		})
	}
}

// environment is locked while a provider is made: it takes the environment's credentials.
var environment sync.Mutex

// awsFactory makes AWS' provider, on a simulator and without the grace for new instances.
func awsFactory(sim *awssim.Sim) cloud.Factory {
	keys := sim.AddUser(awssim.Principal{Account: awsAccount, Name: "ccm", Actions: []string{"ec2:*", "elasticloadbalancing:*"}})
	return func(ctx context.Context, conf string, o cloud.Options) (*cloud.Provider, []string, error) {
		environment.Lock()
		defer environment.Unlock()
		for name, value := range map[string]string{
			"AWS_ENDPOINT_URL": sim.URL(), "AWS_ACCESS_KEY_ID": keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY": keys.SecretAccessKey,
		} {
			old, is := os.LookupEnv(name)
			if err := os.Setenv(name, value); err != nil {
				return nil, nil, err
			}
			defer func() {
				if is {
					_ = os.Setenv(name, old)
				} else {
					_ = os.Unsetenv(name)
				}
			}()
		}
		p, warnings, err := aws.New(ctx, conf, o)
		if err == nil {
			p.Newborn = 0
		}
		return p, warnings, err
	}
}
