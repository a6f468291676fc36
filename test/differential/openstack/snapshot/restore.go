package snapshot

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Restore makes in the cloud what a State holds, and gives symbols their new values.
func (c *Cloud) Restore(ctx context.Context, symbols *symbol.Symbols, s *State) error {
	for _, p := range s.Ports {
		made, err := c.create(ctx, symbols, c.Network, "port", p, []string{"ports"}, "tags", "security_groups") // a VIP's port has Octavia's group
		if err != nil {
			return err
		}
		symbols.Add("port:"+Text(p, "name"), Text(made, "id"))
	}
	for _, lb := range s.LoadBalancers {
		if err := c.restoreLB(ctx, symbols, lb); err != nil {
			return err
		}
	}
	for _, f := range s.FloatingIPs {
		if err := c.restoreFIP(ctx, symbols, f); err != nil {
			return err
		}
	}
	for _, g := range s.SecurityGroups {
		if err := c.RestoreGroup(ctx, symbols, g); err != nil {
			return err
		}
	}
	return nil
}

// create makes an object from its normal form without some keys.
func (c *Cloud) create(ctx context.Context, symbols *symbol.Symbols, service *gophercloud.ServiceClient, key string, o Object, path []string, leave ...string) (Object, error) {
	body, err := symbols.ExpandAll(without(o, leave...))
	if err != nil {
		return nil, err
	}
	made, err := c.Make(ctx, service, key, body.(map[string]any), path...)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", Compact(o), err)
	}
	return made, nil
}

func (c *Cloud) restoreLB(ctx context.Context, symbols *symbol.Symbols, lb Object) error {
	leave := []string{"error"}
	if strings.HasPrefix(Text(lb, "vip_address"), "{vip:") {
		leave = append(leave, "vip_address")
	}
	if Text(lb, "vip_port_id") != "" {
		leave = append(leave, "vip_subnet_id")
	}
	made, err := c.create(ctx, symbols, c.LoadBalancer, "loadbalancer", without(lb, leave...), []string{"lbaas", "loadbalancers"})
	if err != nil {
		return err
	}
	name := Text(lb, "name")
	symbols.Add("lb:"+name, Text(made, "id"))
	symbols.Add("vipport:"+name, Text(made, "vip_port_id"))
	if v := Text(lb, "vip_address"); strings.HasPrefix(v, "{") {
		symbols.Add(strings.Trim(v, "{}"), Text(made, "vip_address"))
	}
	return c.active(ctx, Text(made, "id"))
}

func (c *Cloud) restoreFIP(ctx context.Context, symbols *symbol.Symbols, f Object) error {
	address := Text(f, "floating_ip_address")
	leave := []string{"tags"}
	if _, err := symbols.Expand(address); err != nil || strings.HasPrefix(address, "{fip:") {
		leave = append(leave, "floating_ip_address")
	}
	made, err := c.create(ctx, symbols, c.Network, "floatingip", f, []string{"floatingips"}, leave...)
	if err != nil {
		return err
	}
	if strings.HasPrefix(address, "{") {
		symbols.Add(strings.Trim(address, "{}"), Text(made, "floating_ip_address"))
	}
	return c.tag(ctx, symbols, "floatingips", Text(made, "id"), f)
}

// tag puts the tags of a normal form on an object.
func (c *Cloud) tag(ctx context.Context, symbols *symbol.Symbols, collection, id string, o Object) error {
	if len(texts(o, "tags")) == 0 {
		return nil
	}
	tags, err := symbols.ExpandAll(o["tags"])
	if err != nil {
		return err
	}
	return Call(ctx, c.Network, http.MethodPut, map[string]any{"tags": tags}, nil, collection, id, "tags")
}

// RestoreGroup makes a security group from its normal form.
func (c *Cloud) RestoreGroup(ctx context.Context, symbols *symbol.Symbols, g Object) error {
	made, err := c.create(ctx, symbols, c.Network, "security_group", g, []string{"security-groups"}, "rules", "ports", "tagged", "tags")
	if err != nil {
		return err
	}
	id := Text(made, "id")
	symbols.Add("sg:"+inSymbol(Text(g, "name")), id)
	for _, r := range objects(made, "security_group_rules") { // those that every group begins with
		if err := Call(ctx, c.Network, http.MethodDelete, nil, nil, "security-group-rules", Text(r, "id")); err != nil {
			return err
		}
	}
	for _, r := range objects(g, "rules") {
		rule := without(r)
		rule["security_group_id"] = id
		if _, err := c.create(ctx, symbols, c.Network, "security_group_rule", rule, []string{"security-group-rules"}); err != nil {
			return err
		}
	}
	for _, p := range texts(g, "ports") {
		port, err := symbols.Expand(p)
		if err != nil {
			return err
		}
		var doc map[string]Object
		if err := Call(ctx, c.Network, http.MethodGet, nil, &doc, "ports", port); err != nil {
			return err
		}
		groups := append(texts(doc["port"], "security_groups"), id)
		if err := Call(ctx, c.Network, http.MethodPut, map[string]any{"port": map[string]any{"security_groups": groups}}, nil, "ports", port); err != nil {
			return err
		}
	}
	for _, p := range texts(g, "tagged") {
		port, err := symbols.Expand(p)
		if err != nil {
			return err
		}
		if err := Call(ctx, c.Network, http.MethodPut, nil, nil, "ports", port, "tags", id); err != nil {
			return err
		}
	}
	return c.tag(ctx, symbols, "security-groups", id, g)
}
