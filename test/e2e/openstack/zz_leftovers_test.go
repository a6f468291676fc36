//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

// TestZNothingIsLeft runs last: after all scenarios the project holds in every service what
// it held before the first one, its network and router, and nothing else.
func TestZNothingIsLeft(t *testing.T) {
	cloud := theCloud(t)
	if err := releaseServers(); err != nil {
		t.Errorf("delete the servers that the tests shared: %v", err)
	}
	net, lb, project := cloud.member.network, cloud.member.loadBalancer, "?project_id="+cloud.member.projectID
	for _, kind := range []struct {
		client    *gophercloud.ServiceClient
		url, key  string
		remaining int
	}{
		{cloud.member.compute, "servers", "servers", 0},
		{cloud.member.blockStorage, "volumes", "volumes", 0},
		{net, "networks" + project, "networks", 1},
		{net, "subnets" + project, "subnets", 1},
		{net, "routers" + project, "routers", 1},
		{net, "ports" + project, "ports", 2}, // the router's and OVN's
		{net, "floatingips" + project, "floatingips", 0},
		{net, "security-groups" + project, "security_groups", 1}, // Neutron's default
		{lb, "lbaas/loadbalancers", "loadbalancers", 0},
		{lb, "lbaas/listeners", "listeners", 0},
		{lb, "lbaas/pools", "pools", 0},
		{lb, "lbaas/healthmonitors", "healthmonitors", 0},
		{cloud.member.keyManager, "secrets", "secrets", 0},
		{cloud.member.keyManager, "containers", "containers", 0},
	} {
		err := poll(t.Context(), patience, func(ctx context.Context) error {
			left, err := objects(ctx, kind.client, kind.url, kind.key)
			if err == nil && len(left) != kind.remaining {
				err = fmt.Errorf("%d %s are left, want %d: %s", len(left), kind.key, kind.remaining, left)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", kind.url, err)
		}
	}
	var router struct {
		Router struct {
			Routes []json.RawMessage
			Tags   []string
		}
	}
	if err := get(t.Context(), net, "routers/"+cloud.routerID, &router); err != nil {
		t.Fatal(err)
	}
	if len(router.Router.Routes)+len(router.Router.Tags) > 0 {
		t.Errorf("the router is left with routes %s and tags %v", router.Router.Routes, router.Router.Tags)
	}
}

func objects(ctx context.Context, client *gophercloud.ServiceClient, url, key string) ([]json.RawMessage, error) {
	answer := map[string]json.RawMessage{}
	if err := get(ctx, client, url, &answer); err != nil {
		return nil, err
	}
	var out []json.RawMessage
	if err := json.Unmarshal(answer[key], &out); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return out, nil
}

func get(ctx context.Context, client *gophercloud.ServiceClient, url string, into any) error {
	resp, err := client.Get(ctx, client.ServiceURL(url), into, &gophercloud.RequestOpts{OkCodes: []int{200}})
	if resp != nil {
		_ = resp.Body.Close()
	}
	return err
}
