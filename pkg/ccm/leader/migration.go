package leader

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/cloud-provider/names"
	cmconfig "k8s.io/controller-manager/config"
	"k8s.io/controller-manager/pkg/leadermigration"
	migrationconfig "k8s.io/controller-manager/pkg/leadermigration/config"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// Component is what a LeaderMigrationConfiguration calls us.
const Component = "cloud-controller-manager"

// migration says which lease guards which controller; the zero value puts all under the main one.
type migration struct {
	// lease is the name of the second lease; empty for none.
	lease  string
	filter leadermigration.FilterFunc
}

// loadMigration reads the leader migration configuration, if that is turned on, into the
// component configuration, where /configz shows it.
func loadMigration(o *options.Options) (migration, error) {
	g := &o.Component.Generic
	if !leadermigration.Enabled(g) {
		return migration{}, nil
	}
	config := migrationconfig.DefaultLeaderMigrationConfiguration()
	if o.LeaderMigrationFile != "" {
		var err error
		if config, err = migrationconfig.ReadLeaderMigrationConfiguration(o.LeaderMigrationFile); err != nil {
			return migration{}, fmt.Errorf("--leader-migration-config: %w", err)
		}
	}
	if errs := migrationconfig.ValidateLeaderMigrationConfiguration(config); len(errs) > 0 {
		return migration{}, fmt.Errorf("--leader-migration-config: %w", errs.ToAggregate())
	}
	if config.ResourceLock != migrationconfig.ResourceLockLeases {
		return migration{}, fmt.Errorf("--leader-migration-config: resourceLock must be leases, not %q", config.ResourceLock)
	}
	if l := g.LeaderElection; config.LeaderName == l.ResourceName {
		return migration{}, errors.New("--leader-migration-config: leaderName must differ from --leader-elect-resource-name: " + l.ResourceName)
	}
	if err := checkMigratedNodeIPAM(o, config.ControllerLeaders); err != nil {
		return migration{}, err
	}
	g.LeaderMigration = *config
	canonical := *config
	canonical.ControllerLeaders = slices.Clone(config.ControllerLeaders)
	for k, leader := range canonical.ControllerLeaders {
		canonical.ControllerLeaders[k] = cmconfig.ControllerLeaderConfiguration{Name: migratedController(leader.Name), Component: leader.Component}
	}
	return migration{
		lease:  config.LeaderName,
		filter: leadermigration.NewLeaderMigrator(&canonical, Component).FilterFunc,
	}, nil
}

// checkMigratedNodeIPAM refuses a leader migration that forgets the controller: then
// kube-controller-manager and this process would allocate at the same time.
func checkMigratedNodeIPAM(o *options.Options, leaders []cmconfig.ControllerLeaderConfiguration) error {
	named := slices.ContainsFunc(leaders, func(l cmconfig.ControllerLeaderConfiguration) bool {
		return migratedController(l.Name) == options.NodeIPAMController
	})
	if named || !o.NodeIPAMEnabled() {
		return nil
	}
	return fmt.Errorf("--leader-migration-config: name %s in controllerLeaders: it is on here, and nothing keeps kube-controller-manager's from allocating at the same time", options.NodeIPAMController)
}

// migratedController is the controller that a LeaderMigrationConfiguration means. The framework's
// default, and every configuration that was written after kube-controller-manager's names,
// says service-controller and route-controller, by which no cloud controller manager has a
// controller.
func migratedController(name string) string {
	switch name {
	case "service-controller":
		return names.ServiceLBController
	case "route-controller":
		return names.NodeRouteController
	}
	return options.CanonicalName(strings.TrimSpace(name))
}

// under returns those of controllers that run under the main lease, or under the second one.
func (m migration) under(second bool, controllers []string) []string {
	if m.filter == nil {
		if second {
			return nil
		}
		return controllers
	}
	want := leadermigration.FilterResult(leadermigration.ControllerNonMigrated)
	if second {
		want = leadermigration.ControllerMigrated
	}
	var out []string
	for _, c := range controllers {
		if m.filter(c) == want {
			out = append(out, c)
		}
	}
	return out
}
