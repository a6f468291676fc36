package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
)

// there is what Diff has been done for, as the cloud would show it.
func there(w *Wish, members ...string) *Balancer {
	b := &Balancer{ARN: "lb", Name: w.Name, Attributes: NewAttributes()}
	for i, l := range w.Listeners {
		g := *l.Wanted
		g.ARN, g.Balancers = fmt.Sprint("tg", i), []string{"lb"}
		for _, id := range members {
			g.Targets = append(g.Targets, Target{id, g.Port})
		}
		b.Groups = append(b.Groups, &g)
		b.Listeners = append(b.Listeners, Listener{ARN: fmt.Sprint("l", i), Port: l.Port, Protocol: l.Protocol, Certificate: l.Certificate, Policy: l.Policy, Group: g.ARN})
	}
	return b
}

var names = map[Op]string{CreateGroup: "+group", ModifyGroup: "group", SetGroupAttributes: "attributes of", Register: "register", Deregister: "deregister",
	CreateListener: "+listener", ModifyListener: "listener", DeleteListener: "-listener", DeleteGroup: "-group", SetAttributes: "attributes"}

func told(changes []Change) string {
	var out []string
	for _, c := range changes {
		s := names[c.Op]
		switch c.Op {
		case Register, Deregister:
			s = fmt.Sprint(s, " ", c.Targets)
		case CreateListener, ModifyListener, DeleteListener:
			s = fmt.Sprint(s, " ", c.Listener.Port)
		case ModifyGroup, SetGroupAttributes, DeleteGroup:
			s += " " + c.Group.ARN
		}
		out = append(out, strings.TrimSpace(s))
		if c.String() == "" {
			out = append(out, "says nothing")
		}
	}
	return strings.Join(out, ", ")
}

func TestDiff(t *testing.T) {
	two := func(s *cloud.LoadBalancerSpec) {}
	for name, tt := range map[string]struct {
		change func(*cloud.LoadBalancerSpec)
		seen   func(*Balancer)
		want   string
	}{
		"nothing":              {two, func(*Balancer) {}, ""},
		"a new port":           {func(s *cloud.LoadBalancerSpec) { s.Ports = append(s.Ports, tcp("c", 82, 30082)) }, nil, "+group, register [{i-1 30082}], +listener 82"},
		"a port less":          {func(s *cloud.LoadBalancerSpec) { s.Ports = s.Ports[:1] }, nil, "-listener 81, -group tg1"},
		"another port":         {func(s *cloud.LoadBalancerSpec) { s.Ports[1].Port = 82 }, nil, "+listener 82, -listener 81"},
		"another node port":    {func(s *cloud.LoadBalancerSpec) { s.Ports[1].NodePort = 30082 }, nil, "+group, register [{i-1 30082}], listener 81, -group tg1"},
		"node ports exchanged": {func(s *cloud.LoadBalancerSpec) { s.Ports[0].NodePort, s.Ports[1].NodePort = 30081, 30080 }, nil, "listener 80, listener 81"},
		"another check":        {func(s *cloud.LoadBalancerSpec) { s.Settings[annotations.CheckHealthy] = "5" }, nil, "group tg0, group tg1"},
		"another interval": {func(s *cloud.LoadBalancerSpec) { s.Ports, s.Settings[annotations.CheckInterval] = s.Ports[:1], "10" }, func(b *Balancer) {
			b.Listeners, b.Groups = b.Listeners[:1], b.Groups[:1]
		}, "+group, register [{i-1 30080}], listener 80, -group tg0"},
		"a certificate": {func(s *cloud.LoadBalancerSpec) { s.Settings[annotations.Certificate] = "arn" }, nil, "listener 80, listener 81"},
		"attributes": {func(s *cloud.LoadBalancerSpec) {
			s.Settings[annotations.CrossZone], s.Settings[annotations.TargetGroupAttributes] = "true", "proxy_protocol_v2.enabled=true,preserve_client_ip.enabled=true"
		}, func(b *Balancer) {
			for _, g := range b.Groups {
				g.Attributes = NewGroupAttributes()
			}
		}, "attributes of tg0, attributes of tg1, attributes"},
		"targets of others": {two, func(b *Balancer) { b.Groups[0].Targets = []Target{{"i-9", 30080}, {"i-1", 80}} }, "register [{i-1 30080}], deregister [{i-9 30080} {i-1 80}]"},
		"a listener of others": {two, func(b *Balancer) {
			b.Listeners = append(b.Listeners, Listener{ARN: "x", Port: 99, Protocol: protocolTCP, Group: "theirs"})
		}, "-listener 99"},
		"a listener less":   {two, func(b *Balancer) { b.Listeners, b.Groups[1].Balancers = b.Listeners[:1], nil }, "+listener 81"},
		"a listener of UDP": {two, func(b *Balancer) { b.Listeners[1].Protocol = protocolUDP }, "listener 81"},
		"what is left over": {two, func(b *Balancer) {
			b.Groups = append(b.Groups, &TargetGroup{ARN: "old", Port: 1, Protocol: protocolTCP})
		}, "-group old"},
		"what others use": {two, func(b *Balancer) {
			b.Groups = append(b.Groups, &TargetGroup{ARN: "old", Port: 1, Balancers: []string{"other"}})
		}, ""},
		"an interval of others":   {two, func(b *Balancer) { b.Groups[0].Check.Interval = 60 }, "group tg0"},
		"another timeout of AWS'": {two, func(b *Balancer) { b.Groups[0].Check.Timeout = 10 }, ""},
		"names of another time":   {two, func(b *Balancer) { b.Groups[0].Name = "k8s-default-web-0000000000" }, ""},
	} {
		spec := service("default", "web", tcp("a", 80, 30080), tcp("b", 81, 30081))
		seen := there(Resolve(conf(t, ""), spec), "i-1")
		tt.change(spec)
		if tt.seen != nil {
			tt.seen(seen)
		}
		w := Resolve(conf(t, ""), spec)
		for range 2 { // it changes neither
			if got := told(Diff(seen, w, []string{"i-1"})); got != tt.want {
				t.Errorf("%s: %s, want %s", name, got, tt.want)
			}
		}
	}
}

func TestDiffOfANewOne(t *testing.T) {
	spec := service("default", "web", tcp("a", 80, 30080), tcp("b", 81, 30081))
	spec.Settings[annotations.TargetGroupAttributes] = "proxy_protocol_v2.enabled=true"
	w := Resolve(conf(t, ""), spec)
	const want = "+group, attributes of, register [{i-1 30080} {i-2 30080}], +listener 80, +group, attributes of, register [{i-1 30081} {i-2 30081}], +listener 81"
	if got := told(Diff(&Balancer{ARN: "lb", Attributes: NewAttributes()}, w, []string{"i-1", "i-2"})); got != want {
		t.Errorf("%s", got)
	}
}

func TestMembers(t *testing.T) {
	seen := there(Resolve(conf(t, ""), service("default", "web", tcp("a", 80, 30080), tcp("b", 81, 30081))), "i-1", "i-2")
	seen.Groups = append(seen.Groups, &TargetGroup{ARN: "left", Port: 1})
	const want = "register [{i-3 30080}], deregister [{i-1 30080}], register [{i-3 30081}], deregister [{i-1 30081}]"
	if got := told(Members(seen, []string{"i-2", "i-3"})); got != want {
		t.Errorf("%s", got)
	}
}

func TestPortsOnNodes(t *testing.T) {
	w := Resolve(conf(t, ""), service("default", "web", tcp("a", 80, 30081), tcp("b", 81, 30080)))
	ports, protocol := w.NodePorts()
	if !slices.Equal(ports, []int32{30080, 30081}) || protocol != "tcp" || !slices.Equal(w.HealthPorts(), ports) {
		t.Errorf("%v %s, checks %v", ports, protocol, w.HealthPorts())
	}
	w = Resolve(conf(t, "ClusterServiceLoadBalancerHealthProbeMode = Shared\n"), service("default", "web", tcp("a", 80, 30081)))
	if !slices.Equal(w.HealthPorts(), []int32{10256}) {
		t.Errorf("checks %v", w.HealthPorts())
	}
}
