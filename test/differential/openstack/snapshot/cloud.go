package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	sdk "github.com/gophercloud/gophercloud/v2/openstack"
)

// Cloud is access to a project's networks and load balancers, as its user has it.
type Cloud struct {
	Network, LoadBalancer *gophercloud.ServiceClient
}

// Login logs in.
func Login(ctx context.Context, options gophercloud.AuthOptions, region string) (*Cloud, error) {
	client, err := sdk.AuthenticatedClient(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", options.Username, err)
	}
	where := gophercloud.EndpointOpts{Region: region}
	c := &Cloud{}
	if c.Network, err = sdk.NewNetworkV2(client, where); err != nil {
		return nil, err
	}
	c.LoadBalancer, err = sdk.NewLoadBalancerV2(client, where)
	return c, err
}

// list reads a whole collection; its key is the last part of path but for what keys says.
func (c *Cloud) list(ctx context.Context, service *gophercloud.ServiceClient, key string, path ...string) ([]Object, error) {
	var doc map[string]json.RawMessage
	if err := Call(ctx, service, http.MethodGet, nil, &doc, path...); err != nil {
		return nil, err
	}
	var out []Object
	if err := json.Unmarshal(doc[key], &out); err != nil {
		return nil, fmt.Errorf("%v: %w", path, err)
	}
	return out, nil
}

// Make creates an object and returns how the cloud shows it.
func (c *Cloud) Make(ctx context.Context, service *gophercloud.ServiceClient, key string, body Object, path ...string) (Object, error) {
	var doc map[string]Object
	if err := Call(ctx, service, http.MethodPost, map[string]any{key: body}, &doc, path...); err != nil {
		return nil, err
	}
	return doc[key], nil
}

// Call makes one request.
func Call(ctx context.Context, service *gophercloud.ServiceClient, method string, body, into any, path ...string) error {
	opts := &gophercloud.RequestOpts{OkCodes: []int{200, 201, 202, 204}, JSONBody: body, JSONResponse: into}
	resp, err := service.Request(ctx, method, service.ServiceURL(path...), opts)
	if err != nil {
		return fmt.Errorf("%s %v: %w", method, path, err)
	}
	if into == nil {
		return resp.Body.Close()
	}
	return nil
}

// active waits until a load balancer takes changes.
func (c *Cloud) active(ctx context.Context, id string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		var doc map[string]Object
		if err := Call(ctx, c.LoadBalancer, http.MethodGet, nil, &doc, "lbaas", "loadbalancers", id); err != nil {
			return err
		}
		switch doc["loadbalancer"]["provisioning_status"] {
		case "ACTIVE":
			return nil
		case "ERROR":
			return fmt.Errorf("load balancer %s is in status ERROR", id)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("load balancer %s: %w", id, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// Busy says which load balancer is still changing, "" for none.
func (c *Cloud) Busy(ctx context.Context) (string, error) {
	lbs, err := c.list(ctx, c.LoadBalancer, "loadbalancers", "lbaas", "loadbalancers")
	if err != nil {
		return "", err
	}
	for _, lb := range lbs {
		if s := Text(lb, "provisioning_status"); s != "ACTIVE" && s != "ERROR" {
			return fmt.Sprintf("load balancer %s is %s", Text(lb, "name"), s), nil
		}
	}
	return "", nil
}
