package ccm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/cloud-provider/names"
)

func TestCallsEndWithTheTerm(t *testing.T) {
	defer goleak.VerifyNone(t)
	term, end := context.WithCancel(t.Context())
	c := newCalls(term)
	ctx, done, err := c.begin(context.WithoutCancel(t.Context())) // as the framework's own contexts
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	end()
	go func() {
		defer close(ended)
		c.end()
	}()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("a call goes on after the term")
	}
	if !errors.Is(context.Cause(ctx), errTermEnded) {
		t.Errorf("the call ends with %v", context.Cause(ctx))
	}
	select {
	case <-ended:
		t.Fatal("the term ends before the call has returned")
	case <-time.After(20 * time.Millisecond):
	}
	done()
	<-ended
	if _, _, err := c.begin(t.Context()); !errors.Is(err, errTermEnded) {
		t.Errorf("a call after the term: %v", err)
	}
}

// The framework's default configuration names the controllers service-controller and
// route-controller, by which no cloud controller manager has one: with the framework only the
// node lifecycle controller migrates. Here all three do.
func TestComplaintLeaderMigrationNames(t *testing.T) {
	o, err := NewOptions()
	if err != nil {
		t.Fatal(err)
	}
	o.Component.Generic.LeaderMigrationEnabled = true
	m, err := o.loadMigration()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{names.CloudNodeLifecycleController, names.NodeRouteController, names.ServiceLBController}
	if diff := cmp.Diff(want, m.under(true, o.enabledControllers())); diff != "" {
		t.Errorf("controllers under the second lease (-want +got):\n%s", diff)
	}
}

func TestMigration(t *testing.T) {
	const head = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n"
	for _, test := range []struct {
		name, file     string
		first, second  []string
		lease, problem string
		ipam           bool
	}{
		{name: "the framework's default", lease: "cloud-provider-extraction-migration",
			first:  []string{names.CloudNodeController, NodeIPAMController, PersistentVolumeLabelController},
			second: []string{names.CloudNodeLifecycleController, names.NodeRouteController, names.ServiceLBController}},
		{name: "only routes, by an old name", lease: "mine", file: head + "leaderName: mine\ncontrollerLeaders:\n- {name: route, component: cloud-controller-manager}\n",
			first:  []string{names.CloudNodeController, names.CloudNodeLifecycleController, NodeIPAMController, PersistentVolumeLabelController, names.ServiceLBController},
			second: []string{names.NodeRouteController}},
		{name: "still kube-controller-manager's", lease: "mine", file: head + "leaderName: mine\ncontrollerLeaders:\n- {name: service-controller, component: kube-controller-manager}\n",
			first: []string{names.CloudNodeController, names.CloudNodeLifecycleController, NodeIPAMController, names.NodeRouteController, PersistentVolumeLabelController}},
		{name: "node IPAM by kube-controller-manager's old name", ipam: true, lease: "mine", file: head + "leaderName: mine\ncontrollerLeaders:\n- {name: nodeipam, component: '*'}\n",
			first:  []string{names.CloudNodeController, names.CloudNodeLifecycleController, names.NodeRouteController, PersistentVolumeLabelController, names.ServiceLBController},
			second: []string{NodeIPAMController}},
		{name: "node IPAM forgotten", ipam: true, problem: "--leader-migration-config: name node-ipam-controller in controllerLeaders: it is on here, and nothing keeps kube-controller-manager's from allocating at the same time"},
		{name: "no name", file: head + "controllerLeaders: []\n", problem: "--leader-migration-config: leaderName: Required value: leaderName must be set for LeaderMigrationConfiguration"},
		{name: "the main lease", file: head + "leaderName: cloud-controller-manager\n", problem: "--leader-migration-config: leaderName must differ from --leader-elect-resource-name: cloud-controller-manager"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := NewOptions()
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
			m, err := o.loadMigration()
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
			if diff := cmp.Diff(test.first, m.under(false, ControllerNames())); diff != "" {
				t.Errorf("under the main lease (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.second, m.under(true, ControllerNames())); diff != "" {
				t.Errorf("under the second lease (-want +got):\n%s", diff)
			}
		})
	}
	var off migration
	if diff := cmp.Diff(ControllerNames(), off.under(false, ControllerNames())); diff != "" || off.under(true, ControllerNames()) != nil {
		t.Errorf("without migration (-want +got):\n%s", diff)
	}
}
