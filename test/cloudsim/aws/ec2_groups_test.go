package aws_test

import (
	"fmt"
	"maps"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

func tags(pairs ...string) []types.Tag {
	var out []types.Tag
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return out
}

func TestTagsAreSetAndTakenAway(t *testing.T) {
	w := newWorld(t, aws.Options{})
	one, two := w.region.AddInstance(sim.Instance{Tags: map[string]string{"a": "1"}}), w.region.AddInstance(sim.Instance{})
	both := []string{one.ID, two.ID, one.Interfaces[0].ID}
	has := func(want ...map[string]string) {
		t.Helper()
		for n, i := range must(w.region.Instances(both[:2]))(t) {
			if !maps.Equal(i.Tags, want[n]) {
				t.Errorf("instance %d has %v, want %v", n, i.Tags, want[n])
			}
		}
	}
	must(w.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: both, Tags: tags("a", "2", "b", "")}))(t)
	has(map[string]string{"a": "2", "b": ""}, map[string]string{"a": "2", "b": ""})
	if n := must(w.region.Instances(both[:1]))(t)[0].Interfaces[0]; n.Tags["a"] != "2" {
		t.Errorf("the interface has %v", n.Tags)
	}
	must(w.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: both[:1], Tags: tags("a", "other")}))(t)
	must(w.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: both[:1], Tags: []types.Tag{{Key: sdk.String("b")}}}))(t)
	must(w.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: both[1:2], Tags: tags("a", "2", "b", "")}))(t)
	has(map[string]string{"a": "2"}, map[string]string{})

	create := func(ids []string, tags []types.Tag) error {
		_, err := w.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: ids, Tags: tags})
		return err
	}
	wantError(t, create([]string{one.ID, "i-0123456789abcdef0"}, tags("c", "3")), "InvalidInstanceID.NotFound", "")
	wantError(t, create([]string{"nonsense"}, tags("c", "3")), "InvalidID", "The ID 'nonsense' is not valid")
	wantError(t, create([]string{one.ID}, tags("aws:x", "3")), "InvalidParameterValue",
		"Tag keys starting with 'aws:' are reserved for internal use")
	var many []string
	for n := range 50 {
		many = append(many, fmt.Sprint("k", n), "v")
	}
	wantError(t, create([]string{two.ID, one.ID}, tags(many...)), "TagLimitExceeded", "")
	has(map[string]string{"a": "2"}, map[string]string{})
}

func TestSecurityGroupLives(t *testing.T) {
	w := newWorld(t, aws.Options{EC2: sim.Options{GroupsPerVPC: 3}})
	vpc := w.region.AddVPC(sim.VPC{})
	subnet := w.region.AddSubnet(sim.Subnet{VPCID: vpc.ID, CIDR: "10.0.0.0/24"})
	create := func(name string) (string, error) {
		out, err := w.ec2.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
			GroupName: &name, Description: sdk.String("Security group for Kubernetes ELB (a/b)"), VpcId: &vpc.ID,
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroup,
				Tags: tags("kubernetes.io/cluster/one", "owned")}},
		})
		if err != nil {
			return "", err
		}
		return *out.GroupId, nil
	}
	id := must(create("k8s-elb-a"))(t)
	_, err := create("K8S-elb-a")
	wantError(t, err, "InvalidGroup.Duplicate", "The security group 'K8S-elb-a' already exists for VPC '"+vpc.ID+"'")
	_, err = create("sg-a")
	wantError(t, err, "InvalidParameterValue", "")
	other := must(create("k8s-elb-b"))(t)
	_, err = create("k8s-elb-c")
	wantError(t, err, "SecurityGroupLimitExceeded", "")
	found := must(w.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("tag:kubernetes.io/cluster/one", "owned"), filter("group-name", "k8s-elb-a"),
			filter("vpc-id", vpc.ID)},
	}))(t).SecurityGroups
	if len(found) != 1 || *found[0].GroupId != id || len(found[0].IpPermissions) != 0 ||
		*found[0].IpPermissionsEgress[0].IpProtocol != "-1" {
		t.Errorf("%+v", found)
	}
	remove := func(id string) error {
		_, err := w.ec2.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: &id})
		return err
	}
	must(w.region.Authorize(other, []sim.Rule{{Protocol: "-1", Group: id}}))(t)
	wantError(t, remove(id), "DependencyViolation", "resource "+id+" has a dependent object")
	must(w.region.Revoke(other, []sim.Rule{{Protocol: "-1", Group: id}}))(t)
	n := w.region.AddInterface(sim.NetworkInterface{SubnetID: subnet.ID, Groups: []string{id}, Managed: true,
		RequesterID: "amazon-elb"})
	wantError(t, remove(id), "DependencyViolation", "")
	w.region.RemoveInterface(n.ID)
	if err := remove(id); err != nil {
		t.Error(err)
	}
	wantError(t, remove(id), "InvalidGroup.NotFound", "The security group '"+id+"' does not exist")
	all := must(w.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter("vpc-id",
		vpc.ID), filter("group-name", "default")}}))(t)
	wantError(t, remove(*all.SecurityGroups[0].GroupId), "CannotDelete", "")
}

func permission(protocol string, from, to int32, cidrs ...string) types.IpPermission {
	p := types.IpPermission{IpProtocol: &protocol, FromPort: &from, ToPort: &to}
	for _, cidr := range cidrs {
		p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: &cidr, Description: sdk.String("kubernetes.io/rule/nlb/client=a")})
	}
	return p
}

func TestSecurityGroupRules(t *testing.T) {
	w := newWorld(t, aws.Options{EC2: sim.Options{RulesPerGroup: 5}})
	vpc := w.region.AddVPC(sim.VPC{})
	group := w.region.AddSecurityGroup(sim.SecurityGroup{VPCID: vpc.ID, Name: "nodes", Description: "nodes"}).ID
	source := w.region.AddSecurityGroup(sim.SecurityGroup{VPCID: vpc.ID, Name: "lb", Description: "lb"}).ID
	authorize := func(p ...types.IpPermission) error {
		_, err := w.ec2.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &group,
			IpPermissions: p})
		return err
	}
	revoke := func(p ...types.IpPermission) error {
		_, err := w.ec2.RevokeSecurityGroupIngress(t.Context(), &ec2.RevokeSecurityGroupIngressInput{GroupId: &group,
			IpPermissions: p})
		return err
	}
	show := func() string {
		text := ""
		for _, p := range must(w.ec2.DescribeSecurityGroups(t.Context(),
			&ec2.DescribeSecurityGroupsInput{GroupIds: []string{group}}))(t).SecurityGroups[0].IpPermissions {
			text += fmt.Sprint(*p.IpProtocol, " ", sdk.ToInt32(p.FromPort), "-", sdk.ToInt32(p.ToPort))
			for _, r := range p.IpRanges {
				text += " " + *r.CidrIp + " (" + sdk.ToString(r.Description) + ")"
			}
			for _, r := range p.Ipv6Ranges {
				text += " " + *r.CidrIpv6
			}
			for _, r := range p.UserIdGroupPairs {
				text += " " + *r.GroupId + "@" + *r.UserId
			}
			text += "\n"
		}
		return text
	}
	fromGroup := types.IpPermission{IpProtocol: sdk.String("-1"), UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &source}}}
	six := types.IpPermission{IpProtocol: sdk.String("6"), FromPort: sdk.Int32(80), ToPort: sdk.Int32(80),
		Ipv6Ranges: []types.Ipv6Range{{CidrIpv6: sdk.String("::/0")}}}
	if err := authorize(permission("tcp", 80, 80, "10.0.0.0/8", "192.0.2.0/24"), fromGroup, six, permission("icmp", 3, 4,
		"0.0.0.0/0")); err != nil {
		t.Fatal(err)
	}
	want := "tcp 80-80 10.0.0.0/8 (kubernetes.io/rule/nlb/client=a) 192.0.2.0/24 (kubernetes.io/rule/nlb/client=a) ::/0\n" +
		"-1 0-0 " + source + "@111122223333\nicmp 3-4 0.0.0.0/0 (kubernetes.io/rule/nlb/client=a)\n"
	if got := show(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	again := permission("tcp", 80, 80, "10.0.0.0/8")
	again.IpRanges[0].Description = nil
	wantError(t, authorize(permission("tcp", 81, 81, "10.0.0.0/8"), again), "InvalidPermission.Duplicate",
		`the specified rule "peer: 10.0.0.0/8, TCP, from port: 80, to port: 80, ALLOW" already exists`)
	wantError(t, authorize(permission("tcp", 81, 82, "10.0.0.0/8", "10.1.0.0/16")), "RulesPerSecurityGroupLimitExceeded",
		"The maximum number of rules per security group has been reached.")
	wantError(t, authorize(permission("tcp", 81, 81, "10.0.0.0/8", "10.0.0.0/8")), "InvalidParameterValue",
		"The same permission must not appear multiple times")
	wantError(t, authorize(permission("tcp", 81, 81, "::/0")), "InvalidParameterValue", "CIDR block ::/0 is malformed")
	wantError(t, revoke(permission("tcp", 80, 80, "10.0.0.0/8"), permission("tcp", 81, 81, "10.0.0.0/8")),
		"InvalidPermission.NotFound",
		"The specified rule does not exist in this security group.")
	if got := show(); got != want {
		t.Errorf("a refused call has changed the rules:\n%s", got)
	}
	if err := revoke(again, fromGroup); err != nil {
		t.Fatal(err)
	}
	want = "tcp 80-80 192.0.2.0/24 (kubernetes.io/rule/nlb/client=a) ::/0\nicmp 3-4 0.0.0.0/0 (kubernetes.io/rule/nlb/client=a)\n"
	if got := show(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	byRule := must(w.ec2.DescribeSecurityGroups(t.Context(),
		&ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter("ip-permission.cidr", "192.0.2.0/24")}}))(t)
	if len(byRule.SecurityGroups) != 1 || *byRule.SecurityGroups[0].GroupId != group {
		t.Errorf("%+v", byRule.SecurityGroups)
	}
	_, err := w.ec2.AuthorizeSecurityGroupIngress(t.Context(),
		&ec2.AuthorizeSecurityGroupIngressInput{GroupId: sdk.String("sg-0123456789abcdef0"),
			IpPermissions: []types.IpPermission{fromGroup}})
	wantError(t, err, "InvalidGroup.NotFound", "")
}

func TestRevokeInTheDefaultVPCPassesOver(t *testing.T) {
	w := newWorld(t, aws.Options{})
	group := w.region.AddSecurityGroup(sim.SecurityGroup{Name: "nodes", Description: "nodes"}).ID
	out := must(w.ec2.RevokeSecurityGroupIngress(t.Context(), &ec2.RevokeSecurityGroupIngressInput{
		GroupId: &group, IpPermissions: []types.IpPermission{permission("tcp", 80, 80, "10.0.0.0/8")},
	}))(t)
	if len(out.UnknownIpPermissions) != 1 || *out.UnknownIpPermissions[0].IpRanges[0].CidrIp != "10.0.0.0/8" {
		t.Errorf("%+v", out)
	}
}
