package aws

import (
	"net/http"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2/wire"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	elbwire "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb/wire"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
	elbv2wire "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2/wire"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// place is where state is: an account's region.
type place struct{ account, region string }

// EC2 is what an account has of EC2 in a region. It starts with a default VPC alone.
func (s *Sim) EC2(account, region string) *ec2.Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state(place{account, region}).ec2
}

// ELBv2 is what an account has of Elastic Load Balancing v2 in a region: nothing at first.
func (s *Sim) ELBv2(account, region string) *elbv2.Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state(place{account, region}).elbv2
}

// ELB is what an account has of classic Elastic Load Balancing in a region: nothing at first.
func (s *Sim) ELB(account, region string) *elb.Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state(place{account, region}).elb
}

// state has the services' states of a place.
type state struct {
	ec2   *ec2.Region
	elb   *elb.Region
	elbv2 *elbv2.Region
}

// state is what is in a place. mu held.
func (s *Sim) state(p place) *state {
	if s.states[p] == nil {
		region := ec2.New(p.account, p.region, s.opts.EC2)
		s.states[p] = &state{ec2: region, elb: elb.New(region, s.opts.ELB), elbv2: elbv2.New(region, s.opts.ELBv2)}
	}
	return s.states[p]
}

// Throttle gives each account, in each region, a bucket for an operation ("ec2", "DescribeInstances") of so many requests, which
// fills by so many a second. Who finds it empty is refused. Capacity 0 ends that.
func (s *Sim) Throttle(service, action string, capacity int, perSecond float64) {
	s.buckets.Set(service+":"+action, capacity, perSecond)
}

// queryHandler answers an operation of a service with state of its own.
type queryHandler struct {
	permission string // such as "ec2:DescribeInstances"
	namespace  string
	write      func(in *query.Form, out *query.Writer, at *state) error
}

// serviceOf is the service that a version of a query API belongs to.
func serviceOf(version string) string {
	switch version {
	case wire.Version:
		return "ec2"
	case elbv2wire.Version, elbwire.Version:
		return elbService
	}
	return "sts"
}

// service is what the log calls the call's service.
func (c *call) service() string {
	switch c.version {
	case elbv2wire.Version:
		return "elbv2"
	case elbwire.Version:
		return "elb"
	}
	return c.endpoint.service
}

// queryOf finds the operation of a call; nil for none.
func queryOf(c *call) *handler {
	h := &queryHandler{permission: c.endpoint.service + ":" + c.action}
	switch {
	case c.endpoint.service != serviceOf(c.version):
		return nil
	case c.version == wire.Version:
		operation := wire.Find(c.action)
		if operation == nil {
			return nil
		}
		h.namespace = wire.Namespace
		h.write = func(in *query.Form, out *query.Writer, at *state) error {
			return operation(&wire.Call{In: in, Out: out, Region: at.ec2})
		}
	case c.version == elbwire.Version:
		operation := elbwire.Find(c.action)
		if operation == nil {
			return nil
		}
		h.namespace = elbwire.Namespace
		h.write = func(in *query.Form, out *query.Writer, at *state) error {
			return operation(&elbwire.Call{In: in, Out: out, Region: at.elb})
		}
	case c.version == elbv2wire.Version:
		operation := elbv2wire.Find(c.action)
		if operation == nil {
			return nil
		}
		h.namespace = elbv2wire.Namespace
		h.write = func(in *query.Form, out *query.Writer, at *state) error {
			return operation(&elbv2wire.Call{In: in, Out: out, Region: at.elbv2})
		}
	}
	return &handler{query: h}
}

// admit verifies a call and says which state it is about. What is not permitted is refused.
func (s *Sim) admit(c *call, h *queryHandler) (*state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if c.caller, err = s.verify(c); err != nil {
		return nil, c.plainly(err)
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
	return s.state(p), nil
}

// plainly is an error about credentials as EC2 says it, which has fewer words about them than other services.
func (c *call) plainly(err error) error {
	switch e := asAPIError(err); e.code {
	case "AuthFailure":
		return errorf(http.StatusUnauthorized, e.code, "AWS was not able to validate the provided access credentials")
	case "RequestExpired":
		return errorf(http.StatusBadRequest, e.code, "Request has expired.")
	}
	return err
}

func (s *Sim) runQuery(c *call, h *queryHandler) *reply {
	at, err := s.admit(c, h)
	if err != nil {
		return c.errorReply(err)
	}
	in := query.Parse(c.form)
	if c.endpoint.service == "ec2" && in.Get("DryRun") == "true" {
		return c.errorReply(wire.DryRun())
	}
	item := map[bool]string{true: "item", false: "member"}[c.endpoint.service == "ec2"]
	out := query.NewWriter(item)
	out.Raw(xmlHead)
	out.Open(c.action + `Response xmlns="` + h.namespace + `"`)
	if item == "item" {
		out.Text("requestId", c.id)
	} else {
		out.Open(c.action + "Result")
	}
	if err := h.write(in, out, at); err != nil {
		return c.errorReply(err)
	}
	if s.traffic != nil && c.changed() {
		s.follow()
	}
	if item == "member" {
		out.Close()
		out.Open("ResponseMetadata")
		out.Text("RequestId", c.id)
		out.Close()
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

// elbError is an error as Elastic Load Balancing has it.
func (c *call) elbError(e *apiError) *reply {
	out := query.NewWriter("")
	out.Raw(xmlHead)
	out.Open(`ErrorResponse xmlns="http://elasticloadbalancing.amazonaws.com/doc/` + c.version + `/"`)
	out.Open("Error")
	out.Text("Type", map[bool]string{true: "Receiver", false: "Sender"}[e.status >= http.StatusInternalServerError])
	out.Text("Code", e.code)
	out.Text("Message", e.message)
	out.Close()
	out.Text("RequestId", c.id)
	out.Close()
	return &reply{Status: e.status, ContentType: "text/xml", Body: out.Bytes()}
}

// throttled is the error of a call that comes too soon.
func (c *call) throttled() error {
	if c.endpoint.service == elbService {
		return errorf(http.StatusBadRequest, "Throttling", "Rate exceeded")
	}
	return errorf(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")
}

func (c *call) unknownOperation() error {
	if c.endpoint.service == elbService {
		return errorf(http.StatusBadRequest, "InvalidAction", "Could not find operation %s for version %s", c.action, c.version)
	}
	if c.endpoint.service == "ec2" {
		return errorf(http.StatusBadRequest, "InvalidAction", "The action %s is not valid for this web service.", c.action)
	}
	return errorf(http.StatusBadRequest, "UnknownOperationException", "unknown operation %s", c.action)
}
