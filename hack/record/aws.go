package main

import (
	"context"
	"fmt"

	"github.com/isthmus-cloud/isthmus/test/differential/aws/play"
	awsrecord "github.com/isthmus-cloud/isthmus/test/differential/aws/record"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/record"
)

// ofAWS is AWS, whose existing manager is cloud-provider-aws' aws-cloud-controller-manager.
func ofAWS(s *settings) cloud {
	c := cloud{plane: play.PlaneOptions()}
	groups := map[string]*script.Group{}
	for _, g := range script.Groups() {
		c.groups, groups[g.Name] = append(c.groups, g.Name), &g
	}
	c.record = func(ctx context.Context, r *record.Recorder, name string) error {
		recorder, g := (*awsrecord.Recorder)(r), groups[name]
		if s.ours != "" {
			made, err := recorder.Back(ctx, g, s.ours)
			if err != nil {
				return err
			}
			if err := made.Write(s.out); err != nil {
				return err
			}
			fmt.Printf("%s: the way back from %d phases\n", name, len(made.Phases))
		}
		if s.back {
			return nil
		}
		made, err := recorder.Record(ctx, g)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d scenarios, %d phases\n", name, len(g.Scenarios), len(g.Phases()))
		return made.Write(s.out)
	}
	return c
}
