package cloudtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// ensuring answers Ensure; nothing else.
type ensuring struct {
	cloud.LoadBalancers
	ensure func() error
}

func (e ensuring) Ensure(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	return &cloud.LoadBalancerStatus{}, e.ensure()
}

// nowhere is a World without a load balancer.
type nowhere struct{ World }

func (nowhere) LoadBalancerID(*cloud.LoadBalancerStatus) string { return "" }

// A check without the cloud that does not agree with Ensure is no lack of the cloud's, but wrong.
func TestCheckLoadBalancerMustAgree(t *testing.T) {
	refuse := func(cloud.LoadBalancerSpec) field.ErrorList {
		return field.ErrorList{field.Forbidden(field.NewPath("spec"), "no")}
	}
	pass := func(cloud.LoadBalancerSpec) field.ErrorList { return nil }
	refusal := func(*process) error { return cloud.Errorf(cloud.KindUnsupported, "no") }
	for name, tt := range map[string]struct {
		check  func(cloud.LoadBalancerSpec) field.ErrorList
		ensure func(*process) error
		calls  int64 // by the check
		want   string
	}{
		"both do":                  {check: pass, ensure: func(*process) error { return nil }},
		"both refuse":              {check: refuse, ensure: refusal},
		"no check":                 {ensure: refusal},
		"only the check refuses":   {check: refuse, ensure: func(*process) error { return nil }, want: "Ensure does what CheckLoadBalancer refuses"},
		"only Ensure refuses":      {check: pass, ensure: refusal, want: "Ensure refuses without asking the cloud"},
		"the cloud refuses":        {check: pass, ensure: func(p *process) error { p.calls.Add(1); return refusal(p) }},
		"the cloud is down":        {check: pass, ensure: func(*process) error { return errors.New("down") }},
		"the check asks the cloud": {check: pass, ensure: func(*process) error { return nil }, calls: 2, want: "CheckLoadBalancer made 2 calls"},
		"the check sees what Plan has": {check: func(s cloud.LoadBalancerSpec) field.ErrorList {
			if s.Cluster.UID != "" || len(s.Members) > 0 {
				return refuse(s)
			}
			return nil
		}, ensure: func(*process) error { return nil }},
	} {
		ct := &T{Ctx: t.Context()}
		p := &process{}
		p.Provider = &cloud.Provider{LoadBalancers: ensuring{ensure: func() error { return tt.ensure(p) }}}
		if tt.check != nil {
			p.CheckLoadBalancer = func(spec *cloud.LoadBalancerSpec) (field.ErrorList, []string) {
				p.calls.Add(tt.calls)
				return tt.check(*spec), nil
			}
		}
		s := &service{t: ct, x: &suite{Setup: Setup{World: nowhere{}}}, spec: &cloud.LoadBalancerSpec{
			LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{UID: "u"}}, Members: make([]cloud.LoadBalancerMember, 1)}}
		_ = s.tryEnsure(t.Context(), p)
		if got := strings.Join(ct.spoiled, "; "); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// What a busy cloud does not answer is asked again, what it refuses is not.
func TestOnlyOutagesAreTriedAgain(t *testing.T) {
	down, refused := errors.New("down"), cloud.Errorf(cloud.KindInvalid, "no")
	for name, tt := range map[string]struct {
		answers []error // the last one is repeated
		calls   int
		want    error
	}{
		"served":         {answers: []error{nil}, calls: 1},
		"comes back":     {answers: []error{down, down, nil}, calls: 3},
		"stays down":     {answers: []error{down}, calls: 1 + outages, want: down},
		"refuses":        {answers: []error{refused}, calls: 1, want: refused},
		"down, then not": {answers: []error{down, refused}, calls: 2, want: refused},
	} {
		calls := 0
		err := (&suite{Setup: Setup{Patience: time.Minute}}).patiently(t.Context(), func(context.Context) error {
			calls++
			return tt.answers[min(calls, len(tt.answers))-1]
		})
		if calls != tt.calls || !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: got %v after %d calls, want %v after %d", name, err, calls, tt.want, tt.calls)
		}
	}
}
