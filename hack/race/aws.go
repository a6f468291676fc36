package main

import (
	"fmt"
	"strings"

	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

const (
	awsAccount, awsRegion = "111122223333", "eu-central-1"
	awsCluster            = "race"
	awsClusterTag         = "kubernetes.io/cluster/" + awsCluster
	awsManager            = "AWS-CCM"
)

// awsNote is why calls are not a tenth in all rows.
const awsNote = "Ten times fewer calls are not to be had in each row. AWS takes one change for each load balancer, target group, listener and hundred targets " +
	"(of classic load balancers one for each group, its rules, the health check and all instances), whoever asks: where they are made, deleted or joined, both have to make the same ones, and only " +
	"reads can be fewer. After a restart each load balancer's listeners, attributes and targets are read by themselves, as AWS lists them for one at a time."

// amazon is the simulated AWS, with network load balancers. Quotas are the highest that AWS raises them to.
func amazon() cloudKind {
	return cloudKind{name: "aws", provider: "aws", other: awsManager, note: awsNote, open: openAWS,
		annotations: map[string]string{"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}}
}

// amazonClassic is the same with classic load balancers.
func amazonClassic() cloudKind {
	return cloudKind{name: "aws-classic", provider: "aws", other: awsManager, note: awsNote, open: openAWS}
}

func openAWS(d delays) (world, error) {
	const many = 5000
	sim, err := awssim.Start(awssim.Options{
		EC2: ec2.Options{RulesPerGroup: 1000}, ELB: elb.Options{LoadBalancers: many}, ELBv2: elbv2.Options{LoadBalancers: many, Provisioning: d.pending},
	})
	if err != nil {
		return nil, err
	}
	w := &awsWorld{
		sim: sim, region: sim.EC2(awsAccount, awsRegion), classic: sim.ELB(awsAccount, awsRegion), network: sim.ELBv2(awsAccount, awsRegion),
		key: sim.AddUser(awssim.Principal{Account: awsAccount, Name: "race", Actions: []string{"ec2:*", "elasticloadbalancing:*"}}),
	}
	w.vpc = w.region.AddVPC(ec2.VPC{CIDR: "10.0.0.0/16"}).ID
	w.region.AddRoute(w.region.MainRouteTable(w.vpc).ID, ec2.Route{Destination: "0.0.0.0/0", GatewayID: "igw-0000000000000000a"})
	for n, cidr := range []string{"10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18"} {
		w.subnets = append(w.subnets, w.region.AddSubnet(ec2.Subnet{
			VPCID: w.vpc, CIDR: cidr, Zone: w.region.Zones()[n].Name, Tags: map[string]string{awsClusterTag: "shared", "kubernetes.io/role/elb": "1"},
		}).ID)
	}
	w.nodes = w.region.AddSecurityGroup(ec2.SecurityGroup{VPCID: w.vpc, Name: "nodes", Description: "nodes", Tags: map[string]string{awsClusterTag: "owned"}}).ID
	sim.AddFault(awssim.Fault{Latency: d.call})
	w.empty = w.things()
	return w, nil
}

type awsWorld struct {
	sim     *awssim.Sim
	region  *ec2.Region
	classic *elb.Region
	network *elbv2.Region
	key     awssim.Keys
	// vpc, nodes (the Nodes' security group) and subnets are IDs; one subnet is in each zone.
	vpc, nodes string
	subnets    []string
	// empty is how many things there are before anybody makes one.
	empty int
}

func (w *awsWorld) config() string {
	return fmt.Sprintf("[Global]\nZone = %sa\nVPC = %s\nSubnetID = %s\nKubernetesClusterID = %s\n", awsRegion, w.vpc, w.subnets[0], awsCluster)
}

func (w *awsWorld) environ() []string {
	return append(w.sim.Env(), "AWS_ACCESS_KEY_ID="+w.key.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+w.key.SecretAccessKey,
		"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null")
}

func (w *awsWorld) about() string {
	return "simulated AWS (EC2, Elastic Load Balancing v2 and classic)"
}

func (w *awsWorld) join(n int) ([]machine, error) {
	var out []machine
	for k := range n {
		i := w.region.AddInstance(ec2.Instance{
			SubnetID: w.subnets[k%len(w.subnets)], Tags: map[string]string{awsClusterTag: "owned"}, Interfaces: []*ec2.NetworkInterface{{Groups: []string{w.nodes}}},
		})
		out = append(out, machine{id: i.ID, name: i.PrivateDNSName, uuid: "ec2" + strings.TrimPrefix(i.ID, "i-"), address: i.PrivateIP})
	}
	return out, nil
}

func (w *awsWorld) leave(m machine) error {
	w.region.Terminate(m.id)
	return nil
}

func (w *awsWorld) calls() (out calls) {
	for _, r := range w.sim.Requests() {
		switch {
		case r.Service == "imds":
			continue
		case r.Service == "sts" || strings.HasPrefix(r.Action, "Describe"):
			out.reads++
		default:
			out.writes++
		}
		if r.Status == 0 {
			out.open++
		}
	}
	return out
}

// behind counts a listener of a classic load balancer as a pool: it has the load balancer's members.
func (w *awsWorld) behind(m machine) (in, pools int) {
	groups, err := w.network.TargetGroups(nil, nil, "")
	if err != nil {
		return 0, 1
	}
	for _, g := range groups {
		pools++
		for _, t := range g.Targets {
			if t.ID == m.id && !t.Draining() {
				in++
				break
			}
		}
	}
	balancers, err := w.classic.LoadBalancers(nil)
	if err != nil {
		return 0, 1
	}
	for _, b := range balancers {
		pools += len(b.Listeners)
		for _, id := range b.Instances {
			if id == m.id {
				in += len(b.Listeners)
			}
		}
	}
	return in, pools
}

func (w *awsWorld) left() int { return w.things() - w.empty }

// things are load balancers, target groups, security groups and the rules of the Nodes' one.
func (w *awsWorld) things() (n int) {
	classic, _ := w.classic.LoadBalancers(nil)
	network, _ := w.network.LoadBalancers(nil, nil)
	targets, _ := w.network.TargetGroups(nil, nil, "")
	groups, _ := w.region.SecurityGroups(nil)
	for _, g := range groups {
		if g.ID == w.nodes {
			n += len(g.Rules)
		}
	}
	return n + len(classic) + len(network) + len(targets) + len(groups)
}

func (w *awsWorld) busy() bool {
	all, _ := w.network.LoadBalancers(nil, nil)
	for _, b := range all {
		if b.State == "provisioning" {
			return true
		}
	}
	return false
}

func (w *awsWorld) close() { w.sim.Close() }
