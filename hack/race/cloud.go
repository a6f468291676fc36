package main

import "time"

// cloudKind is a cloud to race on: all that differs from cloud to cloud.
type cloudKind struct {
	// name picks it, provider is the value of --cloud-provider.
	name, provider string
	// other is the short name of the cloud's existing manager, as the table has it.
	other string
	// annotations are those of Services.
	annotations map[string]string
	// note says what has to be known to read the table, "" for nothing.
	note string
	// nodesOnly says that it has no load balancers.
	nodesOnly bool
	// bytes says that those of the answers are counted.
	bytes bool
	// open makes a cloud of its own, in which there is nothing yet.
	open func(delays) (world, error)
}

// delays are how slow a cloud is.
type delays struct {
	// call is what each call takes, pending how long a load balancer is busy after a change.
	call, pending time.Duration
}

// world is the cloud of one contender.
type world interface {
	// config is the content of --cloud-config's file.
	config() string
	// environ are variables that lead a manager to the cloud and log it in.
	environ() []string
	// about names what is simulated, for the table.
	about() string
	// join makes n more machines.
	join(n int) ([]machine, error)
	// leave removes a machine.
	leave(machine) error
	// calls are the calls so far.
	calls() calls
	// behind is in how many pools of load balancers a machine is, and pools how many of them there are.
	behind(machine) (in, pools int)
	// left is how much there is of load balancers and what goes with them.
	left() int
	// busy reports whether a load balancer is still changing.
	busy() bool
	close()
}

// machine is what a Node runs on: id is the cloud's, uuid what its firmware says, which kubelets report.
// address is in its network, where that is of interest.
type machine struct{ id, name, uuid, address string }

// calls are requests to a cloud; a login is a read.
type calls struct {
	reads, writes int
	// open are those that are not answered yet.
	open int
	// bytes are those of the answers, 0 where they are not counted.
	bytes int64
}

func (c calls) minus(before calls) calls {
	return calls{reads: c.reads - before.reads, writes: c.writes - before.writes, open: c.open, bytes: c.bytes - before.bytes}
}

// cloudKinds are all clouds, the default first.
func cloudKinds() []cloudKind {
	return []cloudKind{openStack(), realZed(), amazon(), amazonClassic(), vmware()}
}
