// Package dialect is how two services of OpenStack say the same thing alike: Nova and Cinder, which was once a part
// of it, their refusals, links and times; Neutron and Octavia, after its model, their bodies, attributes and queries.
//
// It has no state and knows no service. What only one service says stays with it.
package dialect
