package paravirtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/routes"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/supervisor"
)

// diagnosis implements cloud.Provider.Diagnose.
type diagnosis struct {
	client              *supervisor.Client
	cfg                 *config.Config
	machines, balancers supervisor.Resource
}

// use is what is done with a kind of objects, and what does not work without.
type use struct {
	supervisor.Resource
	verbs   []string
	purpose string
}

func (d *diagnosis) run(ctx context.Context) (out cloud.Diagnosis, err error) {
	uses := []use{
		{d.machines, []string{"get", "list"}, "no Node is found"},
		{d.balancers, []string{"get", "list", "create", "update", "delete"}, "Services of type LoadBalancer are not served"},
	}
	if d.cfg.Cluster.Routes {
		uses = append(uses, use{routes.Resource(&d.cfg.Cluster), []string{"list", "create", "delete"}, "there are no pod routes"})
	}
	var errs []error
	for i := range uses {
		problems, err := d.look(ctx, &uses[i])
		out.Problems, errs = append(out.Problems, problems...), append(errs, err)
	}
	problems, err := d.token()
	out.Problems, errs = append(out.Problems, problems...), append(errs, err)
	return out, errors.Join(errs...)
}

// look asks for the rights to a kind of objects, and where they may be listed whether the kind is served.
func (d *diagnosis) look(ctx context.Context, u *use) (problems []cloud.Problem, err error) {
	var lacking []string
	lists := false
	for _, verb := range u.verbs {
		may, err := d.client.May(ctx, verb, u.Resource)
		if err != nil {
			return nil, err
		}
		if !may {
			lacking = append(lacking, verb)
		}
		lists = lists || may && verb == "list"
	}
	object := fmt.Sprintf("%s.%s in %s", u.Plural, u.Group, d.client.Place())
	if len(lacking) > 0 {
		problems = append(problems, cloud.Problem{Object: object, What: "the guest cluster's service account may not " + strings.Join(lacking, ", ") + ": " + u.purpose,
			Next: "give it the Role that the guide of the paravirtual mode shows"})
	}
	if !lists {
		return problems, nil
	}
	err = d.client.Check(ctx, u.Resource)
	switch kind := cloud.KindOf(err); {
	case err == nil:
	case kind == cloud.KindUnavailable || kind == cloud.KindThrottled || ctx.Err() != nil:
		return problems, err
	default:
		problems = append(problems, cloud.Problem{Object: object, What: err.Error() + ": " + u.purpose,
			Next: "correct vmOperatorAPIVersion, routes or enableVPCMode in cloud.conf, as the Supervisor has these kinds: kubectl api-resources"})
	}
	return problems, nil
}

// soon is how long before its end a token should have been renewed: those of an hour are when 12 minutes are left.
const soon = 10 * time.Minute

func (d *diagnosis) token() ([]cloud.Problem, error) {
	ends, err := d.client.TokenEnds()
	if err != nil || ends.IsZero() || time.Until(ends) >= soon {
		return nil, err
	}
	return []cloud.Problem{{Object: "token for " + d.client.Place(), What: "it ends at " + ends.UTC().Format(time.RFC3339) + ", and the file has no newer one", Warning: true,
		Next: "look at who writes the file in credentialsDirectory; where it is a copy, take a new one"}}, nil
}
