package cloud_test

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestJudge(t *testing.T) {
	const own, id = "cluster-uid", "prod"
	ref := cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: "kubernetes", UID: own, ID: id}, Namespace: "default", Name: "web", UID: "web-uid"}
	name, shown, both := cloud.Evidence{NameFits: true}, cloud.Evidence{Published: true}, cloud.Evidence{NameFits: true, Published: true}
	for _, tt := range []struct {
		name string
		mark cloud.Mark
		with cloud.Evidence
		want cloud.Ownership
	}{
		{"nothing", cloud.Mark{}, cloud.Evidence{}, cloud.Foreign},
		{"the name alone", cloud.Mark{}, name, cloud.Foreign},
		{"what a user has written alone", cloud.Mark{}, shown, cloud.Foreign},
		{"name and what is shown, of another manager", cloud.Mark{}, both, cloud.Adopt},
		{"the Service's mark without a cluster", cloud.Mark{Service: "default/web"}, name, cloud.Foreign},
		{"the Service's mark without a cluster, shown", cloud.Mark{Service: "default/web"}, both, cloud.Adopt},
		{"the cluster's mark alone", cloud.Mark{ClusterUID: own}, cloud.Evidence{}, cloud.Foreign},
		{"the cluster's mark, shown by another Service", cloud.Mark{ClusterUID: own}, shown, cloud.Foreign},
		{"the cluster's mark and the name", cloud.Mark{ClusterUID: own}, name, cloud.Ours},
		{"both marks", cloud.Mark{ClusterUID: own, Service: "default/web"}, cloud.Evidence{}, cloud.Ours},
		{"all marks", cloud.Mark{ClusterUID: own, ClusterID: id, Service: "default/web", ServiceUID: "web-uid"}, cloud.Evidence{}, cloud.Ours},
		{"the cluster's name in the cloud", cloud.Mark{ClusterID: id, ServiceUID: "web-uid"}, cloud.Evidence{}, cloud.Ours},
		{"another cluster of the same name", cloud.Mark{ClusterUID: "other", Service: "default/web", ServiceUID: "web-uid"}, both, cloud.Foreign},
		{"another cluster by its name in the cloud", cloud.Mark{ClusterUID: own, ClusterID: "test", Service: "default/web"}, both, cloud.Foreign},
		{"another Service", cloud.Mark{ClusterUID: own, Service: "default/api"}, both, cloud.Foreign},
		{"a Service of this name that is gone", cloud.Mark{ClusterUID: own, Service: "default/web", ServiceUID: "old-uid"}, both, cloud.Foreign},
	} {
		if got := cloud.Judge(tt.mark, tt.with, ref); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	unknown := ref
	unknown.Cluster.UID = ""
	if got := cloud.Judge(cloud.Mark{ClusterUID: own, Service: "default/web"}, both, unknown); got != cloud.Foreign {
		t.Errorf("a cluster that does not know itself: %d, want Foreign", got)
	}
}
