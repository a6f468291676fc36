//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/isthmus-cloud/isthmus/test/cluster"
)

// upgradeAndBack upgrades the release to other settings, and rolls it back. Nothing happens to what is in the cloud,
// and what webhooks are trusted by stays.
func upgradeAndBack(t *testing.T, c *cluster.Cluster) {
	objectsBefore, cloudBefore := objects(t, c), c.Cloud.Snapshot()
	if err := c.Install(t.Context(), "logLevel=4"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Helm(t.Context(), "rollback", cluster.Release, "--wait", "--timeout=3m"); err != nil {
		t.Fatal(err)
	}
	if gone := without(objectsBefore, objects(t, c)); len(gone) != 0 {
		t.Errorf("upgrade and rollback have removed %q", gone)
	}
	after := c.Cloud.Snapshot()
	if !slices.Equal(cloudBefore.LoadBalancers, after.LoadBalancers) || !slices.Equal(cloudBefore.FloatingIPs, after.FloatingIPs) || !slices.Equal(cloudBefore.Routes, after.Routes) {
		t.Errorf("upgrade and rollback have changed %v %v %v to %v %v %v", cloudBefore.LoadBalancers, cloudBefore.FloatingIPs, cloudBefore.Routes,
			after.LoadBalancers, after.FloatingIPs, after.Routes)
	}
	checkVolume(t, c, "upgraded")
}

// uninstall removes the release; there is then what was before it, and no more.
func uninstall(t *testing.T, c *cluster.Cluster, before []string) {
	if _, err := c.Helm(t.Context(), "uninstall", cluster.Release, "--wait", "--timeout=3m"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing of the release is left", time.Minute, func(context.Context) error {
		if more := without(objects(t, c), before); len(more) != 0 {
			return fmt.Errorf("left: %q", more)
		}
		return nil
	})
}

// objects are all objects of the cluster but those that come and go by themselves, the namespace, and the lease
// by which managers of all clouds and releases follow one another.
func objects(t *testing.T, c *cluster.Cluster) (names []string) {
	t.Helper()
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := c.Client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains([]string{"events", "pods", "replicasets", "controllerrevisions", "endpoints", "endpointslices", "persistentvolumes", "componentstatuses", "clustertrustbundles"}, r.Name) {
				continue
			}
			found, err := client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("list %s: %v", r.Name, err)
			}
			for _, o := range found.Items {
				if made := r.Name == "serviceaccounts" || r.Name == "configmaps"; made && strings.HasPrefix(o.Namespace, "kube-") {
					continue // of kube-controller-manager, which may have just begun
				}
				if r.Name == "nodes" || r.Name == "csinodes" || o.Namespace == "kube-node-lease" || o.Namespace == "default" || r.Name == "ipaddresses" ||
					r.Name == "namespaces" && o.Name == cluster.Namespace || r.Name == "leases" && o.Name == "cloud-controller-manager" || o.Namespace == cluster.Namespace && (o.Name == "default" || o.Name == "kube-root-ca.crt") {
					continue
				}
				names = append(names, fmt.Sprintf("%s %s/%s", r.Name, o.Namespace, o.Name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// without is a, without b.
func without(a, b []string) (rest []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			rest = append(rest, s)
		}
	}
	return rest
}
