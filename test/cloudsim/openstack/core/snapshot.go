package core

// Item is one object in a Snapshot.
type Item struct {
	ID, Name string
	// Info is the object's state in short, where there is any.
	Info string
}

// Snapshot is what exists, for assertions that nothing is left behind. Lists are in order of
// creation.
type Snapshot struct {
	// Compute, volume, key manager, identity.
	Servers, Volumes, Secrets, Containers, AppCredentials []Item
	// Network. Ports are all ports, also those of VIPs and routers; Routes are the routers'
	// extra routes: ID is the router, Name "<destination> via <nexthop>". Default security groups are
	// left out of SecurityGroups.
	Networks, Subnets, Ports, Routers, Routes, FloatingIPs, SecurityGroups, SecurityGroupRules []Item
	// Load balancers.
	LoadBalancers, Listeners, Pools, Members, HealthMonitors, L7Policies []Item
}
