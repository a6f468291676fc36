package script

import "github.com/isthmus-cloud/isthmus/test/differential/steps"

// leftServices are Services that become another controller's, or have been: by their type, or by a class, which can change only
// together with the type of the Service.
func leftServices() Group {
	const clusterIP = `{"spec":{"type":"ClusterIP","ports":[{"name":"p0","port":80,"nodePort":null}]}}`
	const otherClass = `{"spec":{"type":"LoadBalancer","loadBalancerClass":"example.org/other","ports":[{"name":"p0","port":80,"nodePort":{port+0}}]}}`
	external, network := annotate(notes{"type": "external"}), annotate(notes{"type": "nlb"})
	var all []Scenario
	one := func(name string, a notes, s ...Step) {
		all = append(all, Scenario{Name: name, Services: []steps.Service{{Annotations: prefix.All(a)}}, Steps: s})
	}
	one("c-left", nil, external)
	one("c-left-back", nil, external, remove("type"))
	one("c-left-gone", nil, external, service(steps.Step{Delete: true}))
	one("n-left", notes{"type": "nlb"}, external)
	one("n-left-type", notes{"type": "nlb"}, annotate(notes{"type": "nlb-ip"}), patch(clusterIP))
	one("n-left-before", notes{"type": "external"}, network)
	one("n-class-later", notes{"type": "nlb"}, patch(clusterIP), patch(otherClass))
	return Group{Name: "left", Conf: "[Global]\nNLBSecurityGroupMode = Managed\n", Controllers: serviceController, Nodes: workers(), Joins: third(),
		Scenarios: all}
}
