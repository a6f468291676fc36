package api

import (
	"context"
	"errors"
	"strings"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

type stackOption = func(*middleware.Stack) error

// sent is what is known of the request that a call made.
type sent struct {
	// object is what the request is about, for the log: an ID.
	object string
	// region is where it went.
	region string
	// accessKey is the ID of the key by which it was signed, and so of the account that answered.
	accessKey string
	// skew is how much this machine's clock was ahead of the service's.
	skew time.Duration
	// server is what the service calls itself in its answer.
	server string
}

type sentKey struct{}

// call makes one call; its error is of the operation op ("get instance"), about the object of that ID if there is one.
func call[Out any](ctx context.Context, c *Client, op, object string, send func(context.Context, *place) (Out, error)) (Out, *sent, error) {
	var none Out
	p, err := c.open(ctx)
	if err != nil {
		return none, nil, err
	}
	name := strings.TrimSpace(op + " " + object)
	if err := p.session.Login(ctx); err != nil { // from memory mostly; so what follows is the service's own
		return none, nil, authError(name, err)
	}
	s := &sent{object: object, region: p.region}
	out, err := asIfDone(send(context.WithValue(ctx, sentKey{}, s), p))
	if err != nil {
		return none, s, wrap(name, object, err, p.session)
	}
	return out, s, nil
}

// around is what stands around each request of a client of the service.
func (c *Client) around(service, region string) stackOption {
	return func(stack *middleware.Stack) error {
		var dry error
		if c.dry != nil {
			dry = stack.Initialize.Add(c.dry, middleware.Before)
		}
		return errors.Join(dry,
			stack.Finalize.Insert(c.traffic(service, region), signing, middleware.Before),
			stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("AccessKey", noteAccessKey), signing, middleware.After),
		)
	}
}

// signing is the SDK's name of what signs a request.
const signing = "Signing"

// mutates reports whether an operation changes anything.
func mutates(operation string) bool { return !strings.HasPrefix(operation, "Describe") }

// traffic asks cloud.Traffic before a request is signed, as a signature is good for some minutes only.
func (c *Client) traffic(service, region string) middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc("Traffic", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		r := cloud.Request{Family: service + "/describe", Place: region, Op: awsmiddleware.GetOperationName(ctx)}
		if s, ok := ctx.Value(sentKey{}).(*sent); ok {
			r.Object = s.object
		}
		if r.Mutates = mutates(r.Op); r.Mutates {
			r.Family = service + "/change"
		}
		end, err := c.options.Begin(ctx, r)
		if err != nil {
			return middleware.FinalizeOutput{}, middleware.Metadata{}, err
		}
		out, metadata, err := next.HandleFinalize(ctx, in)
		noteAnswer(ctx, metadata)
		end(outcome(metadata, err))
		return out, metadata, err
	})
}

// outcome is what came of a request.
func outcome(metadata middleware.Metadata, err error) cloud.Outcome {
	o := cloud.Outcome{RequestID: requestID(err)}
	if o.RequestID == "" {
		o.RequestID, _ = awsmiddleware.GetRequestIDMetadata(metadata)
	}
	response, _ := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response)
	var failed *smithyhttp.ResponseError
	if errors.As(err, &failed) {
		response = failed.Response
	}
	if response == nil || response.Response == nil {
		return o
	}
	o.Status = response.StatusCode
	if err != nil && kindOf(err) == cloud.KindThrottled {
		o.Throttled, o.RetryAfter = true, backoff.Asked(response.Header, time.Now())
	}
	return o
}

// noteAnswer notes who has answered, and how far the clocks are apart where the answer says its time.
func noteAnswer(ctx context.Context, metadata middleware.Metadata) {
	s, noted := ctx.Value(sentKey{}).(*sent)
	if !noted {
		return
	}
	there, ok := awsmiddleware.GetServerTime(metadata)
	if here, known := awsmiddleware.GetResponseAt(metadata); ok && known {
		s.skew = here.Sub(there)
	}
	if r, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response); ok && r.Response != nil {
		s.server = r.Header.Get("Server")
	}
}

// noteAccessKey notes by which key a request is signed: credentials may change between two.
func noteAccessKey(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	s, noted := ctx.Value(sentKey{}).(*sent)
	if r, ok := in.Request.(*smithyhttp.Request); ok && noted {
		_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		s.accessKey, _, _ = strings.Cut(credential, "/")
	}
	return next.HandleFinalize(ctx, in)
}
