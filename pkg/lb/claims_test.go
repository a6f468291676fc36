package lb

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	plainClass = "isthmus-cloud.github.io/test"
	goldClass  = "isthmus-cloud.github.io/test-gold"
)

// TestClaims: whose a Service is by its finalizers, and what it has when it is served and when it is let go.
func TestClaims(t *testing.T) {
	traits := cloud.LoadBalancerTraits{Classes: cloud.OwnClasses("test", "gold")}
	claims := Claims{Classes: NewClasses(&traits, true), Provider: &cloud.Provider{LoadBalancing: traits}}
	type want struct {
		turn     Turn
		served   []string // its finalizers once it is served
		released []string // and once it is let go
	}
	const other, theirs, gone = "example.org/other", "example.org/class", plainClass + "-old"
	for name, c := range map[string]struct {
		class      string
		finalizers []string
		change     func(*corev1.Service)
		want       want
	}{
		"new":                            {want: want{Serve, []string{Finalizer}, nil}},
		"served":                         {"", []string{other, Finalizer}, nil, want{Serve, []string{other, Finalizer}, []string{other}}},
		"served for a class":             {goldClass, []string{goldClass}, nil, want{Serve, []string{goldClass}, nil}},
		"another class before":           {goldClass, []string{plainClass}, nil, want{Replace, []string{goldClass}, nil}},
		"another class beside it":        {goldClass, []string{plainClass, goldClass}, nil, want{Serve, []string{goldClass}, nil}},
		"goes":                           {"", []string{Finalizer}, going, want{Remove, []string{Finalizer}, nil}},
		"of another type":                {"", []string{Finalizer}, clusterIP, want{Remove, []string{Finalizer}, nil}},
		"of another type, and never had": {"", []string{other}, clusterIP, want{Nothing, []string{other, Finalizer}, []string{other}}},
		"others'":                        {theirs, []string{other}, nil, want{Leave, nil, []string{other}}},
		"others', with the framework's":  {theirs, []string{Finalizer}, nil, want{Leave, nil, []string{Finalizer}}},
		"others', which goes":            {theirs, []string{Finalizer}, going, want{Remove, nil, nil}},
		"others', which had ours":        {theirs, []string{plainClass}, nil, want{Remove, nil, nil}},
		"of a class that is gone":        {gone, []string{gone}, nil, want{Leave, nil, []string{gone}}},
		"its class is gone, and it goes": {gone, []string{gone}, going, want{Strand, nil, []string{gone}}},
	} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Finalizers: c.finalizers}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		if c.class != "" {
			s.Spec.LoadBalancerClass = &c.class
		}
		if c.change != nil {
			c.change(s)
		}
		if got := claims.Turn(s, nil); got != c.want.turn {
			t.Errorf("%s: turn %d, want %d", name, got, c.want.turn)
		}
		if got := claims.Finalizers(s); c.want.served != nil && !slices.Equal(got, c.want.served) {
			t.Errorf("%s: served it has %q, want %q", name, got, c.want.served)
		}
		if got := claims.Released(s); !slices.Equal(got, c.want.released) {
			t.Errorf("%s: let go it has %q, want %q", name, got, c.want.released)
		}
	}
}

// TestTurnKnowsWhatThisProcessHasMade: also where no finalizer tells it.
func TestTurnKnowsWhatThisProcessHasMade(t *testing.T) {
	traits := cloud.LoadBalancerTraits{Classes: cloud.OwnClasses("test", "gold"), Elsewhere: func(s *corev1.Service) string { return s.Annotations["served-by"] }}
	claims := Claims{Classes: NewClasses(&traits, true), Provider: &cloud.Provider{LoadBalancing: traits}}
	gold := goldClass
	made := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	now := func(change func(*corev1.Service)) *corev1.Service {
		s := made.DeepCopy()
		change(s)
		return s
	}
	for name, c := range map[string]struct {
		now  *corev1.Service
		want Turn
	}{
		"as it was":       {made, Serve},
		"another class":   {now(func(s *corev1.Service) { s.Spec.LoadBalancerClass = &gold }), Replace},
		"another type":    {now(clusterIP), Remove},
		"others' by now":  {now(func(s *corev1.Service) { s.Annotations = map[string]string{"served-by": "other"} }), Leave},
		"another's class": {now(func(s *corev1.Service) { s.Spec.LoadBalancerClass = &[]string{"example.org/class"}[0] }), Remove},
	} {
		if got := claims.Turn(c.now, made); got != c.want {
			t.Errorf("%s: turn %d, want %d", name, got, c.want)
		}
	}
}

func going(s *corev1.Service)     { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func clusterIP(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }

// TestExcluded: which Nodes are no candidates, and that it is said why.
func TestExcluded(t *testing.T) {
	address := corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}
	taint := func(key string) corev1.NodeSpec { return corev1.NodeSpec{Taints: []corev1.Taint{{Key: key}}} }
	label := func(value string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Labels: map[string]string{corev1.LabelNodeExcludeBalancers: value}}
	}
	for name, c := range map[string]struct {
		node corev1.Node
		want bool
	}{
		"plain":                      {corev1.Node{Status: address}, false},
		"labeled":                    {corev1.Node{ObjectMeta: label(""), Status: address}, true},
		"labeled with false":         {corev1.Node{ObjectMeta: label("false"), Status: address}, false},
		"going":                      {corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: address}, true},
		"going, says the autoscaler": {corev1.Node{Spec: taint(taintToBeDeleted), Status: address}, true},
		"new":                        {corev1.Node{Spec: taint(taintUninitialized)}, true},
		"new, with an address":       {corev1.Node{Spec: taint(taintUninitialized), Status: address}, false},
	} {
		if why := Excluded(&c.node, cloud.ByInternalIP); (why != "") != c.want {
			t.Errorf("%s: %q", name, why)
		}
	}
}
