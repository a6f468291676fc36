package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// openStack plays on a simulated OpenStack.
type openStack struct {
	*world
	sim *openstack.Sim
}

func playOpenStack(w *world) []step {
	o := &openStack{world: w}
	return []step{
		{"a simulated OpenStack with 3 servers in 3 zones", o.start},
		{"etcd and kube-apiserver", o.startCluster},
		{"the controller manager, as its own ServiceAccount", o.startManager},
		{"nodes join and are initialized", o.nodesJoin},
		{"pod routes appear on the router", o.routesAppear},
		{"a Service gets an address that reaches a backend", o.serviceWorks},
		{"a server's shutdown is noticed", o.shutdownNoticed},
		{"a server's deletion is noticed", o.deletionNoticed},
		{"a PersistentVolume comes back labeled", o.volumeLabeled},
		{"a private image is pulled with a plugin's credential", o.imagePulled},
		{"the Service's deletion leaves nothing in the cloud", o.serviceDeleted},
	}
}

// start starts the cloud with its servers.
func (o *openStack) start(context.Context) (string, error) {
	sim, err := openstack.Start(openstack.Options{})
	if err != nil {
		return "", err
	}
	o.onClose(func() error { sim.Close(); return nil })
	o.sim = sim
	o.scene = &scene{
		provider: "openstack", region: openstack.Region, conf: sim.CloudConf(), balances: true,
		args:   routed(),
		calls:  func() int { return sim.Count("", "") },
		stop:   func(_ context.Context, m machine) error { sim.StopServer(m.id); return nil },
		remove: func(_ context.Context, m machine) error { sim.DeleteServer(m.id); return nil },
		volume: func(_ context.Context, zone string) (corev1.PersistentVolumeSource, error) {
			return csiVolume("cinder.csi.openstack.org", sim.AddVolume("data", zone).ID), nil
		},
	}
	for _, s := range sim.SeedServers(openstack.Seed{Count: 3, NamePrefix: "node-", Zones: []string{"az1", "az2", "az3"}}) {
		o.scene.machines = append(o.scene.machines, machine{s.ID, s.Name, "openstack:///" + s.ID, s.Zone, s.Addresses[0].String()})
	}
	return "Keystone at " + sim.AuthURL(), nil
}

// routesAppear waits until the router has a route for every node's pod CIDR.
func (o *openStack) routesAppear(ctx context.Context) (string, error) {
	var routes []string
	err := eventually(ctx, func(context.Context) error {
		routes = nil
		for _, r := range o.sim.Snapshot().Routes {
			routes = append(routes, r.Name)
		}
		for i, m := range o.scene.machines {
			destination := fmt.Sprintf("10.244.%d.0/24 via %s", i, m.address)
			if !slices.Contains(routes, destination) {
				return fmt.Errorf("no route %s on the router: it has %v", destination, routes)
			}
		}
		return nil
	})
	return strings.Join(routes, ", "), err
}

// imagePulled starts a private registry whose credential only Barbican knows, runs the
// credential provider as the kubelet does and pulls with what it answers.
func (o *openStack) imagePulled(ctx context.Context) (string, error) {
	password := rand.Text()
	host, err := o.startRegistry(ctx, func(u, p string) bool { return u == "puller" && p == password })
	if err != nil {
		return "", err
	}
	image := host + "/team/app"
	ref, err := name.NewTag(image + ":v1")
	if err != nil {
		return "", err
	}
	basic := &authn.Basic{Username: "puller", Password: password}
	digest, err := push(ctx, ref, remote.WithAuth(basic))
	if err != nil {
		return "", err
	}
	if _, err := remote.Image(ref, remote.WithContext(ctx)); err == nil {
		return "", errors.New("the registry lets anonymous clients pull: this would show nothing")
	}
	payload, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"username": basic.Username, "password": basic.Password}}})
	if err != nil {
		return "", err
	}
	o.sim.AddSecret("registry-credential", "text/plain", payload)
	conf := o.sim.CloudConf() + fmt.Sprintf("\n[Registry %q]\ntype = barbican\nsecret = registry-credential\n", host)
	if err := os.WriteFile(o.file("node-cloud.conf"), []byte(conf), 0o600); err != nil {
		return "", err
	}
	auth, err := o.askPlugin(ctx, image, "--cloud-config="+o.file("node-cloud.conf"))
	if err != nil {
		return "", err
	}
	got, err := remote.Image(ref, remote.WithContext(ctx), remote.WithAuth(auth))
	if err != nil {
		return "", err
	}
	pulled, err := got.Digest()
	if err == nil && pulled.String() != digest {
		err = fmt.Errorf("pulled %s, pushed %s", pulled, digest)
	}
	return ref.String() + " as " + basic.Username, err
}

// serviceDeleted deletes the Service and looks whether the cloud keeps anything of it.
func (o *openStack) serviceDeleted(ctx context.Context) (string, error) {
	if err := o.deleteService(ctx); err != nil {
		return "", err
	}
	left := o.sim.Snapshot()
	var names []string
	for _, items := range [][]openstack.Item{left.LoadBalancers, left.Listeners, left.Pools, left.Members, left.HealthMonitors, left.FloatingIPs, left.SecurityGroups} {
		for _, item := range items {
			names = append(names, item.Name)
		}
	}
	if len(names) > 0 {
		return "", fmt.Errorf("left in the cloud: %s", strings.Join(names, ", "))
	}
	return "no load balancer, floating IP or security group left", nil
}
