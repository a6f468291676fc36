package cloud

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTargets(t *testing.T) {
	node := func(addresses ...string) LoadBalancerMember {
		var m LoadBalancerMember
		for _, a := range addresses {
			m.Addresses = append(m.Addresses, netip.MustParseAddr(a))
		}
		return m
	}
	one, two := node("10.0.0.1", "fd00::1"), node("10.0.0.2", "fd00::2")
	v4, both := []corev1.IPFamily{corev1.IPv4Protocol}, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	for name, tt := range map[string]struct {
		spec     LoadBalancerSpec
		nodePort int32
		have     []string
		want     []string
	}{
		"of the Service's family":          {spec: LoadBalancerSpec{Members: []LoadBalancerMember{one, two}, IPFamilies: v4}, nodePort: 1, want: []string{"10.0.0.1:1", "10.0.0.2:1"}},
		"of both families":                 {spec: LoadBalancerSpec{Members: []LoadBalancerMember{one}, IPFamilies: both}, nodePort: 1, want: []string{"10.0.0.1:1", "[fd00::1]:1"}},
		"no node port":                     {spec: LoadBalancerSpec{Members: []LoadBalancerMember{one}, IPFamilies: v4}},
		"no members":                       {spec: LoadBalancerSpec{Candidates: []LoadBalancerMember{one}, IPFamilies: v4}, nodePort: 1, have: []string{"10.0.0.1:1"}},
		"frozen":                           {spec: LoadBalancerSpec{Frozen: true, Members: []LoadBalancerMember{two}, IPFamilies: v4}, nodePort: 1, have: []string{"10.0.0.1:1"}, want: []string{"10.0.0.2:1"}},
		"frozen, nobody knows the members": {spec: LoadBalancerSpec{Frozen: true, Candidates: []LoadBalancerMember{two}, IPFamilies: v4}, nodePort: 1, have: []string{"10.0.0.1:1", "10.0.0.2:1"}, want: []string{"10.0.0.2:1"}},
		"frozen, all would go":             {spec: LoadBalancerSpec{Frozen: true, Candidates: []LoadBalancerMember{two}, IPFamilies: v4}, nodePort: 1, have: []string{"10.0.0.1:1"}, want: []string{"10.0.0.1:1"}},
	} {
		var have []netip.AddrPort
		for _, h := range tt.have {
			have = append(have, netip.MustParseAddrPort(h))
		}
		var got []string
		for _, a := range tt.spec.Targets(tt.nodePort, have) {
			got = append(got, a.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestReadyOnceAsksUntilTheCloudAnswers(t *testing.T) {
	asked, down := 0, errors.New("down")
	ready := ReadyOnce(func(context.Context) error {
		if asked++; asked < 2 {
			return down
		}
		return nil
	})
	for i, want := range []error{down, nil, nil} {
		if err := ready(t.Context()); !errors.Is(err, want) {
			t.Errorf("probe %d: %v, want %v", i+1, err, want)
		}
	}
	if asked != 2 {
		t.Errorf("the cloud was asked %d times, want 2", asked)
	}
}

type refusing struct{ err error }

func (r refusing) Begin(context.Context, Request) (func(Outcome), error) { return nil, r.err }

func TestOptionsBegin(t *testing.T) {
	end, err := Options{}.Begin(t.Context(), Request{})
	if err != nil || end == nil {
		t.Fatalf("without Traffic: %v", err)
	}
	end(Outcome{})
	busy := Errorf(KindThrottled, "busy")
	if _, err := (Options{Traffic: refusing{busy}}).Begin(t.Context(), Request{}); !errors.Is(err, busy) {
		t.Errorf("Traffic that refuses: %v, want %v", err, busy)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Options{}).Begin(ctx, Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestMarkIsOurs(t *testing.T) {
	ref := LoadBalancerRef{Cluster: Cluster{UID: "u", ID: "i"}, Namespace: "default", Name: "web", UID: "s"}
	if got := Judge(ref.Mark(), Evidence{}, ref); got != Ours {
		t.Errorf("what has the Service's own mark is %v, want Ours", got)
	}
	other := ref
	other.UID = "t"
	if got := Judge(ref.Mark(), Evidence{NameFits: true, Published: true}, other); got != Foreign {
		t.Errorf("what has the mark of a Service before it is %v, want Foreign", got)
	}
}
