package aws_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// ids are those of the instances that a request lists, from all pages.
func (w *world) ids(in *ec2.DescribeInstancesInput) []string {
	w.t.Helper()
	var out []string
	for p := ec2.NewDescribeInstancesPaginator(w.ec2, in); p.HasMorePages(); {
		page := must(p.NextPage(w.t.Context()))(w.t)
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				out = append(out, *i.InstanceId)
			}
		}
	}
	return out
}

func TestInstanceIsShownWithAllThatItHas(t *testing.T) {
	w := newWorld(t, aws.Options{})
	vpc := w.region.AddVPC(sim.VPC{CIDR: "10.0.0.0/16", IPv6CIDR: "2001:db8::/56"})
	subnet := w.region.AddSubnet(sim.Subnet{VPCID: vpc.ID, CIDR: "10.0.1.0/24", Zone: region + "b"})
	nodes := w.region.AddSecurityGroup(sim.SecurityGroup{VPCID: vpc.ID, Name: "nodes", Description: "nodes"})
	added := w.region.AddInstance(sim.Instance{
		SubnetID: subnet.ID, Type: "p5.48xlarge", Spot: true, PlacementGroup: "together",
		Tags: map[string]string{"Name": "a <b> & \"c\"", "kubernetes.io/cluster/one": "owned", "empty": ""},
		Interfaces: []*sim.NetworkInterface{
			{PrivateIPs: []string{"10.0.1.10", "10.0.1.11"}, PublicIP: "203.0.113.7", IPv6: []string{"2001:db8::10"},
				Groups:       []string{nodes.ID},
				IPv6Prefixes: []string{"2001:db8:0:0:1::/80"}},
			{DeviceIndex: 1, NetworkCardIndex: 1, PrivateIPs: []string{"10.0.1.20"}, IPv4Prefixes: []string{"10.0.1.32/28"},
				Attachment: "attaching"},
		},
	})
	out := must(w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{added.ID}}))(t)
	i := out.Reservations[0].Instances[0]
	tags := map[string]string{}
	for _, tag := range i.Tags {
		tags[*tag.Key] = *tag.Value
	}
	got := fmt.Sprintln(*i.InstanceId, i.InstanceType, i.State.Name, *i.State.Code, i.InstanceLifecycle, *i.Placement.GroupName,
		*i.Placement.AvailabilityZone, *i.Placement.AvailabilityZoneId, *i.VpcId, *i.SubnetId,
		*i.PrivateIpAddress, *i.PublicIpAddress, *i.PrivateDnsName, *i.PublicDnsName, *i.Ipv6Address, *i.SourceDestCheck,
		*i.SecurityGroups[0].GroupId, *i.SecurityGroups[0].GroupName, tags)
	want := fmt.Sprintln(added.ID, "p5.48xlarge", "running", 16, "spot", "together", "eu-central-1b", "euc1-az3", vpc.ID,
		subnet.ID,
		"10.0.1.10", "203.0.113.7", "ip-10-0-1-10.eu-central-1.compute.internal",
		"ec2-203-0-113-7.eu-central-1.compute.amazonaws.com",
		"2001:db8::10", true, nodes.ID, "nodes", added.Tags)
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	one, two := i.NetworkInterfaces[0], i.NetworkInterfaces[1]
	got = fmt.Sprintln(one.Status, one.Attachment.Status, *one.Attachment.DeviceIndex, *one.Attachment.NetworkCardIndex,
		len(one.PrivateIpAddresses),
		*one.PrivateIpAddresses[1].PrivateIpAddress, *one.PrivateIpAddresses[0].Primary, *one.Association.PublicIp,
		*one.Ipv6Addresses[0].Ipv6Address,
		*one.Ipv6Prefixes[0].Ipv6Prefix, two.Attachment.Status, *two.Attachment.DeviceIndex,
		*two.Attachment.NetworkCardIndex, *two.Ipv4Prefixes[0].Ipv4Prefix)
	want = "in-use attached 0 0 2 10.0.1.11 true 203.0.113.7 2001:db8::10 2001:db8:0:0:1::/80 attaching 1 1 10.0.1.32/28\n"
	if got != want {
		t.Errorf("interfaces: got %s want %s", got, want)
	}
	named := w.region.AddInstance(sim.Instance{ResourceName: true})
	if want := named.ID + ".eu-central-1.compute.internal"; named.PrivateDNSName != want {
		t.Errorf("resource name: got %s, want %s", named.PrivateDNSName, want)
	}
}

func TestInstancesAreFilteredAndPaged(t *testing.T) {
	w := newWorld(t, aws.Options{})
	var all, even []string
	for n := range 12 {
		i := w.region.AddInstance(sim.Instance{Tags: map[string]string{"Name": fmt.Sprintf("node-%d", n),
			"even": fmt.Sprint(n%2 == 0)}})
		all = append(all, i.ID)
		if n%2 == 0 {
			even = append(even, i.ID)
		}
	}
	w.region.SetState(all[3], sim.Stopped)
	one := must(w.region.Instances(all[5:6]))(t)[0]
	for _, c := range []struct {
		name    string
		filters []types.Filter
		want    []string
	}{
		{"none", nil, all},
		{"private DNS name", []types.Filter{filter("private-dns-name", one.PrivateDNSName)}, all[5:6]},
		{"state", []types.Filter{filter("instance-state-name", "stopped", "stopping")}, all[3:4]},
		{"tag", []types.Filter{filter("tag:even", "true")}, even},
		{"tag and another", []types.Filter{filter("tag:even", "true"), filter("tag:Name", "node-2", "node-3")}, all[2:3]},
		{"wildcard", []types.Filter{filter("tag:Name", "node-?", "none")}, all[:10]},
		{"literal wildcard", []types.Filter{filter("tag:Name", `node-\?`)}, nil},
		{"tag key", []types.Filter{filter("tag-key", "Name")}, all},
		{"other case", []types.Filter{filter("tag-key", "name")}, nil},
		{"VPC", []types.Filter{filter("vpc-id", w.region.DefaultVPC().ID)}, all},
		{"interface", []types.Filter{filter("network-interface.addresses.private-ip-address", one.PrivateIP)}, all[5:6]},
	} {
		if got := w.ids(&ec2.DescribeInstancesInput{Filters: c.filters, MaxResults: sdk.Int32(5)}); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	w.ResetRequests()
	if got := w.ids(&ec2.DescribeInstancesInput{MaxResults: sdk.Int32(5)}); len(got) != 12 || len(w.Requests()) != 3 {
		t.Errorf("%d instances in %d pages, want 12 in 3", len(got), len(w.Requests()))
	}
	if r := w.Requests()[0]; r.Service != "ec2" || r.Action != "DescribeInstances" || r.Host != "ec2.eu-central-1.amazonaws.com" ||
		r.Status != 200 {
		t.Errorf("logged: %+v", r)
	}
}

func TestInstancesPageGoesOnBehindOneThatVanishes(t *testing.T) {
	w := newWorld(t, aws.Options{})
	var all []string
	for range 10 {
		all = append(all, w.region.AddInstance(sim.Instance{}).ID)
	}
	p := ec2.NewDescribeInstancesPaginator(w.ec2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(5)})
	must(p.NextPage(t.Context()))(t)
	w.region.Vanish(all[0], all[4], all[6])
	page := must(p.NextPage(t.Context()))(t)
	if len(page.Reservations) != 4 || *page.Reservations[0].Instances[0].InstanceId != all[5] || p.HasMorePages() {
		t.Errorf("got %d from %s on", len(page.Reservations), *page.Reservations[0].Instances[0].InstanceId)
	}
}

func TestInstancesAreRefusedAsEC2Does(t *testing.T) {
	w := newWorld(t, aws.Options{})
	i := w.region.AddInstance(sim.Instance{})
	many := make([]string, 201)
	for n := range many {
		many[n] = fmt.Sprint("node-", n)
	}
	for _, c := range []struct {
		name, code, message string
		in                  ec2.DescribeInstancesInput
	}{
		{"one unknown", "InvalidInstanceID.NotFound", "The instance ID 'i-0123456789abcdef0' does not exist",
			ec2.DescribeInstancesInput{InstanceIds: []string{i.ID, "i-0123456789abcdef0"}}},
		{"two unknown", "InvalidInstanceID.NotFound", "The instance IDs 'i-0123456789abcdef0, i-0123456789abcdef1' do not exist",
			ec2.DescribeInstancesInput{InstanceIds: []string{"i-0123456789abcdef0", i.ID, "i-0123456789abcdef1"}}},
		{"malformed", "InvalidInstanceID.Malformed", `Invalid id: "i-nonsense"`,
			ec2.DescribeInstancesInput{InstanceIds: []string{"i-0123456789abcdef0", "i-nonsense"}}},
		{"page with IDs", "InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults",
			ec2.DescribeInstancesInput{InstanceIds: []string{i.ID}, MaxResults: sdk.Int32(10)}},
		{"small page", "InvalidParameterValue", "Value ( 1 ) for parameter maxResults is invalid. Expecting a value greater than 5.",
			ec2.DescribeInstancesInput{MaxResults: sdk.Int32(1)}},
		{"large page", "InvalidParameterValue", "", ec2.DescribeInstancesInput{MaxResults: sdk.Int32(1001)}},
		{"token", "InvalidNextToken", "", ec2.DescribeInstancesInput{MaxResults: sdk.Int32(10), NextToken: sdk.String("x")}},
		{"filter", "InvalidParameterValue", "The filter 'color' is invalid",
			ec2.DescribeInstancesInput{Filters: []types.Filter{filter("color", "red")}}},
		{"many values", "FilterLimitExceeded", "The maximum number of filter values specified on a single call is 200",
			ec2.DescribeInstancesInput{Filters: []types.Filter{filter("tag:Name", many...)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.ec2.DescribeInstances(t.Context(), &c.in)
			wantError(t, err, c.code, c.message)
		})
	}
}

func TestTerminatedInstanceStaysAWhileThenVanishes(t *testing.T) {
	w := newWorld(t, aws.Options{EC2: sim.Options{StateDelay: 200 * time.Millisecond, Retention: 700 * time.Millisecond}})
	i := w.region.AddInstance(sim.Instance{PublicIP: "203.0.113.9"})
	in := &ec2.DescribeInstancesInput{InstanceIds: []string{i.ID}}
	state := func() types.Instance {
		return must(w.ec2.DescribeInstances(t.Context(), in))(t).Reservations[0].Instances[0]
	}
	w.region.Terminate(i.ID)
	if got := state(); got.State.Name != types.InstanceStateNameShuttingDown || len(got.NetworkInterfaces) != 1 {
		t.Errorf("at first: %s with %d interfaces", got.State.Name, len(got.NetworkInterfaces))
	}
	waiter := ec2.NewInstanceTerminatedWaiter(w.ec2, func(o *ec2.InstanceTerminatedWaiterOptions) {
		o.MinDelay, o.MaxDelay = 10*time.Millisecond, 20*time.Millisecond
	})
	if err := waiter.Wait(t.Context(), in, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := state(); len(got.NetworkInterfaces) != 0 || got.PrivateIpAddress != nil || got.VpcId != nil ||
		*got.PrivateDnsName != "" || *got.State.Code != 48 {
		t.Errorf("terminated: %+v", got)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, err := w.ec2.DescribeInstances(t.Context(), in)
		if err != nil {
			wantError(t, err, "InvalidInstanceID.NotFound", "")
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a terminated instance stays")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestInstanceStopsAndRunsAgain(t *testing.T) {
	w := newWorld(t, aws.Options{EC2: sim.Options{StateDelay: 50 * time.Millisecond}})
	i := w.region.AddInstance(sim.Instance{PublicIP: "203.0.113.9"})
	in := &ec2.DescribeInstancesInput{InstanceIds: []string{i.ID}}
	w.region.Stop(i.ID)
	stopped := ec2.NewInstanceStoppedWaiter(w.ec2, func(o *ec2.InstanceStoppedWaiterOptions) {
		o.MinDelay, o.MaxDelay = 10*time.Millisecond, 20*time.Millisecond
	})
	if err := stopped.Wait(t.Context(), in, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	got := must(w.ec2.DescribeInstances(t.Context(), in))(t).Reservations[0].Instances[0]
	if got.PublicIpAddress != nil || *got.PrivateIpAddress != i.PrivateIP {
		t.Errorf("stopped: %+v", got)
	}
	w.region.Run(i.ID)
	running := ec2.NewInstanceRunningWaiter(w.ec2, func(o *ec2.InstanceRunningWaiterOptions) {
		o.MinDelay, o.MaxDelay = 10*time.Millisecond, 20*time.Millisecond
	})
	if err := running.Wait(t.Context(), in, 20*time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestNewInstanceIsNotFoundAtFirst(t *testing.T) {
	w := newWorld(t, aws.Options{})
	w.region.SetConsistency(time.Hour)
	i := w.region.AddInstance(sim.Instance{})
	in := &ec2.DescribeInstancesInput{InstanceIds: []string{i.ID}}
	_, err := w.ec2.DescribeInstances(t.Context(), in)
	wantError(t, err, "InvalidInstanceID.NotFound", "")
	_, err = w.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{i.ID},
		Tags: []types.Tag{{Key: sdk.String("a"), Value: sdk.String("b")}}})
	wantError(t, err, "InvalidInstanceID.NotFound", "")
	if got := w.ids(&ec2.DescribeInstancesInput{}); len(got) != 0 {
		t.Errorf("listed: %v", got)
	}
	w.region.SetConsistency(0)
	must(w.ec2.DescribeInstances(t.Context(), in))(t)
}

func TestEC2FaultsReachTheSDK(t *testing.T) {
	w := newWorld(t, aws.Options{}, "ec2:Describe*")
	list := func(client *ec2.Client) error {
		_, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		return err
	}
	_, err := w.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{"i-0123456789abcdef0"},
		Tags: []types.Tag{{Key: sdk.String("a")}}})
	wantStatus(t, err, http.StatusForbidden, "UnauthorizedOperation", "")
	_, err = w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{DryRun: sdk.Bool(true)})
	wantStatus(t, err, http.StatusPreconditionFailed, "DryRunOperation", "")
	_, err = w.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1)})
	wantError(t, err, "InvalidAction", "")
	nobody := ec2.NewFromConfig(w.configOf(aws.Keys{AccessKeyID: "AKIANOBODY", SecretAccessKey: "x"}))
	wantStatus(t, list(nobody), http.StatusUnauthorized, "AuthFailure",
		"AWS was not able to validate the provided access credentials")

	w.Throttle("ec2", "DescribeInstances", 2, 0)
	for range 2 {
		if err := list(w.ec2); err != nil {
			t.Fatal(err)
		}
	}
	wantStatus(t, list(w.ec2), http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")
	w.Throttle("ec2", "DescribeInstances", 0, 0)

	remove := w.AddFault(aws.Fault{Service: "ec2", Action: "DescribeInstances", Status: 503, Code: "RequestLimitExceeded",
		Message: "Request limit exceeded.", Times: 2})
	retrying := w.config.Copy()
	retrying.Retryer = nil
	if err := list(ec2.NewFromConfig(retrying)); err != nil {
		t.Errorf("the SDK did not try again: %v", err)
	}
	remove()
	defer w.AddFault(aws.Fault{Service: "ec2", Latency: 300 * time.Millisecond})()
	began := time.Now()
	if err := list(w.ec2); err != nil || time.Since(began) < 300*time.Millisecond {
		t.Errorf("a slow call: %v after %s", err, time.Since(began))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{}); err == nil {
		t.Error("a call was done though it took too long")
	}
}

func TestEC2IsReachedDirectly(t *testing.T) {
	w := newWorld(t, aws.Options{})
	config := w.config.Copy()
	config.HTTPClient = &http.Client{Transport: patient{http.DefaultTransport}}
	direct := ec2.NewFromConfig(config, func(o *ec2.Options) { o.BaseEndpoint = sdk.String(w.URL()) })
	if got := must(direct.DescribeAvailabilityZones(t.Context(),
		&ec2.DescribeAvailabilityZonesInput{}))(t); len(got.AvailabilityZones) != 3 {
		t.Errorf("%d zones", len(got.AvailabilityZones))
	}
}

func TestAccountsAndRegionsKeepApart(t *testing.T) {
	w := newWorld(t, aws.Options{})
	i := w.region.AddInstance(sim.Instance{})
	other := w.configOf(w.AddUser(aws.Principal{Account: "444455556666", Name: "ccm", Actions: []string{"ec2:*"}}))
	for name, client := range map[string]*ec2.Client{
		"account": ec2.NewFromConfig(other), "region": ec2.NewFromConfig(w.config, func(o *ec2.Options) { o.Region = "us-east-1" }),
	} {
		_, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{i.ID}})
		wantError(t, err, "InvalidInstanceID.NotFound", "")
		out := must(client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}))(t)
		mine := must(w.region.Subnets(nil))(t)
		if len(out.Subnets) != 3 || *out.Subnets[0].SubnetId == mine[0].ID {
			t.Errorf("other %s: %d subnets", name, len(out.Subnets))
		}
	}
}

func TestTopology(t *testing.T) {
	w := newWorld(t, aws.Options{})
	for n := range 25 {
		w.region.AddInstance(sim.Instance{Type: "p5.48xlarge", NetworkNodes: []string{"nn-1", "nn-2", fmt.Sprint("nn-", n)}})
	}
	plain := w.region.AddInstance(sim.Instance{})
	var got []types.InstanceTopology
	pages := 0
	for p := ec2.NewDescribeInstanceTopologyPaginator(w.ec2, &ec2.DescribeInstanceTopologyInput{}); p.HasMorePages(); pages++ {
		got = append(got, must(p.NextPage(t.Context()))(t).Instances...)
	}
	if len(got) != 25 || pages != 2 || strings.Join(got[7].NetworkNodes, " ") != "nn-1 nn-2 nn-7" || *got[7].ZoneId != "euc1-az2" {
		t.Errorf("%d in %d pages: %+v", len(got), pages, got[7])
	}
	out := must(w.ec2.DescribeInstanceTopology(t.Context(),
		&ec2.DescribeInstanceTopologyInput{InstanceIds: []string{plain.ID}}))(t)
	if len(out.Instances) != 0 {
		t.Errorf("%+v", out.Instances)
	}
	w.region.SetTopology(false)
	_, err := w.ec2.DescribeInstanceTopology(t.Context(), &ec2.DescribeInstanceTopologyInput{})
	wantError(t, err, "UnsupportedOperation", "")
}

func TestRegionIsChangedWhileItIsRead(t *testing.T) {
	w := newWorld(t, aws.Options{EC2: sim.Options{StateDelay: time.Millisecond, Retention: time.Millisecond}})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				i := w.region.AddInstance(sim.Instance{})
				_, err := w.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{i.ID},
					Tags: []types.Tag{{Key: sdk.String("a"), Value: sdk.String("b")}}})
				if err != nil {
					t.Error(err)
				}
				w.region.Terminate(i.ID)
			}
		})
		all.Go(func() {
			for range 20 {
				if _, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	time.Sleep(10 * time.Millisecond)
	if left := must(w.region.Instances(nil))(t); len(left) != 0 {
		t.Errorf("%d instances are kept", len(left))
	}
	if subnet := must(w.region.Subnets(nil))(t)[0]; w.region.Available(subnet) != 4091 {
		t.Errorf("%d addresses are free", w.region.Available(subnet))
	}
}

// What is lost was carried out: nobody but the cloud knows.
func TestAnAnswerIsLost(t *testing.T) {
	w := newWorld(t, aws.Options{})
	i := w.region.AddInstance(sim.Instance{})
	w.AddFault(aws.Fault{Action: "CreateTags", Times: 1, Lost: true})
	_, err := w.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{i.ID}, Tags: []types.Tag{{Key: sdk.String("k"), Value: sdk.String("v")}}})
	now, readErr := w.region.Instances([]string{i.ID})
	if err == nil || readErr != nil || now[0].Tags["k"] != "v" {
		t.Errorf("%v, %+v, %v", err, now, readErr)
	}
}
