package main

import (
	"context"
	"fmt"

	"github.com/isthmus-cloud/isthmus/test/differential/record"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/play"
	vsphererecord "github.com/isthmus-cloud/isthmus/test/differential/vsphere/record"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
)

// ofVSphere is vSphere, whose existing manager is cloud-provider-vsphere's vsphere-cloud-controller-manager.
func ofVSphere(s *settings) cloud {
	c := cloud{plane: play.PlaneOptions()}
	groups := map[string]*script.Group{}
	for _, g := range script.Groups() {
		c.groups, groups[g.Name] = append(c.groups, g.Name), &g
	}
	c.record = func(ctx context.Context, r *record.Recorder, name string) (err error) {
		recorder, g := (*vsphererecord.Recorder)(r), groups[name]
		var made *recording.Recording
		if s.back {
			made, err = recording.Read(s.out, name)
		} else {
			made, err = recorder.Record(ctx, g)
		}
		if err == nil && s.ours != "" {
			made.Backs, err = recorder.Back(ctx, g, s.ours)
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d scenarios, %d phases\n", name, len(g.Scenarios), len(g.Phases()))
		return made.Write(s.out)
	}
	return c
}
