package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// abilities is all that the provider does: each is tried with the rights of the policy that ships. What an ability can ask the
// cloud for belongs here, or the policy seems to allow too much.
var abilities = map[string]func(context.Context, *testing.T, *cloud.Provider, *apitest.Cloud){
	"instances": func(ctx context.Context, t *testing.T, p *cloud.Provider, c *apitest.Cloud) {
		i := c.EC2.AddInstance(ec2.Instance{SubnetID: c.Subnets[0].ID, Type: "p5.48xlarge", NetworkNodes: []string{"nn-1", "nn-2", "nn-3"},
			Tags: map[string]string{"kubernetes.io/cluster/blue": "owned"}})
		if err := p.Ready(ctx); err != nil {
			t.Error(err)
		}
		for _, r := range p.Instances.Find(ctx, []cloud.InstanceRef{{ProviderID: "aws:///x/" + i.ID}, {NodeName: i.PrivateDNSName}}) {
			if r.Err != nil || r.Value.Labels["topology.k8s.aws/zone-id"] == "" || r.Value.Labels["topology.k8s.aws/network-node-layer-3"] == "" {
				t.Errorf("%+v, %v", r.Value, r.Err)
			}
		}
	},
	"routes": func(ctx context.Context, t *testing.T, p *cloud.Provider, c *apitest.Cloud) {
		if err := c.EC2.CreateTags([]string{c.EC2.MainRouteTable(c.VPC.ID).ID}, map[string]string{"kubernetes.io/cluster/blue": "owned"}); err != nil {
			t.Fatal(err)
		}
		cluster := cloud.Cluster{ID: "blue", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
		for n, interfaces := range [][]*ec2.NetworkInterface{nil, {{}, {DeviceIndex: 1}}} { // the second has two: another call lets it forward
			i := c.EC2.AddInstance(ec2.Instance{SubnetID: c.Subnets[0].ID, Interfaces: interfaces, Tags: map[string]string{"kubernetes.io/cluster/blue": "owned"}})
			route := cloud.Route{Destination: netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", n)), Target: "aws:///x/" + i.ID}
			errs := p.Routes.Apply(ctx, cluster, []cloud.Route{route}, nil)
			there, err := p.Routes.List(ctx, cluster)
			if errs = append(errs, err); errors.Join(errs...) != nil || len(there) != 1 {
				t.Fatalf("%+v, %v", there, errs)
			}
			if err := errors.Join(p.Routes.Apply(ctx, cluster, nil, there)...); err != nil {
				t.Error(err)
			}
		}
	},
	"load balancers": tryLoadBalancers,
	"volumes": func(ctx context.Context, t *testing.T, p *cloud.Provider, c *apitest.Cloud) {
		v := c.EC2.AddVolume(ec2.Volume{})
		for _, r := range p.Volumes.Find(ctx, []cloud.VolumeRef{{ID: v.ID}}) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
	},
}

// spared are actions that the simulator lets nobody need, as it is EC2 at its best.
var spared = []string{
	"ec2:CreateTags",              // with ec2:CreateSecurityGroup, as the group is made with tags
	"iam:CreateServiceLinkedRole", // for the first load balancer of an account
}

// limit has providers log in as one who may do the actions.
func limit(t *testing.T, c *apitest.Cloud, actions []string) {
	t.Helper()
	keys := c.AddUser(awssim.Principal{Account: apitest.Account, Name: "ccm", Actions: actions})
	t.Setenv("AWS_ACCESS_KEY_ID", keys.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", keys.SecretAccessKey)
}

// asked are the actions that were asked for. All must have been allowed.
func asked(t *testing.T, c *apitest.Cloud) (out []string) {
	t.Helper()
	services := map[string]string{"ec2": "ec2", "elb": "elasticloadbalancing", "elbv2": "elasticloadbalancing", "sts": "sts"}
	for _, r := range c.Sim.Requests() {
		if service, ok := services[r.Service]; ok {
			out = append(out, service+":"+r.Action)
			if r.Status == http.StatusForbidden {
				t.Errorf("the policy lacks %s:%s", service, r.Action)
			}
		}
	}
	return out
}

// TestTaggingPolicyIsTheSmallest: with the policy beside it, the tagging controller's calls are allowed, and no other changes.
func TestTaggingPolicyIsTheSmallest(t *testing.T) {
	allowed, err := manifests.IAMActions()
	if err != nil {
		t.Fatal(err)
	}
	tagging, err := manifests.IAMTaggingActions()
	if err != nil {
		t.Fatal(err)
	}
	c := apitest.Start(t)
	limit(t, c, slices.Concat(allowed, tagging))
	p := provider(t, "[Global]\nRegion = "+apitest.Region+"\nKubernetesClusterID = blue\n")
	i := c.EC2.AddInstance(ec2.Instance{SubnetID: c.Subnets[0].ID, Tags: map[string]string{"kubernetes.io/cluster/blue": "owned"}})
	ids, tags := []string{"aws:///x/" + i.ID, "aws:///x/i-0123456789abcdef1"}, map[string]string{"team": "a"} // of one that is gone, too
	for _, errs := range [][]error{p.InstanceTags.Tag(t.Context(), ids, tags), p.InstanceTags.Untag(t.Context(), ids, tags)} {
		if errs[0] != nil || !cloud.IsNotFound(errs[1]) {
			t.Errorf("%v", errs)
		}
	}
	changes := slices.DeleteFunc(asked(t, c), func(a string) bool { return strings.Contains(a, ":Describe") })
	slices.Sort(changes)
	slices.Sort(tagging)
	if diff := cmp.Diff(slices.Compact(changes), tagging); diff != "" {
		t.Errorf("manifests/overlays/aws/iam-policy-tagging.json (-asked +allowed):\n%s", diff)
	}
}

// asPod has providers be the role of a ServiceAccount's pods, which do not reach the metadata service. The role may do the actions.
func asPod(t *testing.T, c *apitest.Cloud, account string, actions []string) {
	t.Helper()
	role := c.AddRole(awssim.Principal{Account: apitest.Account, Name: account, Actions: actions,
		Trust: awssim.Trust{Subjects: []string{"system:serviceaccount:" + manifests.Namespace + ":" + account}}})
	token, err := c.ServiceAccountToken(awssim.TokenClaims{Namespace: manifests.Namespace, Name: account, Audience: []string{awssim.Audience}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_ROLE_ARN": role,
		"AWS_WEB_IDENTITY_TOKEN_FILE": file, "AWS_REGION": apitest.Region, "AWS_ENDPOINT_URL_STS": c.URL()} {
		t.Setenv(name, value)
	}
	c.AddFault(apitest.Fault{Service: "imds", Reset: true})
}

// TestWebhookPolicyIsTheSmallest: a process that serves webhooks alone, as the role of its pods and without cloud.conf, asks for what
// its policy allows, and for nothing else.
func TestWebhookPolicyIsTheSmallest(t *testing.T) {
	allowed, err := manifests.IAMWebhookActions()
	if err != nil {
		t.Fatal(err)
	}
	c := apitest.Start(t)
	asPod(t, c, manifests.WebhookServiceAccount, allowed)
	p := provider(t, "")
	if err := p.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	abilities["volumes"](t.Context(), t, p, c)
	if _, err := p.Volumes.Get(t.Context(), cloud.VolumeRef{ID: c.EC2.AddVolume(ec2.Volume{}).ID}); err != nil {
		t.Error(err)
	}
	asked := slices.DeleteFunc(asked(t, c), func(a string) bool { return strings.HasPrefix(a, "sts:") }) // whose role it is, its trust policy says
	slices.Sort(asked)
	if diff := cmp.Diff(slices.Compact(asked), slices.Sorted(slices.Values(allowed))); diff != "" {
		t.Errorf("manifests/overlays/aws-webhooks/iam-policy.json (-asked +allowed):\n%s", diff)
	}
}

// TestPolicyIsTheSmallest: the IAM policy that ships allows what the provider asks for, and nothing else.
func TestPolicyIsTheSmallest(t *testing.T) {
	allowed, err := manifests.IAMActions()
	if err != nil {
		t.Fatal(err)
	}
	c := apitest.Start(t)
	limit(t, c, allowed)
	p := provider(t, "[Global]\nRegion = "+apitest.Region+"\nVPC = "+c.VPC.ID+"\nKubernetesClusterID = blue\nNLBSecurityGroupMode = Managed\n")
	for name, try := range abilities {
		t.Run(name, func(t *testing.T) { try(t.Context(), t, p, c) })
	}
	for ability, missing := range map[string]bool{"load balancers": p.LoadBalancers != nil && abilities["load balancers"] == nil, "routes": p.Routes != nil && abilities["routes"] == nil} {
		if missing {
			t.Errorf("the provider has %s, and nothing here tries them", ability)
		}
	}
	asked := asked(t, c)
	for _, action := range spared {
		if slices.Contains(asked, action) {
			t.Errorf("%s is asked for: it is not to be spared", action)
		}
	}
	asked = slices.Concat(asked, spared)
	slices.Sort(asked)
	slices.Sort(allowed)
	if diff := cmp.Diff(slices.Compact(asked), slices.Compact(allowed)); diff != "" {
		t.Errorf("manifests/overlays/aws/iam-policy.json (-asked +allowed):\n%s", diff)
	}
}
