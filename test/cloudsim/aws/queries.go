package aws

import (
	"net/http"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2/wire"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// place is where state is: an account's region.
type place struct{ account, region string }

// EC2 is what an account has of EC2 in a region. It starts with a default VPC alone.
func (s *Sim) EC2(account, region string) *ec2.Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.region(place{account, region})
}

// region is EC2. mu held.
func (s *Sim) region(p place) *ec2.Region {
	if s.regions[p] == nil {
		s.regions[p] = ec2.New(p.account, p.region, s.opts.EC2)
	}
	return s.regions[p]
}

// Throttle gives each account, in each region, a bucket for an operation ("ec2", "DescribeInstances") of so many requests, which
// fills by so many a second. Who finds it empty is refused. Capacity 0 ends that.
func (s *Sim) Throttle(service, action string, capacity int, perSecond float64) {
	s.buckets.Set(service+":"+action, capacity, perSecond)
}

// queryHandler answers an operation of a service with state of its own.
type queryHandler struct {
	permission string // such as "ec2:DescribeInstances"
	item       string // in the answer's lists
	namespace  string
	write      func(in *query.Form, out *query.Writer, region *ec2.Region) error
}

// serviceOf is the service that a version of a query API belongs to.
func serviceOf(version string) string {
	if version == wire.Version {
		return "ec2"
	}
	return "sts"
}

// service is what the log calls the call's service.
func (c *call) service() string { return c.endpoint.service }

// queryOf finds the operation of a call; nil for none.
func queryOf(c *call) *handler {
	if operation := wire.Find(c.action); c.version == wire.Version && operation != nil {
		return &handler{query: &queryHandler{
			permission: "ec2:" + c.action, item: "item", namespace: wire.Namespace,
			write: func(in *query.Form, out *query.Writer, region *ec2.Region) error {
				return operation(&wire.Call{In: in, Out: out, Region: region})
			},
		}}
	}
	return nil
}

// admit verifies a call and says in which region's state it is. What is not permitted is refused.
func (s *Sim) admit(c *call, h *queryHandler) (*ec2.Region, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if c.caller, err = s.verify(c); err != nil {
		return nil, err
	}
	if err := c.partition(c.caller.region); err != nil {
		return nil, err
	}
	p := place{c.caller.identity.principal.Account, c.caller.region}
	if !s.buckets.Take(c.service()+":"+c.action, p.account+"/"+p.region) {
		return nil, c.throttled()
	}
	if err := c.allow(h.permission, "*"); err != nil {
		return nil, err
	}
	return s.region(p), nil
}

func (s *Sim) runQuery(c *call, h *queryHandler) *reply {
	region, err := s.admit(c, h)
	if err != nil {
		return c.errorReply(err)
	}
	in := query.Parse(c.form)
	if c.endpoint.service == "ec2" && in.Get("DryRun") == "true" {
		return c.errorReply(wire.DryRun())
	}
	out := query.NewWriter(h.item)
	out.Raw(xmlHead)
	out.Open(c.action + `Response xmlns="` + h.namespace + `"`)
	out.Text("requestId", c.id)
	if err := h.write(in, out, region); err != nil {
		return c.errorReply(err)
	}
	out.Close()
	return &reply{Status: http.StatusOK, ContentType: "text/xml;charset=UTF-8", Body: out.Bytes()}
}

const xmlHead = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// ec2Error is an error as EC2 has it.
func (c *call) ec2Error(e *apiError) *reply {
	out := query.NewWriter("")
	out.Raw(xmlHead)
	for _, name := range []string{"Response", "Errors", "Error"} {
		out.Open(name)
	}
	out.Text("Code", e.code)
	out.Text("Message", e.message)
	out.Close()
	out.Close()
	out.Text("RequestID", c.id)
	out.Close()
	return &reply{Status: e.status, ContentType: "text/xml;charset=UTF-8", Body: out.Bytes()}
}

// throttled is the error of a call that comes too soon.
func (c *call) throttled() error {
	return errorf(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")
}

func (c *call) unknownOperation() error {
	if c.endpoint.service == "ec2" {
		return errorf(http.StatusBadRequest, "InvalidAction", "The action %s is not valid for this web service.", c.action)
	}
	return errorf(http.StatusBadRequest, "UnknownOperationException", "unknown operation %s", c.action)
}
