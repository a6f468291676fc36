package main

import (
	"context"
	"fmt"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	openstackrecord "github.com/isthmus-cloud/isthmus/test/differential/openstack/record"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/record"
)

// ofOpenStack is OpenStack, whose existing manager is openstack-cloud-controller-manager.
func ofOpenStack(s *settings) cloud {
	c := cloud{plane: play.PlaneOptions()}
	all, out := script.Groups(), s.out
	if s.real {
		all, out = script.RealGroups(), recording.SimulatorLike(s.out)
	}
	groups := map[string]*script.Group{}
	for _, g := range all {
		c.groups, groups[g.Name] = append(c.groups, g.Name), &g
	}
	c.record = func(ctx context.Context, r *record.Recorder, name string) (err error) {
		recorder, g := (*openstackrecord.Recorder)(r), groups[name]
		var made *recording.Recording
		if s.back {
			made, err = recording.Read(out, name)
		} else {
			made, err = recorder.Record(ctx, g)
		}
		if err == nil && s.ours != "" && !s.real {
			made.Backs, err = recorder.Back(ctx, g, s.ours)
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d scenarios, %d phases\n", name, len(g.Scenarios), len(g.Phases()))
		return made.Write(out)
	}
	return c
}
