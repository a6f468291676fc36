package leader

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cloud-provider/names"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// TestLeaderMigrationInTree: all that kube-controller-manager did with a cloud inside is under the second lease;
// what it never did, to initialize Nodes that have the taint, is not.
func TestLeaderMigrationInTree(t *testing.T) {
	data, err := fs.ReadFile(manifests.FS(), "examples/leader-migration-in-tree.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "leader-migration.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	o.Component.Generic.LeaderMigrationEnabled, o.LeaderMigrationFile = true, file
	o.Component.Generic.LeaderElection.LeaderElect = true
	m, err := loadMigration(o)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"cloud-node-controller", "cloud-node-lifecycle-controller", "service-lb-controller", "node-route-controller", "persistentvolume-label-controller"}
	if got, want := m.under(true, all), all[1:4]; m.lease != "cloud-provider-extraction-migration" || !slices.Equal(got, want) {
		t.Errorf("under the lease %q: %q, want %q", m.lease, got, want)
	}
}

// The framework's default configuration names the controllers service-controller and
// route-controller, by which no cloud controller manager has one: with the framework only the
// node lifecycle controller migrates. Here all three do.
func TestComplaintLeaderMigrationNames(t *testing.T) {
	o, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	o.Component.Generic.LeaderMigrationEnabled = true
	m, err := loadMigration(o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{names.CloudNodeLifecycleController, names.NodeRouteController, names.ServiceLBController}
	if diff := cmp.Diff(want, m.under(true, o.EnabledControllers())); diff != "" {
		t.Errorf("controllers under the second lease (-want +got):\n%s", diff)
	}
}

func TestMigration(t *testing.T) {
	const head = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n"
	all := []string{names.CloudNodeController, names.CloudNodeLifecycleController, options.NodeIPAMController, names.NodeRouteController, options.PersistentVolumeLabelController, names.ServiceLBController}
	for _, test := range []struct {
		name, file     string
		first, second  []string
		lease, problem string
		ipam           bool
	}{
		{name: "the framework's default", lease: "cloud-provider-extraction-migration",
			first:  []string{names.CloudNodeController, options.NodeIPAMController, options.PersistentVolumeLabelController},
			second: []string{names.CloudNodeLifecycleController, names.NodeRouteController, names.ServiceLBController}},
		{name: "only routes, by an old name", lease: "mine", file: head + "leaderName: mine\ncontrollerLeaders:\n- {name: route, component: cloud-controller-manager}\n",
			first:  []string{names.CloudNodeController, names.CloudNodeLifecycleController, options.NodeIPAMController, options.PersistentVolumeLabelController, names.ServiceLBController},
			second: []string{names.NodeRouteController}},
		{name: "still kube-controller-manager's", lease: "mine", file: head + "leaderName: mine\ncontrollerLeaders:\n- {name: service-controller, component: kube-controller-manager}\n",
			first: []string{names.CloudNodeController, names.CloudNodeLifecycleController, options.NodeIPAMController, names.NodeRouteController, options.PersistentVolumeLabelController}},
		{name: "node IPAM by kube-controller-manager's old name", ipam: true, lease: "mine", file: head + "leaderName: mine\ncontrollerLeaders:\n- {name: nodeipam, component: '*'}\n",
			first:  []string{names.CloudNodeController, names.CloudNodeLifecycleController, names.NodeRouteController, options.PersistentVolumeLabelController, names.ServiceLBController},
			second: []string{options.NodeIPAMController}},
		{name: "node IPAM forgotten", ipam: true, problem: "--leader-migration-config: name node-ipam-controller in controllerLeaders: it is on here, and nothing keeps kube-controller-manager's from allocating at the same time"},
		{name: "no name", file: head + "controllerLeaders: []\n", problem: "--leader-migration-config: leaderName: Required value: leaderName must be set for LeaderMigrationConfiguration"},
		{name: "the main lease", file: head + "leaderName: cloud-controller-manager\n", problem: "--leader-migration-config: leaderName must differ from --leader-elect-resource-name: cloud-controller-manager"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := options.New()
			if err != nil {
				t.Fatal(err)
			}
			o.Component.Generic.LeaderMigrationEnabled = true
			if test.ipam {
				o.Component.Generic.Controllers = []string{"*", "nodeipam"}
			}
			if test.file != "" {
				o.LeaderMigrationFile = filepath.Join(t.TempDir(), "migration.yaml")
				if err := os.WriteFile(o.LeaderMigrationFile, []byte(test.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m, err := loadMigration(o)
			if test.problem != "" {
				if err == nil || err.Error() != test.problem {
					t.Fatalf("got error %v, want %s", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.lease != test.lease {
				t.Errorf("the second lease is %q, want %q", m.lease, test.lease)
			}
			if diff := cmp.Diff(test.first, m.under(false, all)); diff != "" {
				t.Errorf("under the main lease (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.second, m.under(true, all)); diff != "" {
				t.Errorf("under the second lease (-want +got):\n%s", diff)
			}
		})
	}
	var off migration
	if diff := cmp.Diff(all, off.under(false, all)); diff != "" || off.under(true, all) != nil {
		t.Errorf("without migration (-want +got):\n%s", diff)
	}
}
