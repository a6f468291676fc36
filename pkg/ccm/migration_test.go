package ccm

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/isthmus-cloud/isthmus/manifests"
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
	o, err := NewOptions()
	if err != nil {
		t.Fatal(err)
	}
	o.Component.Generic.LeaderMigrationEnabled, o.LeaderMigrationFile = true, file
	o.Component.Generic.LeaderElection.LeaderElect = true
	m, err := o.loadMigration()
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"cloud-node-controller", "cloud-node-lifecycle-controller", "service-lb-controller", "node-route-controller", "persistentvolume-label-controller"}
	if got, want := m.under(true, all), all[1:4]; m.lease != "cloud-provider-extraction-migration" || !slices.Equal(got, want) {
		t.Errorf("under the lease %q: %q, want %q", m.lease, got, want)
	}
}
