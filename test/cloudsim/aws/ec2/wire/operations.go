package wire

import (
	"net/http"
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// Version is the API's.
const Version = "2016-11-15"

// Namespace is that of the answers.
const Namespace = "http://ec2.amazonaws.com/doc/" + Version + "/"

// Call is a request for an operation. What the operation answers is written into Out.
type Call struct {
	In     *query.Form
	Out    *query.Writer
	Region *ec2.Region
}

// Operation does what a request asks for.
type Operation func(*Call) error

var operations = map[string]Operation{
	"AuthorizeSecurityGroupIngress":   (*Call).authorizeIngress,
	"CreateRoute":                     (*Call).createRoute,
	"CreateSecurityGroup":             (*Call).createSecurityGroup,
	"CreateTags":                      (*Call).createTags,
	"DeleteRoute":                     (*Call).deleteRoute,
	"DeleteSecurityGroup":             (*Call).deleteSecurityGroup,
	"DeleteTags":                      (*Call).deleteTags,
	"DescribeAddresses":               (*Call).describeAddresses,
	"DescribeAvailabilityZones":       (*Call).describeZones,
	"DescribeInstances":               (*Call).describeInstances,
	"DescribeInstanceTopology":        (*Call).describeTopology,
	"DescribeNetworkInterfaces":       (*Call).describeInterfaces,
	"DescribeRouteTables":             (*Call).describeRouteTables,
	"DescribeSecurityGroups":          (*Call).describeSecurityGroups,
	"DescribeSubnets":                 (*Call).describeSubnets,
	"DescribeVolumes":                 (*Call).describeVolumes,
	"DescribeVpcs":                    (*Call).describeVPCs,
	"ModifyInstanceAttribute":         (*Call).modifyInstance,
	"ModifyNetworkInterfaceAttribute": (*Call).modifyInterface,
	"ReplaceRoute":                    (*Call).replaceRoute,
	"RevokeSecurityGroupIngress":      (*Call).revokeIngress,
}

// Find returns an operation by its name; nil if there is none.
func Find(name string) Operation { return operations[name] }

// DryRun is the answer to a permitted request that only asks whether it is.
func DryRun() error {
	return &query.Error{Status: http.StatusPreconditionFailed, Code: "DryRunOperation",
		Message: "Request would have succeeded, but DryRun flag is set."}
}

// listing is how an operation lists objects.
type listing[T query.Ordered] struct {
	ids    string // the parameter
	set    string // what messages call it; "" when IDs go with MaxResults
	least  int    // that MaxResults may be
	most   int
	usual  int // page without MaxResults, 0 for all
	fields query.Fields[T]
	find   func(ids []string) ([]T, error)
}

// page is the page of objects that a request asks for, and the next one's token.
func (l *listing[T]) page(c *Call) ([]T, string, error) {
	ids := c.In.Strings(l.ids)
	size := 0
	switch text := c.In.Get("MaxResults"); {
	case text != "":
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return nil, "", query.Errorf("InvalidParameterValue", "Value ( %s ) for parameter maxResults is invalid.", text)
		case len(ids) > 0 && l.set != "":
			return nil, "", query.Errorf("InvalidParameterCombination", "The parameter %s cannot be used with the parameter maxResults",
				l.set)
		case n < l.least:
			return nil, "", query.Errorf("InvalidParameterValue",
				"Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than %d.", n, l.least)
		case n > l.most: // unverified: some operations are said to cut the value down instead
			return nil, "", query.Errorf("InvalidParameterValue",
				"Value ( %d ) for parameter maxResults is invalid. Expecting a value less than or equal to %d.", n, l.most)
		}
		size = n
	case len(ids) == 0:
		size = l.usual
	}
	filters, err := c.In.Filters()
	if err != nil {
		return nil, "", err
	}
	all, err := l.find(ids)
	if err != nil {
		return nil, "", err
	}
	if all, err = query.Apply(filters, l.fields, all); err != nil {
		return nil, "", err
	}
	return query.Page(l.ids, all, size, c.In.Get("NextToken"))
}

// list answers with a page.
func list[T query.Ordered](c *Call, name string, l listing[T], write func(T)) error {
	items, next, err := l.page(c)
	if err != nil {
		return err
	}
	query.List(c.Out, name, items, write)
	c.Out.Text("nextToken", next)
	return nil
}

// done answers an operation that has nothing to say.
func (c *Call) done(err error) error {
	if err == nil {
		c.Out.Bool("return", true)
	}
	return err
}

// required is a parameter that must be there.
func (c *Call) required(name string) (string, error) {
	if v := c.In.Get(name); v != "" {
		return v, nil
	}
	return "", query.Errorf("MissingParameter", "The request must contain the parameter %s", name)
}
