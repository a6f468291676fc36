package orphans

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
)

// aws is a world whose cloud is AWS.
func aws(t *testing.T) (*world, *apitest.Cloud) {
	t.Helper()
	w, c := &world{ControlPlane: shared.Plane(t), t: t}, apitest.Start(t)
	c.EC2.AddRoute(c.EC2.MainRouteTable(c.VPC.ID).ID, ec2.Route{Destination: "0.0.0.0/0", GatewayID: "igw-0123456789abcdef0"})
	conf := filepath.Join(t.TempDir(), "cloud.conf")
	w.must(os.WriteFile(conf, []byte("[Global]\nRegion = "+apitest.Region+"\nVPC = "+c.VPC.ID+"\nKubernetesClusterID = blue\nNLBSecurityGroupMode = Managed\n"), 0o600))
	w.reach("aws", conf, "kubernetes")
	return w, c
}

// network has a Service want a network load balancer.
func network(spec *cloud.LoadBalancerSpec) {
	spec.Settings = cloud.Settings{"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}
}

// classic are the Services that classic load balancers are for.
func classic(c *apitest.Cloud) (out []string) {
	all, _ := c.ELB(apitest.Account, apitest.Region).LoadBalancers(nil)
	for _, b := range all {
		out = append(out, b.Tags["kubernetes.io/service-name"])
	}
	slices.Sort(out)
	return out
}

// TestAWSOrphans: of both kinds, never another cluster's with the same ID; what the ID alone speaks for is listed, and stays.
func TestAWSOrphans(t *testing.T) {
	w, c := aws(t)
	other := w.cluster
	other.UID = "ffffffff-0000-4000-8000-000000000002"
	w.service("stays")
	w.made(w.cluster, "stays")
	w.made(w.cluster, "gone", network)
	w.made(w.cluster, "gone2")
	w.made(w.cluster, "former")
	w.made(other, "theirs")
	w.made(other, "theirs2", network)
	region := c.ELB(apitest.Account, apitest.Region)
	all, err := region.LoadBalancers(nil)
	w.must(err)
	for _, b := range all {
		if b.Tags["kubernetes.io/service-name"] == "default/former" { // as the existing manager has made it
			_, err := region.Change(b.Name, func(b *elb.LoadBalancer) error {
				delete(b.Tags, "isthmus-cloud.github.io/cluster-uid")
				return nil
			})
			w.must(err)
		}
	}
	c.Requests()
	out, stderr, code := w.run("", "-o", "json")
	var r struct{ Orphans []orphan }
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
	}
	var found []string
	for _, o := range r.Orphans {
		found = append(found, fmt.Sprint(o.Kind, " of ", o.Service, " ", o.Created != nil && len(o.Addresses) > 0))
	}
	slices.Sort(found)
	if want := []string{"classic load balancer of default/former true", "classic load balancer of default/gone2 true", "network load balancer of default/gone true"}; !slices.Equal(found, want) {
		t.Errorf("orphans %q, want %q", found, want)
	}
	if n := mutations(c.Requests()); n != 0 {
		t.Errorf("%d changing calls", n)
	}
	out, stderr, code = w.run("", "--delete", "--yes", "--not-restored")
	if left := classic(c); code != 1 || !slices.Equal(left, []string{"default/former", "default/stays", "default/theirs"}) || !strings.Contains(stderr, "--same-cluster") {
		t.Errorf("exit code %d, left %q: %s%s", code, left, out, stderr)
	}
	if network, _ := c.ELBv2(apitest.Account, apitest.Region).LoadBalancers(nil, nil); len(network) != 1 {
		t.Errorf("%d network load balancers", len(network))
	}
	if out, stderr, code = w.run("", "--delete", "--yes", "--not-restored", "--same-cluster"); code != 0 || len(classic(c)) != 2 {
		t.Errorf("exit code %d, left %q: %s%s", code, classic(c), out, stderr)
	}
	// Of what is another's nothing was touched, and nothing of ours is left.
	if out, _, _ := w.run("", "-o", "json"); !strings.Contains(out, `"orphans": []`) {
		t.Errorf("orphans: %s", out)
	}
}

// TestAWSRests: of a load balancer that somebody has deleted, or of a deletion that was cut off, AWS does not tell when it was made.
func TestAWSRests(t *testing.T) {
	w, c := aws(t)
	w.made(w.cluster, "gone", network)
	c.AddFault(cloudsim.Fault{Action: "DeleteTargetGroup", Status: http.StatusForbidden, Times: 1})
	if out, _, code := w.run("", "--delete", "--yes", "--not-restored"); code != 1 || !strings.Contains(out, string(failed)) {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, stderr, code := w.run("", "--delete", "--yes")
	if n := strings.Count(out, string(refused)); code != 1 || n != 2 || !strings.Contains(stderr, "does not tell when") {
		t.Errorf("exit code %d, %d refused: %s%s", code, n, out, stderr)
	}
	if out, stderr, code := w.run("", "--delete", "--yes", "--not-restored"); code != 0 || strings.Count(out, string(deleted)) != 2 {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	if out, _, _ := w.run("", "-o", "json"); !strings.Contains(out, `"orphans": []`) {
		t.Errorf("orphans: %s", out)
	}
}

func mutations(all []cloudsim.Request) (n int) {
	for _, r := range all {
		if !strings.HasPrefix(r.Action, "Describe") {
			n++
		}
	}
	return n
}
