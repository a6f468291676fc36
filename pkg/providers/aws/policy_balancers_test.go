package aws

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// tryLoadBalancers leads a Service of each kind through all that can become of it.
func tryLoadBalancers(_ context.Context, t *testing.T, p *cloud.Provider, c *apitest.Cloud) {
	tag := map[string]string{"kubernetes.io/cluster/blue": "owned"}
	spec := balanced(t, c, annotations.NLB)
	ensure(t, p, spec)
	v2 := c.ELBv2(apitest.Account, apitest.Region)
	all, _ := v2.LoadBalancers(nil, nil)
	if err := v2.SetTags(all[0].ARN, nil, []string{"kubernetes.io/cluster/blue", "kubernetes.io/service-name"}); err != nil {
		t.Fatal(err)
	}
	spec.Settings[annotations.TargetGroupAttributes] = "proxy_protocol_v2.enabled=true"
	other := provider(t, "[Global]\nRegion = "+apitest.Region+"\nVPC = "+c.VPC.ID+"\nKubernetesClusterID = blue\nNLBSecurityGroupMode = Managed\n")
	ensure(t, other, spec) // a new process, which does not know what there is
	spec.Settings[annotations.CrossZone], spec.Settings[annotations.CheckHealthy] = "true", "4"
	spec.Settings[annotations.SecurityGroups] = c.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: c.VPC.ID, Name: "own", Description: "d"}).ID
	spec.Members = nil
	ensure(t, other, spec)
	spec.Ports[0].NodePort++
	ensure(t, other, spec)
	spec.Ports[0].Port++
	ensure(t, other, spec)
	c.DualStack()
	spec.IPFamilies = append(spec.IPFamilies, corev1.IPv6Protocol)
	ensure(t, provider(t, "[Global]\nRegion = "+apitest.Region+"\nVPC = "+c.VPC.ID+"\nKubernetesClusterID = blue\n"), spec) // which has not seen the subnets before
	again(t, func() error { return other.LoadBalancers.Delete(t.Context(), spec) })

	spec = balancedClassic(t, c, tag)
	ensure(t, p, spec)
	spec.Ports[0].Port++
	spec.Settings[annotations.Certificate], spec.Settings[annotations.SSLPolicy] = "arn:aws:acm:eu-central-1:111122223333:certificate/a", "ELBSecurityPolicy-TLS-1-2-2017-01"
	spec.Settings[annotations.ProxyProtocol], spec.Settings[annotations.CrossZone] = "*", "true"
	spec.Settings[annotations.Subnets], spec.Settings[annotations.Tags] = c.Subnets[1].ID, "a=b"
	spec.Settings[annotations.ExtraSecurityGroups] = c.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: c.VPC.ID, Name: "more", Description: "d"}).ID
	spec.Members = nil
	ensure(t, p, spec)
	spec.Settings[annotations.Subnets] = c.Subnets[0].ID
	spec.Settings[annotations.SecurityGroups] = c.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: c.VPC.ID, Name: "others too", Description: "d"}).ID
	spec.Members = spec.Candidates
	ensure(t, p, spec)
	again(t, func() error { return p.LoadBalancers.Delete(t.Context(), spec) })
}

func balancedClassic(t *testing.T, c *apitest.Cloud, tag map[string]string) *cloud.LoadBalancerSpec {
	t.Helper()
	group := c.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: c.VPC.ID, Name: "more nodes", Description: "Nodes", Tags: tag}).ID
	i := c.AddInstance(ec2.Instance{Tags: tag, Interfaces: []*ec2.NetworkInterface{{Groups: []string{group}}}})
	members := []cloud.LoadBalancerMember{{Node: cloud.InstanceRef{NodeName: "other", ProviderID: "aws:///" + i.Zone + "/" + i.ID}}}
	return &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{ID: "blue", Name: "kubernetes", UID: "u"}, Namespace: "default", Name: "classic",
			UID: "1f0f0f0f-1234-4abc-9def-0123456789ab", Settings: cloud.Settings{}},
		Ports: []cloud.LoadBalancerPort{{Protocol: "TCP", Port: 80, NodePort: 30180}}, IPFamilies: []corev1.IPFamily{"IPv4"}, Members: members, Candidates: members,
	}
}
