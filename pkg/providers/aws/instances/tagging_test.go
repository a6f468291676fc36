package instances_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/instances"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

var userTags = map[string]string{"team": "blue", "cost": "42"}

const clusterTag = "kubernetes.io/cluster/" + cluster

// tagged adds instances of the cluster, and returns their provider IDs.
func tagged(w *world, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "aws:///eu-central-1a/" + w.AddInstance(ec2.Instance{Tags: map[string]string{"Name": fmt.Sprint(i), "team": "red", clusterTag: "owned"}}).ID
	}
	return out
}

func tagsOf(t *testing.T, w *world, id string) map[string]string {
	t.Helper()
	found, err := w.EC2.Instances([]string{strings.TrimPrefix(id, "aws:///eu-central-1a/")})
	if err != nil {
		t.Fatal(err)
	}
	out := maps.Clone(found[0].Tags)
	delete(out, clusterTag)
	return out
}

func count(actions []string) map[string]int {
	out := map[string]int{}
	for _, a := range actions {
		out[a]++
	}
	return out
}

func TestInstancesAreTaggedByThousands(t *testing.T) {
	w := newWorld(t, "")
	ids := tagged(w, 1001)
	w.Requests()
	for k, err := range w.Tag(t.Context(), append(ids, ids[0]), userTags) {
		if err != nil {
			t.Fatalf("%d: %v", k, err)
		}
	}
	if diff := cmp.Diff(map[string]int{"CreateTags": 2, "DescribeInstances": 2}, count(w.Actions())); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for k, id := range ids {
		if got := tagsOf(t, w, id); !maps.Equal(got, map[string]string{"Name": fmt.Sprint(k), "team": "blue", "cost": "42"}) {
			t.Fatalf("%d: %v", k, got)
		}
	}
	if err := w.EC2.CreateTags([]string{strings.TrimPrefix(ids[1], "aws:///eu-central-1a/")}, map[string]string{"team": "green"}); err != nil {
		t.Fatal(err)
	}
	for k, err := range w.Untag(t.Context(), ids[:2], userTags) {
		if err != nil {
			t.Fatalf("%d: %v", k, err)
		}
	}
	if a, b := tagsOf(t, w, ids[0]), tagsOf(t, w, ids[1]); !maps.Equal(a, map[string]string{"Name": "0"}) || !maps.Equal(b, map[string]string{"Name": "1", "team": "green"}) {
		t.Errorf("%v, %v", a, b)
	}
	if diff := cmp.Diff(map[string]int{"DeleteTags": 1, "DescribeInstances": 1}, count(w.Actions())); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestOneThatIsGoneKeepsNoOtherFromItsTags(t *testing.T) {
	w := newWorld(t, "")
	ids := append(tagged(w, 250), "aws:///eu-central-1a/i-0123456789abcdef1", "openstack:///x")
	w.EC2.Terminate(strings.TrimPrefix(ids[249], "aws:///eu-central-1a/")) // which EC2 shows for an hour
	w.Requests()
	for k, err := range w.Tag(t.Context(), ids, userTags) {
		want := map[int]cloud.Kind{250: cloud.KindNotFound, 251: cloud.KindInvalid}[k]
		if cloud.KindOf(err) != want || (err == nil) != (k < 250) {
			t.Errorf("%d: %v", k, err)
		}
	}
	if diff := cmp.Diff(map[string]int{"CreateTags": 1, "DescribeInstances": 2}, count(w.Actions())); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := tagsOf(t, w, ids[249]); got["team"] != "blue" {
		t.Errorf("%v", got)
	}
	for _, err := range w.Untag(t.Context(), ids[250:251], userTags) {
		if !cloud.IsNotFound(err) {
			t.Errorf("%v", err)
		}
	}
}

// TestOnlyInstancesOfTheClusterAreTagged: a Node may name any instance of the account. One that joins may not have the cluster's tag
// yet, but is in its VPC.
func TestOnlyInstancesOfTheClusterAreTagged(t *testing.T) {
	w := newWorld(t, "")
	other := w.EC2.AddVPC(ec2.VPC{}).ID
	w.EC2.AddSubnet(ec2.Subnet{VPCID: other, CIDR: "10.0.0.0/18", Zone: "eu-central-1a"})
	of := func(vpc, key string) string {
		i := ec2.Instance{VPCID: vpc, Tags: map[string]string{"team": "blue"}}
		if key != "" {
			i.Tags[key] = "owned"
		}
		return "aws:///eu-central-1a/" + w.AddInstance(i).ID
	}
	ids := []string{of(w.VPC.ID, ""), of(other, clusterTag), of(w.VPC.ID, "kubernetes.io/cluster/other"), of(other, "")}
	for k, err := range w.Tag(t.Context(), ids, userTags) {
		if refused := k > 1; refused != (cloud.KindOf(err) == cloud.KindConflict) || !refused && err != nil {
			t.Errorf("%d: %v", k, err)
		}
		if got := tagsOf(t, w, ids[k]); (got["cost"] == "42") != (k < 2) {
			t.Errorf("%d: %v", k, got)
		}
	}
	for k, err := range w.Untag(t.Context(), ids, userTags) {
		if refused := k > 1; refused != (cloud.KindOf(err) == cloud.KindConflict) || !refused && err != nil {
			t.Errorf("%d: %v", k, err)
		}
		if got := tagsOf(t, w, ids[k]); (got["team"] == "blue") != (k > 1) {
			t.Errorf("%d: %v", k, got)
		}
	}
}

func TestInstanceOfProviderIDs(t *testing.T) {
	w := newWorld(t, "")
	for in, want := range map[string]string{
		"aws:///eu-central-1a/i-0123456789abcdef0": "i-0123456789abcdef0", "aws:////i-0123456789abcdef0": "i-0123456789abcdef0",
		"i-0123456789abcdef0": "i-0123456789abcdef0", "aws:///a/i-012": "i-012", "openstack:///x": "openstack:///x", "": "",
	} {
		if got := w.InstanceOf(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestTagsFailTogether(t *testing.T) {
	w := newWorld(t, "")
	ids := tagged(w, 2)
	w.Fail("CreateTags", apitest.Fault{Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "m"})
	for k, err := range w.Tag(t.Context(), ids, userTags) {
		if cloud.KindOf(err) != cloud.KindThrottled {
			t.Errorf("%d: %v", k, err)
		}
	}
}

func TestTagsInADryRun(t *testing.T) {
	w := newWorld(t, "")
	c, cfg := w.Client(conf, cloud.Options{DryRun: true})
	dry := instances.New(c, &cfg.Global, func() string { return cluster }, w.vpc)
	ids := tagged(w, 1)
	for _, err := range dry.Tag(t.Context(), ids, userTags) {
		if err != nil {
			t.Error(err)
		}
	}
	if got := tagsOf(t, w, ids[0])["team"]; got != "red" {
		t.Errorf("team %s", got)
	}
}
