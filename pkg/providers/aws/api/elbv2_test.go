package api_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

// families notes of which family requests are.
type families struct {
	mu  sync.Mutex
	all map[string]int
}

func (f *families) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string]int{}
	}
	f.all[r.Family]++
	return func(cloud.Outcome) {}, nil
}

func TestBalancersComeInPagesAndTagsByTwenty(t *testing.T) {
	c := apitest.StartWith(t, awssim.Options{ELBv2: sim.Options{LoadBalancers: 500}})
	region := c.ELBv2(apitest.Account, apitest.Region)
	for n := range 401 {
		tags := map[string]string{"n": fmt.Sprint(n)}
		if _, err := region.CreateLoadBalancer(sim.LoadBalancer{Name: fmt.Sprint("lb-", n), Type: "network", Tags: tags, Mappings: []sim.Mapping{{SubnetID: c.Subnets[0].ID}}}); err != nil {
			t.Fatal(err)
		}
	}
	seen := &families{}
	client, _ := c.Client("[Global]\nRegion = eu-central-1", cloud.Options{Traffic: seen})
	found, err := client.Balancers(t.Context())
	if n := len(c.Requests()); err != nil || len(found) != 401 || n != 2 {
		t.Fatalf("%d in %d pages, %v", len(found), n, err)
	}
	var arns []string
	for _, b := range found[:50] {
		arns = append(arns, *b.LoadBalancerArn)
	}
	tags, err := client.TagsOf(t.Context(), arns)
	if n := len(c.Requests()); err != nil || n != 3 || len(tags) != 50 || tags[arns[7]]["n"] == "" {
		t.Errorf("tags of %d by %d requests, %v", len(tags), n, err)
	}
	if err := client.DeleteBalancer(t.Context(), arns[3]); err != nil {
		t.Fatal(err)
	}
	tags, err = client.TagsOf(t.Context(), arns)
	if _, ok := tags[arns[3]]; err != nil || ok || len(tags) != 49 {
		t.Errorf("one that is gone keeps the tags of %d others from being read: %v", len(tags), err)
	}
	if seen.all["elasticloadbalancing/change"] != 1 || seen.all["elasticloadbalancing/describe"] < 6 || len(seen.all) != 2 {
		t.Errorf("%v", seen.all)
	}
}

func TestNotFoundOfBalancersIsTheirOwnWord(t *testing.T) {
	c := apitest.Start(t)
	client, _ := c.Client("[Global]\nRegion = eu-central-1", cloud.Options{})
	const arn = "arn:aws:elasticloadbalancing:eu-central-1:111122223333:loadbalancer/net/a/0123456789abcdef"
	if _, err := client.Listeners(t.Context(), arn); !cloud.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if err := client.DeleteBalancer(t.Context(), arn); err != nil {
		t.Error(err)
	}
}

func TestOtherEndpointOfELBv2(t *testing.T) {
	c := apitest.Start(t)
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	client, _ := c.Client("[Global]\nRegion = eu-central-1\n[ServiceOverride \"1\"]\nService = Elastic Load Balancing v2\nRegion = eu-central-1\nURL = "+
		c.URL()+"\nSigningRegion = eu-central-1\n", cloud.Options{})
	if _, err := client.Balancers(t.Context()); err != nil {
		t.Error(err)
	}
}
