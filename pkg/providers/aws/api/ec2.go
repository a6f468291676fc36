package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// MaxFilterValues is how many values the filters of one request may have, together.
	MaxFilterValues = 200
	// MaxTopologyIDs is how many instances DescribeInstanceTopology can be asked about at once.
	MaxTopologyIDs = 100

	pageSize = 1000
	// volumesPageSize is the same of volumes.
	volumesPageSize = 500
	fewest          = 5 // that a page may be asked for
	maxPages        = 1000
)

// Filter makes a filter; an object passes that has one of the values.
func Filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// Instance is one instance and its scope, see cloud.Instance.
type Instance struct {
	types.Instance
	Scope string
}

// Instances reads every page of the instances that pass all filters, terminated ones too. scope is where they are: that of
// those which are missing.
func (c *Client) Instances(ctx context.Context, filters ...types.Filter) (found []Instance, scope string, err error) {
	found, s, err := c.instances(ctx, "list instances", "", &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(pageSize)})
	if err != nil {
		return nil, "", err
	}
	return found, c.scope(s), nil
}

// Instance reads one instance directly. An error of KindNotFound is EC2's own word about it, and has the scope.
func (c *Client) Instance(ctx context.Context, id string) (*Instance, error) {
	const op = "get instance"
	found, s, err := c.instances(ctx, op, id, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if cloud.IsNotFound(err) {
		if c.accounts.of(s.accessKey) == "" {
			_, _, _ = c.Some(ctx) // any instance tells whose the key is; without one it stays unknown
		}
		return nil, &cloud.Error{Kind: cloud.KindNotFound, Scope: c.scope(s), Err: err}
	}
	if err != nil {
		return nil, err
	}
	if len(found) != 1 || aws.ToString(found[0].InstanceId) != id {
		return nil, &cloud.Error{Op: op + " " + id, Err: fmt.Errorf("the answer is about %d instances, and not about this one", len(found))}
	}
	return &found[0], nil
}

// Some reads one page of few instances that pass the filters, which says whether there are any, and where.
func (c *Client) Some(ctx context.Context, filters ...types.Filter) (found []Instance, scope string, err error) {
	const op = "list instances"
	out, s, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*ec2.DescribeInstancesOutput, error) {
		return p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(fewest)})
	})
	if err != nil {
		return nil, "", err
	}
	return c.learn(s, out), c.scope(s), nil
}

// instances also returns the last request, which may be the one that failed.
func (c *Client) instances(ctx context.Context, op, id string, in *ec2.DescribeInstancesInput) (found []Instance, last *sent, err error) {
	err = everyPage(op, func(token *string) (*string, error) {
		out, s, err := call(ctx, c, op, id, func(ctx context.Context, p *place) (*ec2.DescribeInstancesOutput, error) {
			page := *in
			page.NextToken = token
			return p.ec2.DescribeInstances(ctx, &page)
		})
		if last = s; err != nil {
			return nil, err
		}
		found = append(found, c.learn(s, out)...)
		return out.NextToken, nil
	})
	return found, last, err
}

// learn takes the instances out of an answer, and remembers whose they are.
func (c *Client) learn(s *sent, out *ec2.DescribeInstancesOutput) (found []Instance) {
	for _, r := range out.Reservations {
		c.accounts.learn(s.accessKey, aws.ToString(r.OwnerId))
		for _, i := range r.Instances {
			found = append(found, Instance{Instance: i, Scope: scopeOf(aws.ToString(r.OwnerId), s.region)})
		}
	}
	return found
}

// scope is where a request was answered.
func (c *Client) scope(s *sent) string { return scopeOf(c.accounts.of(s.accessKey), s.region) }

// Volumes reads every page of the volumes that pass all filters.
func (c *Client) Volumes(ctx context.Context, filters ...types.Filter) ([]types.Volume, error) {
	return c.volumes(ctx, "list volumes", "", &ec2.DescribeVolumesInput{Filters: filters, MaxResults: aws.Int32(volumesPageSize)})
}

// Volume reads one volume directly. Its KindNotFound is EC2's own word.
func (c *Client) Volume(ctx context.Context, id string) (*types.Volume, error) {
	const op = "get volume"
	found, err := c.volumes(ctx, op, id, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if err != nil {
		return nil, err
	}
	if len(found) != 1 || aws.ToString(found[0].VolumeId) != id {
		return nil, &cloud.Error{Op: op + " " + id, Err: fmt.Errorf("the answer is about %d volumes, and not about this one", len(found))}
	}
	return &found[0], nil
}

func (c *Client) volumes(ctx context.Context, op, id string, in *ec2.DescribeVolumesInput) (found []types.Volume, err error) {
	err = everyPage(op, func(token *string) (*string, error) {
		out, _, err := call(ctx, c, op, id, func(ctx context.Context, p *place) (*ec2.DescribeVolumesOutput, error) {
			page := *in
			page.NextToken = token
			return p.ec2.DescribeVolumes(ctx, &page)
		})
		if err != nil {
			return nil, err
		}
		found = append(found, out.Volumes...)
		return out.NextToken, nil
	})
	return found, err
}

// NetworkNodes reads what the network above instances is, the farthest first, by their IDs, at most MaxTopologyIDs. Those of
// which AWS does not know it are missing.
func (c *Client) NetworkNodes(ctx context.Context, ids []string) (map[string][]string, error) {
	const op = "list the topology of instances"
	nodes := make(map[string][]string, len(ids))
	err := everyPage(op, func(token *string) (*string, error) {
		out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*ec2.DescribeInstanceTopologyOutput, error) {
			return p.ec2.DescribeInstanceTopology(ctx, &ec2.DescribeInstanceTopologyInput{InstanceIds: ids, NextToken: token})
		})
		if err != nil {
			return nil, err
		}
		for _, i := range out.Instances {
			if len(i.NetworkNodes) > 0 {
				nodes[aws.ToString(i.InstanceId)] = i.NetworkNodes
			}
		}
		return out.NextToken, nil
	})
	return nodes, err
}

// everyPage calls read with the token of each page, nil for the first one, until there is none. What a list lacks is taken
// for missing, so that one without an end is an error.
func everyPage(op string, read func(token *string) (next *string, err error)) error {
	seen := map[string]bool{}
	var token *string
	for range maxPages {
		next, err := read(token)
		if err != nil || aws.ToString(next) == "" {
			return err
		}
		if seen[*next] {
			return &cloud.Error{Op: op, Err: errors.New("the pages repeat themselves")}
		}
		seen[*next], token = true, next
	}
	return &cloud.Error{Op: op, Err: fmt.Errorf("more than %d pages", maxPages)}
}

// parameters are those of a request, without what is not set, for the log.
func parameters(in any) string {
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Sprintf("%T", in)
	}
	var fields map[string]any
	if json.Unmarshal(data, &fields) != nil {
		return string(data)
	}
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	data, _ = json.Marshal(fields) //nolint:errchkjson // it was JSON
	return string(data)
}
