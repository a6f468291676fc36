// Package cluster runs a whole Kubernetes cluster on this machine, as root, for end-to-end tests and
// for a look: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and on each machine a
// kubelet, containerd, CNI's bridge plugin and kube-proxy, all real, with --cloud-provider=external
// where they have it. It needs the namespaces and programs of hack/sandbox.
//
// The cloud is simulated (test/cloudsim/openstack), and so is its network: a bridge that all
// machines are on. What the cloud's API says happens there: its load balancers forward to node ports,
// and its router has the routes that the API was told.
//
// A machine is a set of namespaces with a disk: PowerOff ends all that runs in it at once, as a power
// failure does, and powerOn boots it from what was written.
package cluster
