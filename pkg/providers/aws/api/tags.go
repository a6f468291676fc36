package api

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// MaxCreateTags is how many objects tags can be set on with one call, or removed from.
const MaxCreateTags = 1000

// CreateTags sets tags on objects of EC2, at most MaxCreateTags, all or none: KindNotFound is about one of them.
func (c *Client) CreateTags(ctx context.Context, ids []string, tags map[string]string) error {
	_, _, err := call(ctx, c, opOn("tag", ids), "", func(ctx context.Context, p *place) (*ec2.CreateTagsOutput, error) {
		return p.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: Tags(tags)})
	})
	return err
}

// DeleteTags removes those of the tags from objects of EC2 that have just these values, as CreateTags sets them.
func (c *Client) DeleteTags(ctx context.Context, ids []string, tags map[string]string) error {
	_, _, err := call(ctx, c, opOn("remove tags of", ids), "", func(ctx context.Context, p *place) (*ec2.DeleteTagsOutput, error) {
		return p.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: ids, Tags: Tags(tags)})
	})
	return err
}

// opOn is the operation about one object or several.
func opOn(what string, ids []string) string {
	if len(ids) == 1 {
		return what + " " + ids[0]
	}
	return fmt.Sprintf("%s %d objects", what, len(ids))
}
